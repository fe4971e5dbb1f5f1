"""The example of docs/guides/word-order.md, and the figures of its page."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import pytest

from examples.word_order import word_order
from headlight.runtime import Runtime
from tests.system.processes import ROOT

PAGE = ROOT / "docs/guides/word-order.md"
ROW = re.compile(r"^\| ([a-z ]+) \| (\S+e\S+) \| (\S+e\S+) \|$", re.MULTILINE)


def figures(text: str) -> dict[str, tuple[float, float]]:
    """Return the differences without and with positions, by output."""
    return {name: (float(without), float(given)) for name, without, given in ROW.findall(text)}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the bundles of the example by positions, made once: an export takes seconds."""
    folder = tmp_path_factory.mktemp("word-order")
    return {
        positions: word_order.make_bundle(positions, folder / positions)
        for positions in word_order.POSITIONS.values()
    }


def test_word_order_counts_with_positions_alone(
    bundles: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", ["word_order", "--picture", str(picture)])
    monkeypatch.setattr(word_order, "make_bundle", lambda positions, _: bundles[positions])
    code = word_order.main()
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    found, quoted = figures(out), figures(PAGE.read_text(encoding="utf-8"))
    assert found.keys() == quoted.keys() == {"pooled vector", "token vectors", "attention"}
    for name, (without, given) in found.items():
        assert max(without, quoted[name][0]) < 1e-5
        assert given > 1e-2
        assert abs(math.log10(given / quoted[name][1])) < 1


def test_a_property_that_does_not_hold_is_reported() -> None:
    found = {"without positions": {"attention": 1e-7}, "with positions": {"attention": 0.5}}
    assert word_order.failures(found) == []
    found["without positions"]["pooled vector"] = 0.2
    found["with positions"]["token vectors"] = 1e-4
    assert word_order.failures(found) == [
        "without positions: pooled vector: the difference is 2.0e-01; it must be at most 1e-05",
        "with positions: token vectors: the difference is 1.0e-04; it must be at least 1e-02",
    ]
    found = {"with positions": {"attention": math.nan}, "without positions": {}}
    assert len(word_order.failures(found)) == 1, "NaN is no difference"


def test_the_sentence_of_the_page_about_a_word_is_true(bundles: dict[str, Path]) -> None:
    """ "dog" attends mostly to "bites" in one sentence, and to "man" in the other."""
    runtime = Runtime(bundles["sinusoidal"])
    for words, wanted in ((word_order.WORDS, "bites"), (word_order.SHUFFLED, "man")):
        weights = runtime.attend(" ".join(words)).weights[word_order.LAYER, word_order.HEAD]
        assert words[weights[words.index("dog")].argmax()] == wanted
