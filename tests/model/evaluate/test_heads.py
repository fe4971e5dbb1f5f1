from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.evaluate.heads import KINDS, Head, analyse, is_identifier, targets
from headlight_model.train.data.tokenizer import SPECIALS

PIECES = [*SPECIALS, "(", "total", "return", "##er", "x"]
TOTAL, OTHER = 6, 9


class Scripted:
    """Looks where the test says: one layer, as many heads as there are scripts."""

    def __init__(self, *scripts: Tensor) -> None:
        self.config = SimpleNamespace(layers=1, heads=len(scripts))
        self.scripts = scripts

    def __call__(self, ids: Tensor, *, fused: bool) -> object:
        assert not fused
        return SimpleNamespace(attention=(torch.stack(self.scripts)[None].expand(len(ids), -1, -1, -1),))


def looks_at(*keys: int) -> Tensor:
    """[S, S]: query i looks at keys[i] alone."""
    return torch.nn.functional.one_hot(torch.tensor(keys), len(keys)).float()


def test_identifiers() -> None:
    assert [is_identifier(piece) for piece in ("total", "_x1", "return", "##er", "(", "x", "⏎")] == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


def test_targets() -> None:
    ids = torch.tensor([[2, TOTAL, 5, TOTAL, 3]])
    named = torch.tensor([is_identifier(piece) for piece in PIECES])
    found = targets(ids, named)
    assert found["previous"][0].nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]
    assert found["next"][0].nonzero().tolist() == [[1, 2], [2, 3], [3, 4]]
    assert found["same identifier"][0].nonzero().tolist() == [[1, 3], [3, 1]]


def test_heads_are_called_what_they_do() -> None:
    ids = torch.tensor([[2, TOTAL, 5, TOTAL, OTHER, 3]] * 20)
    scripts = (
        looks_at(0, 0, 1, 2, 3, 4),
        looks_at(1, 2, 3, 4, 5, 5),
        looks_at(0, 3, 0, 1, 0, 0),
        torch.full((6, 6), 1 / 6),
    )
    heads, uniform = analyse(cast(Encoder, Scripted(*scripts)), ids, PIECES)
    assert [head.name for head in heads] == ["previous", "next", "same identifier", ""]
    assert heads[0].weight == {"previous": 1.0, "next": 0.0, "same identifier": 0.0}
    assert heads[3].weight == pytest.approx(dict.fromkeys(KINDS, 1 / 6), abs=1e-6)
    assert uniform == pytest.approx(dict.fromkeys(KINDS, 1 / 6))
    assert [(head.layer, head.head) for head in heads] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_half_of_the_tokens_make_a_name() -> None:
    head = Head(0, 0, dict.fromkeys(KINDS, 0.1), {"previous": 0.5, "next": 0.2, "same identifier": 0.1})
    assert head.name == "previous"
    assert dataclasses.replace(head, strongest=head.strongest | {"previous": 0.49}).name == ""
