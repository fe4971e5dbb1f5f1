"""Batch shape: the padded tokens of a batch, and the multiple that its length is rounded up to.

OpenVINO compiles kernels for each new shape. On a processor that computes fast, compiling takes a
large part of the time. Rounded lengths make few shapes, at the cost of padding. What pays is found
by measuring, once for each processor, model size and precision.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headlight.model_store.model_cache import PRIVATE, cache_folder
from headlight.model_store.model_source import ModelSourceError
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.engine.batches import BATCH_TOKENS, Rounding

log = logging.getLogger("headlight.engine")

WARM_UP, SECONDS = 0.2, 1.2
WORTH = 1.08  # times the speed of the usual shape that another one must have
FEWEST = 3  # turns of all shapes; with fewer in the time, compiling does not matter either
LENGTHS = (64, 36, 110, 20, 180)  # of the longest texts of batches, in turns
ALIKE = 0.8  # least length of a batch's texts, as a share of the longest
FOLDER = "batch-shapes"  # in the cache
LARGEST_FILE = 1024  # bytes


class BatchShape(NamedTuple):
    """Shape of full batches.

    Attributes:
        tokens: most padded tokens of a batch.
        multiple: what a batch's length is rounded up to; 1: not at all.
    """

    tokens: int
    multiple: int

    def __str__(self) -> str:
        rounded = f", lengths rounded up to {self.multiple}" if self.multiple > 1 else ""
        return f"batches of {self.tokens} tokens{rounded}"


USUAL = BatchShape(BATCH_TOKENS, 1)
# Few shapes: kernels of attention may be planned for each. Not measured.
CUDA_MULTIPLE = 16
MEASURED = (USUAL, BatchShape(BATCH_TOKENS, 16), BatchShape(2 * BATCH_TOKENS, 16))


def choices(tokens: int | None, multiple: int | None, least_multiple: int) -> list[BatchShape]:
    """Return the shapes to choose from, the usual one first.

    Args:
        tokens, multiple: as the operator wants them; None: measure.
        least_multiple: divides all multiples.
    """
    shapes = (
        BatchShape(tokens or each.tokens, math.lcm(multiple or each.multiple, least_multiple))
        for each in MEASURED
    )
    return list(dict.fromkeys(shapes))


def fastest(
    run: Callable[[Sequence[EncodeItem]], object],
    shapes: Sequence[BatchShape],
    longest: int,
    streams: int,
    clock: Callable[[], float] = time.perf_counter,
) -> BatchShape:
    """Return the shape with the highest speed, or the first if no other is clearly faster.

    It takes 1.4 s, and at most two batches longer.

    Args:
        run: computes a batch.
        shapes: the shapes to choose from.
        longest: tokens that the model takes.
        streams: batches at once.
        clock: seconds.
    """
    turns: list[list[float]] = []  # seconds for a token of each shape

    def take_turns(seed: int) -> None:
        random = np.random.default_rng(seed)
        for usual in itertools.cycle(LENGTHS[seed % len(LENGTHS) :] + LENGTHS):
            length = min(int(random.integers(math.ceil(ALIKE * usual), usual + 1)), longest)
            turn = []
            for shape in shapes:
                padded = Rounding(shape.multiple, longest).up(length)
                count = max(1, shape.tokens // padded)
                sizes = random.integers(math.ceil(ALIKE * length), length + 1, count).tolist()
                sizes[0] = length
                ids = [np.zeros(size, np.int64) for size in (padded, *sizes[1:])]
                items = [EncodeItem(each, Selection()) for each in ids]
                # A rounded shape comes again: its first run, which compiles, does not count.
                for _ in range(1 if shape.multiple == 1 else 2):
                    if (begun := clock()) >= end:
                        return
                    run(items)
                    taken = clock() - begun
                turn.append(taken / sum(sizes))
            turns.append(turn)

    with ThreadPoolExecutor(streams) as threads:
        end = clock() + WARM_UP  # the first batches are slower
        list(threads.map(take_turns, range(streams)))
        turns.clear()
        end = clock() + SECONDS
        list(threads.map(take_turns, range(streams)))
    if len(turns) < FEWEST:
        return shapes[0]
    gains = [statistics.median(turn[0] / turn[at] for turn in turns) for at in range(len(shapes))]
    best = max(range(len(shapes)), key=gains.__getitem__)
    return shapes[best if gains[best] >= WORTH else 0]


def kept(
    facts: Mapping[str, object], shapes: Sequence[BatchShape], find: Callable[[], BatchShape]
) -> BatchShape:
    """Return which of the shapes was found for these facts before, or else find it and keep it.

    It is kept in the folder of the cache, if that can be written.
    """
    path = None
    with contextlib.suppress(ModelSourceError, OSError):
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        path = cache_folder(os.environ) / FOLDER / f"{key}.json"
    shape = None if path is None else _read(path)
    if shape is not None and shape in shapes:
        log.info(f"{shape}, as measured", extra=_facts(shape))
        return shape
    begun = time.perf_counter()
    shape = find()
    seconds = time.perf_counter() - begun
    log.info(
        f"{shape}, measured in {seconds:.1f} s",
        extra=_facts(shape),
    )
    if path is not None:
        with contextlib.suppress(OSError):
            _write(path, shape)
    return shape


def forget() -> None:
    """Remove what is kept, so that the next start measures."""
    with contextlib.suppress(ModelSourceError, OSError):
        for path in (cache_folder(os.environ) / FOLDER).glob("*.json"):
            path.unlink(missing_ok=True)


def _facts(shape: BatchShape) -> dict[str, object]:
    """Return what the log says of a shape, by the names of the options."""
    return {
        "event": "batch_shape",
        "batch_tokens": shape.tokens,
        "round_lengths": shape.multiple,
    }


def _read(path: Path) -> BatchShape | None:
    try:
        with path.open("rb") as file:
            content: dict[str, Any] = json.loads(file.read(LARGEST_FILE))
            return BatchShape(int(content["tokens"]), int(content["multiple"]))
    except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _write(path: Path, shape: BatchShape) -> None:
    path.parent.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    path.parent.mkdir(mode=PRIVATE, exist_ok=True)
    # Another process may write the same file: each moves its own into place.
    draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    draft.write_text(json.dumps(shape._asdict()), encoding="utf-8")
    draft.replace(path)
