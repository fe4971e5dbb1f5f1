"""Changes that turn a correct answer into one of a broken server."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_model import DIM, ragged

Answer: TypeAlias = pb.EncodeResponse


def with_number(
    output: str, at: int, number: float, dtype: str = "<f4"
) -> Callable[[Answer], object]:
    """Replace one number of an output."""

    def change(response: Answer) -> None:
        tensor = response.pooled[0] if output == "pooled" else getattr(response, output)
        numbers = np.frombuffer(tensor.data, dtype).copy()
        numbers[at] = number
        tensor.data = numbers.tobytes()

    return change


def scaled(output: str, factor: float) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        tensor = response.pooled[0] if output == "pooled" else getattr(response, output)
        tensor.data = (np.frombuffer(tensor.data, "<f4") * np.float32(factor)).tobytes()

    return change


def wider(response: Answer) -> None:
    tensor = response.pooled[0]
    tensor.shape[1] += 1
    tensor.data += bytes(4 * tensor.shape[0])


def narrower(response: Answer) -> None:
    tensor = response.pooled[0]
    tensor.shape[1] //= 2
    tensor.data = tensor.data[: len(tensor.data) // 2]


def with_rows(output: str, width: int) -> Callable[[Answer], object]:
    """Return vectors of another width, well formed in themselves."""

    def change(response: Answer) -> None:
        tensor = getattr(response, output)
        for extents in tensor.shapes:
            extents.sizes[-1] = width
        sizes = [int(np.prod(extents.sizes)) for extents in tensor.shapes]
        del tensor.offsets[:]
        tensor.offsets.extend([0, *itertools.accumulate(sizes)])
        tensor.data = bytes(4 * sum(sizes))

    return change


def with_tokens(count: int) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        response.items[0].token_count = response.items[0].original_token_count = count

    return change


def one_item_more(response: Answer) -> None:
    response.items.add().CopyFrom(response.items[0])
    response.pooled[0].shape[0] += 1
    response.pooled[0].data += bytes(4 * DIM)


def another_output(response: Answer) -> None:
    response.hidden.CopyFrom(
        pb.RaggedTensor(dtype=pb.DATA_TYPE_FLOAT32, layers=[0], offsets=[0], data=b"", shapes=[])
    )
    for item in response.items:
        response.hidden.shapes.add(sizes=(1, item.token_count, DIM))
        response.hidden.offsets.append(response.hidden.offsets[-1] + item.token_count * DIM)
    response.hidden.data = bytes(4 * response.hidden.offsets[-1])


def of_another(response: Any) -> None:
    response.model.name = "another"


def other_layers(response: Answer) -> None:
    response.attention.layers[:] = [0, 1]


def other_keys(response: Answer) -> None:
    count = response.items[0].token_count
    places = response.attention_map.places.add()
    places.keys.tokens.extend(range(count))
    places.keys.starts.extend(range(count))


def units_behind_the_first(response: Answer) -> None:
    count = response.items[0].token_count
    response.attention_map.places.add(
        keys=pb.Units(tokens=range(count), starts=range(1, count + 1))
    )


def half_precision(response: Answer) -> None:
    for output in ("tokens", "hidden", "attention"):
        if response.HasField(output):
            tensor = getattr(response, output)
            tensor.data = np.frombuffer(tensor.data, "<f4").astype("<f2").tobytes()
            tensor.dtype = pb.DATA_TYPE_FLOAT16


def cut_unasked(response: Answer) -> None:
    response.items[0].original_token_count += 5
    response.items[0].truncated = True


def with_token(field: str, at: int, value: Any) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        getattr(response.items[0].tokens, field)[at] = value

    return change


def all_rows(response: Answer) -> None:
    """Return vectors of all tokens, though special ones were to be left out."""
    response.tokens.CopyFrom(
        ragged([np.ones((item.token_count, DIM), np.float32) for item in response.items], [])
    )
    response.ClearField("kept_tokens")
