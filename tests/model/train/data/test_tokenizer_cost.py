"""CPU time of newly trained tokenizers and of the shipped ones."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from headlight_model.train.data.tokenizer import LINE_END, train_tokenizer

CHECKPOINTS = sorted(
    Path(__file__).resolve().parents[4].glob("model/headlight_model/checkpoints/*/tokenizer.json")
)
RUN = 32_768  # line breaks: 2 s and more with the old pattern, some 10 ms with this one
SLOW_SECONDS = 1.0


def seconds(tokenizer: Tokenizer, text: str) -> float:
    began = time.thread_time()
    tokenizer.encode(text)
    return time.thread_time() - began


@pytest.mark.parametrize("unit", ["\n", "\r\n", "\n ", " \t\n\n"])
def test_a_run_of_line_breaks_is_cheap_in_a_new_tokenizer(unit: str) -> None:
    assert seconds(train_tokenizer(["a b"], 50), (RUN * unit)[:RUN]) < SLOW_SECONDS


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.parent.name)
def test_a_run_of_line_breaks_is_cheap_in_the_shipped_tokenizers(path: Path) -> None:
    assert seconds(Tokenizer.from_file(str(path)), "\n" * RUN) < SLOW_SECONDS


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.parent.name)
def test_the_training_record_names_the_tokenizer_beside_it(path: Path) -> None:
    recorded = json.loads(path.with_name("training.json").read_text(encoding="utf-8")).get(
        "tokenizer_sha256"
    )
    if recorded is not None:  # the laboratory's tokenizers are written by hand
        assert (
            hashlib.sha256(Tokenizer.from_file(str(path)).to_str().encode()).hexdigest() == recorded
        )


def test_a_run_of_line_breaks_becomes_its_last_one() -> None:
    normalizer = train_tokenizer(["a b"], 50).normalizer
    assert normalizer is not None
    for breaks in ("\n", "\n\n", " \n \t\n", "\r\n\r\n", "\n\u2028\n", "\n\x0b\x85\n "):
        assert normalizer.normalize_str(f"a{breaks}b").count(LINE_END) == 1, repr(breaks)
