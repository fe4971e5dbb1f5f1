from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headlight_model.train.data.stored import Data, Pairs, Rows, load


def test_rows_are_kept_in_order() -> None:
    rows = Rows.of([[1, 2], [], [65535]])
    assert [*rows] == [[1, 2], [], [65535]]
    assert rows[1:] == [[], [65535]]
    assert len(Rows.of([])) == 0
    with pytest.raises(IndexError, match="row 3 of 3"):
        rows[3]


def test_data_is_read_as_it_was_written(tmp_path: Path) -> None:
    data = Data(
        np.arange(5), {"summary": Pairs([[1], [2, 3]], [[4], []]), "name": Pairs([], [])}, (7, 8)
    )
    data.save(tmp_path / "new" / "data", "a corpus")
    found = load(tmp_path / "new" / "data", "a corpus")
    assert found is not None
    assert found.stream.tolist() == [0, 1, 2, 3, 4]
    assert [*found.pairs["summary"].queries] == [[1], [2, 3]]
    assert [*found.pairs["summary"].documents] == [[4], []]
    assert len(found.pairs["name"].queries) == 0
    assert found.name_marks == (7, 8)


def test_data_of_another_corpus_is_not_read(tmp_path: Path) -> None:
    Data(np.arange(5), {}).save(tmp_path / "data", "a corpus")
    assert load(tmp_path / "data", "another") is None
    assert load(tmp_path / "none", "a corpus") is None
