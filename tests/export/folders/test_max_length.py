from pathlib import Path
from typing import Any

import pytest

from headlight_export.folders.sentence_folder import read_recipe
from tests.folders import chain, refusal, write


@pytest.mark.parametrize(
    ("own", "tokenizer", "positions", "expected"),
    [
        ({"max_seq_length": 256}, {"model_max_length": 128}, 512, 256),
        ({"max_seq_length": 1024}, {}, 512, 1024),  # the library stops here too
        ({"max_seq_length": None}, {"model_max_length": 128}, 512, 128),
        ({}, {"model_max_length": 10**30}, 512, 512),
        ({}, {"model_max_length": 1024}, 512, 512),
        ({}, {"max_len": 64}, 512, 64),
        ({}, {}, -1, None),
        ({}, {}, None, None),
        ({"tokenizer_args": {"model_max_length": 33}, "max_seq_length": 44}, {}, 512, 33),
        ({"processor_kwargs": {"model_max_length": 33}}, {}, 512, 33),
    ],
)
def test_the_longest_text_is_read_from_the_folder(
    tmp_path: Path,
    own: dict[str, Any],
    tokenizer: dict[str, Any],
    positions: int | None,
    expected: int | None,
) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "sentence_bert_config.json", own)
    write(tmp_path / "tokenizer_config.json", tokenizer)
    write(
        tmp_path / "config.json",
        {} if positions is None else {"max_position_embeddings": positions},
    )
    assert read_recipe(tmp_path).max_length == expected


@pytest.mark.parametrize("length", ["256", 0, -2, 0.5, True, [1]])
def test_an_invalid_length_is_refused(tmp_path: Path, length: object) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": length})
    assert f"max_seq_length is {length!r}" in refusal(tmp_path)
