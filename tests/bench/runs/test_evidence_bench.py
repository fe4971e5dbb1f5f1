"""`python -m bench.evidence` in small, and the texts of its tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.evidence import planted, sections
from bench.evidence.deletion import SHARES, area
from bench.evidence.methods import CONTESTANTS, METHODS, hit
from bench.evidence.planted import DISJOINT, SHARED, TASKS, long_stems
from headlight.runtime.tokenization.sentences import sentence_spans
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 500


def test_a_small_run_reports_every_task_group_and_method(tmp_path: Path) -> None:
    out = tmp_path / "evidence.md"
    command = [sys.executable, "-m", "bench.evidence", "--quick", "--out", str(out)]
    command += ["--bundle", str(bundle_of("docs-rope"))]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))
    cells = {(row["task"], row["group"], row["name"]) for row in run["planted"]["rows"]}
    assert cells == {
        (task, group, name)
        for task in TASKS
        for group in (SHARED, DISJOINT)
        for name in CONTESTANTS
    }
    for row in run["deletion"]["rows"]:
        assert len(row["curve"]) == 1 + len(SHARES)
        assert row["curve"][0]["mean"] > row["curve"][-1]["mean"] - 0.2
    assert {row["place"] for row in run["cost"]["rows"]} == {"in process", "over gRPC"}
    assert all(row["ms"] > 0 for row in run["cost"]["rows"])
    report = out.read_text(encoding="utf-8")
    assert report.count("\n## ") == 4
    assert all(f"| {method} |" in report for method in METHODS)
    names = [row["name"] for row in run["deletion"]["rows"]]
    assert names[: len(names) // (2 * len(TASKS))] == [*dict.fromkeys(names)]
    assert out.with_suffix(".png").stat().st_size > 0


def test_a_later_run_of_one_part_keeps_the_others(tmp_path: Path) -> None:
    out = tmp_path / "evidence.md"
    kept = {"command": "earlier", "machine": "m", "model": "n", "others": 0.0, "query_tokens": 3}
    out.with_suffix(".json").write_text(json.dumps({"cost": {**kept, "rows": []}}))
    command = [sys.executable, "-m", "bench.evidence", "--quick", "--parts", "chunking"]
    command += ["--bundle", str(bundle_of("docs-rope")), "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    report = out.read_text(encoding="utf-8")
    assert "`earlier`" in report
    assert "## Late chunking" in report


def test_planted_answers_are_whole_sentences_in_their_group() -> None:
    cases = planted.all_cases(4)
    assert len(cases) == 4 * 2 * len(TASKS)
    for case in cases:
        spans = sentence_spans(case.passage)
        texts = tuple(case.passage[span.start : span.end] for span in spans)
        assert texts == case.sentences
        common = long_stems(case.query) & long_stems(case.sentences[case.answer])
        assert bool(common) == (case.group == SHARED)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("descriptors", "its description", True),  # only their first letters are equal
        ("several files", "a sorted file", False),  # "file" has four letters
        ("reads paths", "Read the pathname", False),
        ("readHTTPHeaders", "a header", True),
    ],
)
def test_long_words_of_one_stem_count_as_common(one: str, other: str, common: bool) -> None:
    assert bool(long_stems(one) & long_stems(other)) == common


def test_sections_are_spans_of_their_document_without_their_queries() -> None:
    found = sections.documents()
    queries = [each.query for document in found for each in document.sections if each.query]
    assert len(queries) == len(set(queries)) > 100
    for document in found:
        for (start, end), section in zip(document.spans, document.sections, strict=True):
            assert document.text[start:end] == section.text
            assert not section.query or section.query not in section.text


def test_ties_hit_by_chance() -> None:
    weights = np.array([0.5, 0.5, 0.5, 0.1])
    assert hit(weights, 0, 1) == pytest.approx(1 / 3)
    assert hit(weights, 0, 3) == 1
    assert hit(weights, 3, 3) == 0
    assert hit(np.zeros(8), 2, 3) == pytest.approx(3 / 8)


def test_area_is_the_mean_distance_below_random() -> None:
    chance = np.full(1 + len(SHARES), 0.6)
    assert area(chance - 0.2, chance) == pytest.approx(0.2)
    assert area(chance, chance) == 0
