"""How fast, over lengths and ragged mixes: everyone on the same batches, in turns."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.budget import Allowance, Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.field import Field, opened
from bench.gpu.peers import Compiled
from bench.gpu.sizes import BASE, LARGE, MINILM
from bench.gpu.texts import read
from bench.gpu.turns import take_turns, told
from bench.measuring import flops
from export.reference import random_ids
from headlight.runtime.engine import pad
from headlight.runtime.plan import plan
from headlight.runtime.values import Ids

SECTION = "speed"
# The pairs that the criteria are about, first: what there is no time for is cut from the end.
ORDER = (BASE, MINILM, LARGE)
PRECISIONS = {"fp16": 3.0, "bf16": 1.5, "fp32": 1.0}  # and what part of the time each gets
DOCSTRINGS, LOG_NORMAL = "docstrings", "log-normal"
BATCHES_A_MIX = 4  # of the largest size
LAUNCHES = 20  # of which the median is taken
PROMISING = 0.3  # seconds that a case must have to be begun


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured.

    Attributes:
        bundles: their folder.
        lengths: tokens, the most important first.
        tokens: of a batch.
        allowance: for compiling.
        backend: of torch.compile.
        texts: how many different ones the mix of docstrings has.
    """

    bundles: Path
    sizes: Sequence[str]
    lengths: Sequence[int]
    tokens: int
    device: Device
    allowance: Allowance
    backend: str
    texts: int


@dataclasses.dataclass(frozen=True)
class Case:
    """Batches of texts, and what the report calls them."""

    kind: str  # "length", "one text", or the name of a mix
    length: int  # of every text; of a mix, the tokens that a batch may have
    batches: tuple[tuple[Ids, ...], ...]


def speed(setting: Setting, budget: Budget, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """A row for each case of each encoder in each precision, or for each that could not take part."""
    names = sorted(setting.sizes, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    pairs = [(name, precision) for precision in PRECISIONS for name in names]
    for at, (name, precision) in enumerate(pairs):
        share = PRECISIONS[precision] / sum(PRECISIONS[other] for _, other in pairs[at:])
        about = {"size": name, "precision": precision}
        if deadline.left < PROMISING:
            budget.skip(SECTION, f"{name} in {precision}")
            continue
        # Of the encoder before nothing is held by now: two at their longest batches would not fit beside each other.
        setting.device.release()
        for row in _rows(name, precision, setting, budget, deadline.part(share)):
            yield about | row


def _rows(name: str, precision: str, setting: Setting, budget: Budget, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Of one encoder in one precision."""
    try:
        chief = setting.lengths[0]
        field = opened(setting.bundles / name, precision, setting.device, setting.allowance, setting.backend, chief)
        everything = list(cases(field, setting))
    except Exception as error:  # the others go on
        yield {"error": told(error)}
        return
    for at, case in enumerate(everything):
        if deadline.left < PROMISING:
            budget.skip(SECTION, f"{name} in {precision}, {case.kind} {case.length}")
            continue
        try:
            yield _measured(field, case, deadline.part(1 / (len(everything) - at)))
        except Exception as error:  # one that the device has not the memory for, say
            budget.skip(SECTION, f"{name} in {precision}, {case.kind} {case.length}: {told(error)}")
    for call in field.torch.values():
        if isinstance(call, Compiled):
            yield {"kind": "compile", "seconds": call.seconds}


def _measured(field: Field, case: Case, deadline: Deadline) -> dict[str, Any]:
    """One row. Vectors are compared before anybody is timed; who is compiled, is compiled then."""
    cosines = field.cosines(case.batches)
    found = take_turns(field.contestants(case.batches), deadline)
    lengths = [len(ids) for one in case.batches for ids in one]
    padded = [pad(list(one)) for one in case.batches]
    return {
        "kind": case.kind,
        "length": case.length,
        "texts": len(lengths),
        "batches": len(case.batches),
        "tokens": sum(lengths),
        "padding": 1 - sum(lengths) / sum(ids.size for ids, _ in padded),
        "flops": sum(flops(field.runtime.bundle.manifest, lengths)),
        "bytes": least_bytes(field, sum(lengths), len(case.batches)),
        "times": {name: one.to_json() for name, one in found.items()},
        "cosines": cosines,
        "launch_ms": launch_ms(field, padded[0]),
    }


def least_bytes(field: Field, tokens: int, batches: int) -> float:
    """That must move through the device's memory: weights once a batch, and of each token what products with them take and give.

    Products of a layer take D, D, D and 4 D numbers and give 3 D, D, 4 D and D; attention between them stays on the chip at best.
    """
    config, width = field.exact.config, 4 if field.precision == "fp32" else 2
    weights = config.layers * 12 * config.dim**2
    return float(width * (weights * batches + config.layers * 16 * config.dim * tokens))


def launch_ms(field: Field, padded: tuple[Ids, Ids]) -> float:
    """Median time in which ONNX Runtime has handed a batch to the device; on a CPU, in which it has computed it."""
    [bound], taken = field.bound([padded]), []
    for _ in range(LAUNCHES):
        begin = time.perf_counter()
        field.bare.launch(bound)
        taken.append(1000 * (time.perf_counter() - begin))
        field.device.wait()
    return statistics.median(taken)


def cases(field: Field, setting: Setting) -> Iterator[Case]:
    """Mixes, then batches of one length, then one text alone."""
    config = field.exact.config
    mixes = {
        DOCSTRINGS: _texts(setting, field),
        LOG_NORMAL: [
            random_ids(config, n, seed) for seed, n in enumerate(log_normal(setting.tokens, config.max_length))
        ],
    }
    for kind, texts in mixes.items():
        for tokens in (setting.tokens, setting.tokens // 4):
            rows = plan([len(ids) for ids in texts], squared=False, tokens=tokens)
            yield Case(kind, tokens, tuple(tuple(texts[row] for row in one) for one in rows))
    lengths = [length for length in setting.lengths if length <= config.max_length]
    for length in lengths:
        count = max(1, setting.tokens // length)
        yield Case("length", length, (tuple(random_ids(config, length, seed) for seed in range(count)),))
    for length in lengths:
        yield Case("one text", length, ((random_ids(config, length, 0),),))


def _texts(setting: Setting, field: Field) -> list[Ids]:
    """Docstrings, again and again until there are enough tokens."""
    known = read(field.runtime.bundle.file("tokenizer.json"), field.exact.config.max_length, setting.texts)
    wanted, found, tokens = BATCHES_A_MIX * setting.tokens, list[Ids](), 0
    while tokens < wanted:
        found.append(known[len(found) % len(known)])
        tokens += len(found[-1])
    return found


def log_normal(tokens: int, longest: int) -> list[int]:
    """Lengths of a skewed mix, median 100, some of them the longest that a batch can hold: enough for the batches of a mix."""
    drawn = np.random.default_rng(0).lognormal(np.log(100), 1.2, size=BATCHES_A_MIX * tokens)
    lengths = np.clip(drawn, 4, min(longest, tokens)).astype(int)
    return [int(n) for n in lengths[: int(np.searchsorted(np.cumsum(lengths), BATCHES_A_MIX * tokens)) + 1]]
