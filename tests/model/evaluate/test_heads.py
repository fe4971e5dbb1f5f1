from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.evaluate.heads import Head, analyse
from headlight_model.syntax import is_identifier, links
from headlight_model.train.attention_roles import ROLES, targets
from headlight_model.train.data.tokenizer import SPECIALS

PIECES = [*SPECIALS, "(", "total", "return", "##er", "x"]
TOTAL, OTHER = 6, 9


class Scripted:
    """Fake encoder with scripted attention: one layer, one head per script."""

    def __init__(self, *scripts: Tensor) -> None:
        self.config = SimpleNamespace(layers=1, heads=len(scripts))
        self.scripts = scripts

    def __call__(self, ids: Tensor, *, fused: bool) -> object:
        assert not fused
        return SimpleNamespace(
            attention=(torch.stack(self.scripts)[None].expand(len(ids), -1, -1, -1),)
        )


def looks_at(*keys: int) -> Tensor:
    """Return [S, S] in which query i attends to keys[i] alone."""
    return torch.nn.functional.one_hot(torch.tensor(keys), len(keys)).float()


def test_identifier_pieces_are_recognised() -> None:
    assert [
        is_identifier(piece) for piece in ("total", "_x1", "return", "##er", "(", "x", "⏎")
    ] == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


def test_target_keys_of_each_role_are_found() -> None:
    ids = torch.tensor([[2, TOTAL, 5, TOTAL, 3]])
    found = targets(ids, PIECES)
    assert found["previous"][0].nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]
    assert found["next"][0].nonzero().tolist() == [[1, 2], [2, 3], [3, 4]]
    assert found["same identifier"][0].nonzero().tolist() == [[1, 3], [3, 1]]


def test_syntax_links_are_found() -> None:
    tokens = [
        "[CLS]",
        ")",
        "def",
        "read",
        "_",
        "file",
        "(",
        "path",
        ")",
        ":",
        "open",
        "(",
        "path",
        "[",
        "0",
        "]",
        ")",
    ]
    found = set(links(tokens))
    brackets = {(6, 8), (8, 6), (11, 16), (16, 11), (13, 15), (15, 13)}
    assert {(query, key) for kind, query, key in found if kind == "matching bracket"} == brackets
    assert {(query, key) for kind, query, key in found if kind == "def to name"} == {
        (2, 3),
        (2, 4),
        (2, 5),
    }
    arguments = {(5, 7), (10, 12), (10, 13), (10, 14), (10, 15)}
    assert {(query, key) for kind, query, key in found if kind == "call to arguments"} == arguments


def test_brackets_in_one_piece_match_separately() -> None:
    found = set(links(["f", "(", "g", "(", "x", "))"]))
    assert {(query, key) for kind, query, key in found if kind == "matching bracket"} == {
        (1, 5),
        (5, 1),
        (3, 5),
        (5, 3),
    }


def test_heads_are_named_after_their_role() -> None:
    ids = torch.tensor([[2, TOTAL, 5, TOTAL, OTHER, 3]] * 20)
    scripts = (
        looks_at(0, 0, 1, 2, 3, 4),
        looks_at(1, 2, 3, 4, 5, 5),
        looks_at(0, 3, 0, 1, 0, 0),
        torch.full((6, 6), 1 / 6),
    )
    heads, uniform = analyse(cast(Encoder, Scripted(*scripts)), ids, PIECES)
    assert [head.name for head in heads] == ["previous", "next", "same identifier", ""]
    seen = ("previous", "next", "same identifier")  # these windows have no syntax
    assert heads[0].weight == dict.fromkeys(ROLES, 0.0) | {"previous": 1.0}
    assert heads[3].weight == pytest.approx(
        dict.fromkeys(ROLES, 0.0) | dict.fromkeys(seen, 1 / 6), abs=1e-6
    )
    assert uniform == pytest.approx(dict.fromkeys(ROLES, 0.0) | dict.fromkeys(seen, 1 / 6))
    assert [(head.layer, head.head) for head in heads] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_role_needs_half_of_the_tokens_to_name_a_head() -> None:
    head = Head(0, 0, dict.fromkeys(ROLES, 0.1), dict.fromkeys(ROLES, 0.1) | {"previous": 0.5})
    assert head.name == "previous"
    # Broad roles first.
    assert (
        dataclasses.replace(head, strongest=head.strongest | {"def to name": 0.9}).name
        == "previous"
    )
    assert dataclasses.replace(head, strongest=head.strongest | {"previous": 0.49}).name == ""
