"""Concurrent trainings: the planned jobs, and the failure of one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.experiments import scaling
from lab.runner import EXPERIMENTS, all_jobs, comparisons, planned, run_all
from lab.training import SCHEMES


def test_jobs_cover_every_scheme_and_seed_for_both_experiments() -> None:
    jobs = all_jobs(list(EXPERIMENTS), range(3), quick=False)
    for name, task in (("reversal", "reverse"), ("extrapolation", "recall")):
        found = {
            (job.scheme, job.seed)
            for experiment, job in jobs
            if (experiment, job.task) == (name, task)
        }
        assert found == {(scheme, seed) for scheme in SCHEMES for seed in range(3)}
    assert len({training.name for _, training in jobs}) == len(jobs), (
        "no checkpoint is written over another"
    )


def test_a_quick_run_has_the_same_jobs_with_few_steps() -> None:
    quick = all_jobs(list(EXPERIMENTS), range(1), quick=True)
    whole = all_jobs(list(EXPERIMENTS), range(1), quick=False)
    assert [training.name for _, training in quick] == [training.name for _, training in whole]
    assert 50 * sum(map(planned, quick)) < sum(map(planned, whole))


def test_planned_steps_include_those_after_stretching() -> None:
    [job, *_] = all_jobs(["scaling"], range(1), quick=False)
    assert planned(job) == job[1].steps + len(scaling.KINDS) * scaling.more_steps(job[1]) == 4400


def test_a_failed_training_ends_the_run_with_its_error(tmp_path: Path) -> None:
    [(name, training), *_] = all_jobs(["reversal"], range(1), quick=True)
    broken = dataclasses.replace(training, task="no such task")
    with pytest.raises(KeyError, match="no such task"):
        run_all([(name, broken), *[(name, training)] * 3], tmp_path, workers=1)


def test_one_comparison_trains_its_models_and_writes_no_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lab", "--quick", "--experiment", "concat"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line.split("accuracy")[0].split()[-1] for line in lines] == ["plain", "32", "48"]
    assert not (tmp_path / "docs").exists()
    assert not list(tmp_path.rglob("*.md"))


def test_an_unknown_comparison_is_refused_with_the_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lab", "--experiment", "nothing"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert all(f"'{name}'" in said for name in comparisons())


def test_the_page_of_exercises_names_every_comparison() -> None:
    page = Path(__file__).parents[2] / "docs/guides/exercises.md"
    named = re.search(r"The names are (.*?)\.\n", page.read_text(encoding="utf-8"), re.DOTALL)
    assert named is not None
    assert re.findall(r"`(\w+)`", named[1]) == comparisons()
