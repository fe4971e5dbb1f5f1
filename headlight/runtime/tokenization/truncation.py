"""Which tokens are left of an input that has too many."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput
from headlight.runtime.values import Ids

Truncation = Literal["refuse", "cut_end", "cut_start"]


def cut(
    stays: NDArray[np.bool_], second: NDArray[np.bool_], most: int, truncation: Truncation, *, prompt: bool = False
) -> Ids:
    """The tokens that are left: int64 [most], rising. The longer text of a pair is cut, until both are as long.

    As the tokenizers library does it (`longest_first`), whose own way begins with tokenising the input again.

    Args:
        stays: bool [n], the tokens that are not cut.
        second: bool [n], the tokens of a pair's second text.
        most: how many may be left, less than n.
        truncation: what to do.
        prompt: whether there is one, to be named in what is raised.

    Raises:
        InvalidInput: nothing is to be cut, or what stays leaves no room.
    """
    if truncation == "refuse":
        have = f"has {len(stays)} tokens{' with its prompt' if prompt else ''}, the model takes {most}"
        raise InvalidInput("", f"{have}; shorten it or ask for truncation")
    staying = int(stays.sum())
    room = most - staying
    if room < 1:
        what, remedy = (
            ("prompt and special tokens", "shorten the prompt") if prompt else ("special tokens", "send one text")
        )
        raise InvalidInput("", f"its {what} are {staying} tokens, the model takes {most}; {remedy}")
    texts = [np.flatnonzero(~stays & ~second), np.flatnonzero(~stays & second)]
    shorter = int(len(texts[0]) > len(texts[1]))  # which; of two that are as long, the first
    rooms = dict.fromkeys((0, 1), min(len(texts[shorter]), room // 2))
    rooms[1 - shorter] = room - rooms[shorter]
    left = [
        own[: rooms[at]] if truncation == "cut_end" else own[len(own) - rooms[at] :] for at, own in enumerate(texts)
    ]
    return np.sort(np.concatenate([np.flatnonzero(stays), *left]))
