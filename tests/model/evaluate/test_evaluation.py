"""The whole evaluation on a library of a few modules.

Also the committed results of the shipped models.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headlight_model.evaluate import __main__ as evaluation
from headlight_model.evaluate.heads import CALLED
from headlight_model.evaluate.task import retrieval_task
from headlight_model.texts.corpus import Part
from headlight_model.train.attention_roles import ROLES
from headlight_model.train.loop import Job, train
from headlight_model.train.recipe import QUICK
from tests.model.word_teacher import WordTeacher

ROOT = Path(__file__).parents[3]


@pytest.mark.usefixtures("small_library")
def test_the_whole_evaluation_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "BundleTeacher", lambda bundle: WordTeacher(bundle.name))
    folders = [tmp_path / "rope", tmp_path / "sinusoidal"]
    for folder in folders:
        train(Job(positions=folder.name, out=folder, recipe=QUICK, state=tmp_path / "state"))
    previous = ["--previous", str(folders[1]), "--state", str(tmp_path / "state")]
    previous += ["--teacher", "bundle"]
    evaluation.main([*map(str, folders), "--out", str(tmp_path / "new" / "page.md"), *previous])
    page = (tmp_path / "new" / "page.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == page.strip()
    figures = json.loads((tmp_path / "new" / "page.json").read_text(encoding="utf-8"))
    (library,) = figures["retrieval"]
    assert library["name"] == "standard library"
    names = [row["name"] for row in library["rows"]]
    for name in (
        "BM25, stemmed, name weighted",
        "mean of trained word vectors",
        "rope",
        "rope untrained",
        "rope, tokens shuffled",
        "rope, without layer 2",
        "rope, 16 dimensions",
        "rope, int8",
        "rope, binary",
        "rope + BM25",
        "words, a teacher",
        "rope before",
        "sinusoidal",
    ):
        assert name in names
        assert f"| {name} |" in page
    assert [row["than"] for row in library["comparisons"]] == [
        name for name in names if name != "rope"
    ]
    task = retrieval_task(Part.TEST)
    assert library["candidates"] == len(task.candidates) >= library["questions"] > 10
    for model in figures["order"]:
        assert len(model["heads"]) == len(model["importance"]) == QUICK.layers * QUICK.heads
        assert 0 <= model["pairs"]["all"] <= 1
    assert figures["origin"]["corpus_sha256"] in page


FIGURES = json.loads((ROOT / "bench/results/evaluation.json").read_text(encoding="utf-8"))


def committed(task: str) -> dict[str, dict[str, float]]:
    """Return the rows of a task of the committed evaluation, by contestant."""
    (found,) = (each for each in FIGURES["retrieval"] if each["name"] == task)
    return {row["name"]: row for row in found["rows"]}


@pytest.mark.parametrize("name", ["docs-rope", "docs-sinusoidal"])
def test_the_committed_evaluation_is_of_the_shipped_models(name: str) -> None:
    facts = json.loads(
        (ROOT / "model/headlight_model/checkpoints" / name / "training.json").read_text(
            encoding="utf-8"
        )
    )
    assert FIGURES["origin"]["trained_on"][name] == facts["corpus_sha256"]
    (order,) = (model for model in FIGURES["order"] if model["name"] == name)
    masked = order["masked"]
    # The training's own figures, from other modules, must be close.
    assert masked["masked_accuracy"] == pytest.approx(
        facts["validation"]["masked_accuracy"], abs=0.06
    )
    assert masked["masked_accuracy"] - masked["masked_accuracy_positions_shuffled"] >= 0.10
    assert committed("standard library")[name]["mrr"] >= 0.42
    assert committed("standard library")[name]["recall"] >= 0.65


def test_docs_rope_beats_word_vectors_and_itself_without_any_layer() -> None:
    (task,) = (each for each in FIGURES["retrieval"] if each["name"] == "held-out packages")
    assert task["candidates"] >= 3000
    gain = {each["than"]: each["by_group"] for each in task["comparisons"]}
    words, shuffled = (
        gain[than] for than in ("mean of trained word vectors", "docs-rope, tokens shuffled")
    )
    assert words["mean"] >= 0.05
    assert words["low"] > 0
    assert shuffled["mean"] >= 0.03
    for layer in range(4):
        assert gain[f"docs-rope, without layer {layer}"]["low"] > 0


def test_docs_rope_depends_on_order_and_its_heads_have_roles() -> None:
    (order,) = (model for model in FIGURES["order"] if model["name"] == "docs-rope")
    assert order["pairs"]["all"] >= 0.80
    named = [
        role
        for head in order["heads"]
        if (role := next((r for r in ROLES if head["strongest"][r] >= CALLED), ""))
    ]
    assert len(named) >= 5
    assert {"matching bracket", "same identifier"} <= set(named)
