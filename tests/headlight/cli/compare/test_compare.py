"""`headlight compare` in process, on a real model."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.cli.compare import compare_command
from headlight.comparison import EvidenceSpec
from headlight.errors import InvalidInput
from headlight.evidence_methods import UNIT_METHODS
from headlight.runtime import Runtime
from tests.headlight.cli.conftest import Run

QUERY = "read a file"
PASSAGES = ("close it", "open a file. then read it", "parse", "<b>read</b> file")


@pytest.fixture
def run(command: Run, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run compare on the model in this process; standard input has the passages."""
    monkeypatch.setattr(compare_command, "connect", lambda _: contextlib.nullcontext(runtime))
    return functools.partial(command, "compare", stdin="\n".join(PASSAGES))


def compared(runtime: Runtime, **wanted: Any) -> Any:
    return runtime.compare(QUERY, PASSAGES, late_interaction=True, sort=True, **wanted)


def test_passages_come_by_score_with_their_lines(run: Run, runtime: Runtime) -> None:
    code, out, err = run(QUERY)
    assert (code, err) == (0, "")
    heads = [
        f"{rank}. {each.score:.3f}  max-sim {each.max_sim_mean:.3f}  standard input, "
        f"line {each.index + 1}"
        for rank, each in enumerate(compared(runtime), 1)
    ]
    assert [line for line in out.splitlines() if "max-sim " in line and line[0].isdigit()] == heads


@pytest.mark.parametrize("method", UNIT_METHODS)
def test_the_best_units_are_marked(method: Any, run: Run, runtime: Runtime) -> None:
    evidence = EvidenceSpec(method=method, unit="sentence")
    [expected] = [each for each in compared(runtime, evidence=evidence) if each.index == 1]
    [best] = expected.evidence[0].largest(1)
    option = method.replace("_", "-")
    out = run(QUERY, "--method", option, "--unit", "sentence", "--best", "1")[1]
    sentences = ["open a file.", "then read it"]
    if expected.evidence[0].weights[best] > 0:
        sentences[best] = f"**{sentences[best]}**"
    assert f"   {' '.join(sentences)}\n" in out
    assert ("attention is not an explanation" in out) == (method == "attention")


def test_json_has_every_weight_and_match(run: Run, runtime: Runtime) -> None:
    options = [f"--method={each.replace('_', '-')}" for each in UNIT_METHODS]
    answer = json.loads(run(QUERY, *options, "--format", "json", "--best", "2")[1])
    expected = compared(runtime, evidence=UNIT_METHODS)
    assert (answer["similarity"], answer["model"]["name"]) == (
        expected.similarity,
        expected.model.name,
    )
    assert "".join(answer["query"]["tokens"]) == QUERY.replace(" ", "")
    for found, passage in zip(answer["passages"], expected, strict=True):
        assert found["text"] == PASSAGES[passage.index]
        assert found["place"] == f"standard input, line {passage.index + 1}"
        assert found["score"] == pytest.approx(passage.score, rel=1e-6)
        assert found["max_sim_mean"] == pytest.approx(passage.max_sim_mean, rel=1e-6)
        for shown, evidence in zip(found["evidence"], passage.evidence, strict=True):
            assert shown["method"] == evidence.method
            weights = [unit["weight"] for unit in shown["units"]]
            np.testing.assert_array_equal(np.array(weights, np.float32), evidence.weights)
            assert shown["best"] == evidence.largest(2)
            for unit in shown["units"]:
                assert unit["text"] == found["text"][unit["start"] : unit["end"]]
        late = UNIT_METHODS.index("late_interaction")
        cosines = [match["cosine"] for match in found["evidence"][late]["matches"]]
        np.testing.assert_array_equal(
            np.array(cosines, np.float32), passage.evidence[late].matched_cosines
        )


def test_options_reach_the_evidence_and_a_contrast_is_of_the_first_that_weighs_the_query(
    run: Run, runtime: Runtime
) -> None:
    options = ["--method=attention", "--method=contributions", "--method=occlusion"]
    options += ["--per-token", "--distinct", "--max-encodings=2", "--contrast=2"]
    answer = json.loads(run(QUERY, *options, "--format", "json")[1])
    specs = [
        EvidenceSpec(method="attention", per_token=True),
        EvidenceSpec(method="contributions", per_token=True, distinct=True, query_units=True),
        EvidenceSpec(method="occlusion", per_token=True, max_encodings=2, query_units=True),
    ]
    expected = compared(runtime, evidence=specs)
    for found, passage in zip(answer["passages"], expected, strict=True):
        for shown, evidence in zip(found["evidence"], passage.evidence, strict=True):
            weights = [unit["weight"] for unit in shown["units"]]
            np.testing.assert_array_equal(np.array(weights, np.float32), evidence.weights)
    contrast = expected.contrast(*expected.passages[:2], method="contributions")
    assert answer["contrast"]["method"] == "contributions"
    assert answer["contrast"]["difference"] == pytest.approx(contrast.difference, rel=1e-5)
    weights = [unit["weight"] for unit in answer["contrast"]["query"]["units"]]
    np.testing.assert_array_equal(np.array(weights, np.float32), contrast.weights)
    out = run(QUERY, "--method=contributions", "--contrast=2")[1]
    assert "1 above 2: " in out
    assert "weight by contributions: its part of the score" in out


def test_top_shows_the_most_similar_alone(run: Run, runtime: Runtime) -> None:
    answer = json.loads(run(QUERY, "--top", "2", "--format", "json")[1])
    best = [PASSAGES[each.index] for each in compared(runtime)][:2]
    assert [each["text"] for each in answer["passages"]] == best
    assert [each["place"] for each in answer["passages"]] == [
        f"standard input, line {PASSAGES.index(text) + 1}" for text in best
    ]


def test_several_files_are_read_and_named(run: Run, tmp_path: Path) -> None:
    plain, lines = tmp_path / "a.txt", tmp_path / "b.jsonl"
    plain.write_text("one\ntwo\n")
    lines.write_text('{"title": "read a file"}\n')
    out = run(QUERY, str(plain), str(lines), "--text-field", "title")
    assert out[0] == 2  # the field is of lines of JSON, and a.txt has none
    assert f"{plain}, line 1: is not JSON" in out[2]
    lines.write_text('{"text": "read a file"}\n')
    code, shown, err = run(QUERY, str(plain), str(lines))
    assert (code, err) == (0, "")
    assert f"1. 1.000  max-sim 1.000  {lines}, line 1\n" in shown
    assert f"{plain}, line 2" in shown


def test_a_page_and_no_text_is_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.html"
    code, out, err = run(QUERY, "--html", str(path), "--method", "attention", "--top", "3")
    assert (code, out) == (0, "")
    assert err.startswith(f"headlight: wrote {path}: 3 passages beside a query, ")
    data = json.loads(path.read_text().partition('id="data">')[2].partition("</script>")[0])
    methods = [each["method"] for each in data["passages"][0]["evidence"]]
    assert methods == ["attention", "late_interaction"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        ([QUERY], "", "standard input: holds no passages; give at least one, a line each"),
        ([QUERY], "a\n\nb", "standard input, line 2: is empty; remove it, or put a text there"),
        ([""], "a", "the query: is empty; give at least one character"),
        ([QUERY, "nowhere.txt"], "", "nowhere.txt: cannot read it: No such file or directory"),
        (
            [QUERY, "--method=occlusion", "--method=attention"],
            "a",
            "--method: text shows one method; use --format json or --html for several",
        ),
        (
            [QUERY],
            f"a\n{' '.join(['b' * 1000] * 3)}",
            "standard input, line 2: has 3002 tokens, the model takes",
        ),
        (
            [QUERY, "--passage-prompt-name", "x"],
            "a",
            "--passage-prompt-name: is not a prompt of this model",
        ),
        (
            [QUERY, "--method=occlusion", "--max-encodings=1"],
            "a",
            "--max-encodings: is 1; hide at least 2 units",
        ),
        (
            [QUERY, "--max-encodings=9", "--unit=sentence"],
            "a",
            "--max-encodings: is of --unit word or token; leave it out",
        ),
        ([QUERY, "--method=span", "--per-token"], "a", "--per-token: is of methods whose weights"),
        (
            [QUERY, "--method=attention", "--contrast=2"],
            "a\nb",
            "--contrast: attention of a passage does not depend on the query; add --method",
        ),
        ([QUERY, "--html", "c.txt"], "a", "--html: c.txt must end in .html or .htm"),
    ],
)
def test_bad_input_is_refused_by_its_name(
    run: Run, arguments: list[str], stdin: str, says: str
) -> None:
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"headlight: {says}")
    assert err.count("\n") == 1


def test_a_passage_of_the_shown_ones_is_named_by_its_line(
    run: Run, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request holds only the passages that are shown."""
    compare = runtime.compare

    def refused(query: str, passages: list[str], **options: Any) -> Any:
        if options.get("evidence"):
            raise InvalidInput("passages[0].text", "is refused")
        return compare(query, passages, **options)

    best = next(iter(compared(runtime))).index
    monkeypatch.setattr(runtime, "compare", refused)
    code, _, err = run(QUERY, "--top", "1")
    assert (code, err) == (2, f"headlight: standard input, line {best + 1}: is refused\n")


@pytest.mark.parametrize(("option", "value"), [("--top", "0"), ("--best", "x")])
def test_counts_are_whole_numbers_from_1(option: str, value: str, run: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        run(QUERY, f"{option}={value}")
    assert ended.value.code == 2


def test_a_file_of_passages_is_not_replaced(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    code, _, err = run(QUERY, str(path), "--out", str(path))
    assert code == 2
    assert "is the file of FILE, which it would replace; name another" in err
    assert path.read_text() == "one\n"
