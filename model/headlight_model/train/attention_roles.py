"""Roles that an attention head can have in source code, and the keys that each role looks at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headlight_model.syntax import is_identifier, links
from headlight_model.train.data.tokenizer import SPECIALS

# Broad ones first: a head is called by the first that holds.
ROLES = (
    "previous",
    "next",
    "same identifier",
    "matching bracket",
    "call to arguments",
    "def to name",
)


def targets(ids: Tensor, pieces: Sequence[str]) -> dict[str, Tensor]:
    """Return the keys that a query would look at, by role: bool [B, S, S].

    Rows are queries; a row without True is no query of that role. Special tokens are none.

    Args:
        ids: int64 [B, S].
        pieces: of the vocabulary, in the order of the ids.
    """
    named = torch.tensor([is_identifier(piece) for piece in pieces])
    places = torch.arange(ids.shape[1])
    distance = places[None, :] - places[:, None]  # [S, S]: key less query
    plain = (ids >= len(SPECIALS))[:, :, None]  # [B, S, 1]
    same = (ids[:, :, None] == ids[:, None, :]) & named[ids][:, :, None] & (distance != 0)
    keys_of_roles = {
        "previous": plain & (distance == -1),
        "next": plain & (distance == 1),
        "same identifier": same,
    }
    linked: dict[str, list[tuple[int, int, int]]] = {
        role: [] for role in ROLES if role not in keys_of_roles
    }
    for row, numbers in enumerate(ids.tolist()):
        for role, query, key in links([pieces[number] for number in numbers]):
            linked[role].append((row, query, key))
    for role, all_links in linked.items():
        keys_of_roles[role] = torch.zeros_like(same)
        if all_links:
            keys_of_roles[role][tuple(torch.tensor(all_links).T)] = True
    return keys_of_roles
