"""Concurrent trainings: the planned jobs, and the failure of one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headlight_model.lab.experiments import scaling
from headlight_model.lab.runner import EXPERIMENTS, all_jobs, planned, run_all
from headlight_model.lab.training import SCHEMES


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
