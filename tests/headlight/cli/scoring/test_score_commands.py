"""`headlight rerank` and `headlight classify` in process, on models with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.comparison import EvidenceSpec
from headlight.runtime import Runtime
from tests import scorers
from tests.headlight.cli.conftest import Run

QUERY, DOCUMENTS = "what is red", ["green\x1b[1m", "a planet, and more of it", "x" * 60, "red"]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.bundle(tmp_path_factory, "reranker")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.bundle(tmp_path_factory, "classifier")


@pytest.fixture
def run(command: Run) -> Run:
    return command


def test_documents_come_by_score_with_their_lines(run: Run, reranker: Path, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(json.dumps({"text": DOCUMENTS[0]}) + "\n")
    places = ["some.jsonl, line 1", *(f"standard input, line {at}" for at in (1, 2, 3))]
    arguments = ("rerank", QUERY, str(file), "-", "--local", str(reranker))
    with Runtime(reranker, threads=1) as runtime:
        expected = runtime.rerank(QUERY, DOCUMENTS)
    code, out, err = run(*arguments, stdin="\n".join(DOCUMENTS[1:]))
    assert (code, err) == (0, "")
    lines = out.replace(f"{tmp_path}/", "").splitlines()
    for line, each in zip(lines, expected, strict=True):
        assert line.split()[0] == f"{each.score:.3f}"
        assert places[each.index] in line
    assert "\x1b" not in out
    code, out, _ = run(
        *arguments, "--top-n", "2", "--format", "json", stdin="\n".join(DOCUMENTS[1:])
    )
    found = json.loads(out)["results"]
    assert [(each["index"], each["document"]) for each in found] == [
        (each.index, each.document) for each in expected[:2]
    ]
    np.testing.assert_allclose(
        [each["logit"] for each in found], [each.logit for each in expected[:2]], atol=1e-5
    )


def test_scores_are_explained(run: Run, reranker: Path) -> None:
    with Runtime(reranker, threads=1) as runtime:
        comparison = runtime.compare(
            *(QUERY, DOCUMENTS),
            truncate="end",
            sort=True,
            evidence=[EvidenceSpec(method="occlusion", unit="word")],
        )
    best = comparison.passages[0]
    arguments = ("rerank", QUERY, "--local", str(reranker), "--why", "--top-n", "2")
    stdin = "\n".join(DOCUMENTS)
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, err) == (0, "")
    assert f"{best.score:.3f}" in out
    assert "what is red" in out
    _, out, _ = run(*arguments, "--format", "json", stdin=stdin)
    shown = json.loads(out)["passages"]
    assert len(shown) == 2
    assert shown[0]["place"] == f"standard input, line {best.index + 1}"
    expected = best.evidence_by("occlusion")
    largest = [float(expected.weights[at]) for at in expected.largest(3)]
    found = sorted((each["weight"] for each in shown[0]["evidence"][0]["units"]), reverse=True)
    np.testing.assert_allclose(found[:3], largest[: len(found[:3])], atol=1e-4)


def test_texts_have_their_labels(run: Run, classifier: Path) -> None:
    with Runtime(classifier, threads=1) as runtime:
        expected = runtime.classify(["red", "green"])
    code, out, err = run("classify", "red", "green", "--local", str(classifier))
    assert (code, err) == (0, "")
    for block, text, labels in zip(out.split("\n\n"), ("red", "green"), expected, strict=True):
        assert block.split() == [
            text,
            *(word for each in labels for word in (f"{each.score:.3f}", each.label)),
        ]
    _, out, _ = run(
        *("classify", "--file", "-", "--top-n", "1", "--format", "json"),
        *("--local", str(classifier)),
        stdin="red\ngreen\n",
    )
    assert [
        (each["text"], [label["label"] for label in each["labels"]])
        for each in json.loads(out)["results"]
    ] == [("red", [expected[0][0].label]), ("green", [expected[1][0].label])]


def test_a_prompt_goes_before_the_query(run: Run, reranker: Path, classifier: Path) -> None:
    documents = "\n".join(DOCUMENTS)
    for why in ((), ("--why",)):
        local = (*why, "--local", str(reranker), "--format", "json")
        found, usual = (
            json.loads(run("rerank", *arguments, *local, stdin=documents)[1])
            for arguments in ((QUERY, "--prompt", "find "), (QUERY,))
        )
        with Runtime(reranker, threads=1) as runtime:
            expected = runtime.rerank(f"find {QUERY}", DOCUMENTS)
        logits = [each["score"] if why else each["logit"] for each in of_documents(found)]
        np.testing.assert_allclose(logits, [each.logit for each in expected], atol=1e-5)
        assert of_documents(found) != of_documents(usual)
        code, _, err = run("rerank", QUERY, *local, "--prompt-name", "nobody", stdin=documents)
        assert (code, err.partition(";")[0]) == (
            2,
            "headlight: --prompt-name: is not a prompt of this model",
        )
    local = ("--local", str(classifier))
    assert (
        run("classify", "red", "--prompt", "find ", *local)[1].splitlines()[1:]
        == (run("classify", "find red", *local)[1].splitlines()[1:])
    )


def of_documents(answer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.get("results") or answer["passages"]
    return found


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (("a",), "", "standard input: holds no documents"),
        (("a", "nowhere.txt"), "", "nowhere.txt: cannot read it"),
        (("a", "--truncate", "refuse"), f"b\n{'x' * 60}", "standard input, line 2: has 64 tokens"),
        (("q" * 50, "--truncate", "only_second"), "b", "the query: has 53 tokens"),
    ],
)
def test_what_is_refused_is_named(
    run: Run, reranker: Path, arguments: tuple[str, ...], stdin: str, message: str
) -> None:
    code, out, err = run("rerank", *arguments, "--local", str(reranker), stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"headlight: {message}")


def test_a_model_of_another_task_is_refused(run: Run, classifier: Path) -> None:
    code, _, err = run("rerank", "a", "--local", str(classifier), stdin="b")
    assert code == 2
    assert "gives 3 scores, and reranking takes one; see `headlight classify`" in err
