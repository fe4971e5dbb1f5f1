"""Speed over lengths and ragged mixes: all contestants on the same batches, in turns."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.frame.machine import flops
from bench.gpu.budget import Allowance, Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.field import Field, failed, opened
from bench.gpu.interleaved import Timing, in_one_line, interleave, one_by_one
from bench.gpu.peers import Compiled
from bench.gpu.sizes import BASE, LARGE, MINILM
from bench.gpu.texts import read
from headlight.runtime.engine.batches import pad, plan
from headlight.runtime.values import Ids
from headlight_export.parity.reference import random_ids

SECTION = "speed"
# The criteria's pair is first, because lack of time cuts from the end.
ORDER = {BASE: 2.0, MINILM: 1.0, LARGE: 2.0}  # and each one's share of the time
# Shares of the time. bf16 is for smaller files: its products are float32's.
PRECISIONS = {"fp16": 3.0, "fp32": 1.0, "bf16": 0.5}
CHIEF_WEIGHT = 4.0  # beside 1 of another case
DOCSTRINGS, LOG_NORMAL = "docstrings", "log-normal"
BATCHES_A_MIX = 4  # of the largest size; one in fp32, in bf16 and for BERT-large, which are slow
LAUNCHES, FEWEST_LAUNCHES = 20, 3  # their median counts
LONGEST_LAUNCH = 0.05  # seconds: for a longer run the launch time matters little
PROMISING = 0.3  # seconds that a case needs to begin
# counted, for the criteria's cases, and for any other case that begins
FEWEST_ROUNDS, FEWEST = 3, 1


@dataclasses.dataclass(frozen=True)
class Setting:
    """Settings of the speed benchmark.

    Attributes:
        bundles: their folder.
        lengths: tokens, the most important first.
        tokens: of a batch.
        allowance: for compiling.
        backend: of torch.compile.
        texts: number of different ones in the mix of docstrings.
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
    """Batches of texts, and their name in the report."""

    kind: str  # "length", "one text", or the name of a mix
    length: int  # of every text; for a mix, the tokens of a batch at most
    batches: tuple[tuple[Ids, ...], ...]
    chief: bool = False  # of the criteria's kind

    @property
    def weight(self) -> float:
        return CHIEF_WEIGHT if self.chief else 1.0


def speed(setting: Setting, budget: Budget, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Yield a row for each case of each encoder and precision, or for each failed pair."""
    names = sorted(
        setting.sizes, key=lambda name: list(ORDER).index(name) if name in ORDER else len(ORDER)
    )
    pairs = [(name, precision) for precision in PRECISIONS for name in names]
    weights = [PRECISIONS[precision] * ORDER.get(name, 1.0) for name, precision in pairs]
    for at, (name, precision) in enumerate(pairs):
        share = weights[at] / sum(weights[at:])
        about = {"size": name, "precision": precision}
        if at and deadline.remaining < PROMISING:
            budget.skip(SECTION, f"{name} in {precision}")
            continue
        # The encoder before must hold no memory: two at their longest batches would not fit.
        setting.device.release()
        for row in _pair(name, precision, setting, budget, (deadline, share, at == 0)):
            yield about | row


def _pair(
    name: str, precision: str, setting: Setting, budget: Budget, time: tuple[Deadline, float, bool]
) -> Iterator[dict[str, Any]]:
    """Open and compile one encoder in one precision, then measure in its share of the time."""
    deadline, share, first = time
    try:
        chief = setting.lengths[0]
        field = opened(
            setting.bundles / name,
            precision,
            setting.device,
            setting.allowance,
            setting.backend,
            chief,
        )
        everything = cases(field, setting)
        field.warm([case.batches for case in everything])
    except Exception as error:  # the others go on
        yield {"error": in_one_line(error)}
        return
    mine = deadline.part(share)
    for at, case in enumerate(everything):
        what, must = f"{name} in {precision}, {case.kind} {case.length}", first and case.chief
        if mine.remaining < PROMISING and not must:
            budget.skip(SECTION, what)
            continue
        part = mine.part(case.weight / sum(other.weight for other in everything[at:]))
        compiled = setting.allowance.used
        try:
            yield _measured(field, case, part, setting.allowance, FEWEST_ROUNDS if must else FEWEST)
        except Exception as error:  # for example one that the device has no memory for
            budget.skip(SECTION, f"{what}: {in_one_line(error)}")
        mine.extend(setting.allowance.used - compiled)
    for call in field.torch.values():
        if isinstance(call, Compiled):
            yield {"kind": "compile", "seconds": call.seconds}


def _measured(
    field: Field, case: Case, deadline: Deadline, allowance: Allowance, fewest: int
) -> dict[str, Any]:
    """Return one row.

    Vectors are compared, and compiled, before timing and outside the case's time.
    """
    field.release()
    compiled = allowance.used
    cosines = field.cosines(case.batches)
    deadline.extend(allowance.used - compiled)
    timings = _timed(field, case, deadline, fewest)
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
        "times": {name: one.to_json() for name, one in timings.items()},
        "cosines": cosines,
        "launch_ms": None if field.apart(case.batches) else launch_ms(field, padded[0], deadline),
    }


def _timed(field: Field, case: Case, deadline: Deadline, fewest: int) -> dict[str, Timing]:
    """Time all in turns, or one by one if they do not fit together.

    Failed ones are retried alone.
    """
    everyone = field.contestants(case.batches)
    if field.apart(case.batches):
        return one_by_one(everyone, deadline, field.release, fewest)
    timings = interleave(everyone, deadline, fewest)
    again = {name: everyone[name] for name, one in timings.items() if failed(one.error)}
    return timings | one_by_one(
        again, deadline, functools.partial(field.release, cycles=True), fewest
    )


def least_bytes(field: Field, tokens: int, batches: int) -> float:
    """Return the bytes that must move through the device's memory.

    Weights once a batch, and for each token the inputs and outputs of products with them. Products
    of a layer take D, D, D and 4 D numbers and give 3 D, D, 4 D and D. Attention between them stays
    on the chip at best.
    """
    config, wide = field.exact.config, 2 if field.precision == "fp16" else 4
    weights = (4 if field.precision == "fp32" else 2) * config.layers * 12 * config.dim**2
    return float(weights * batches + wide * config.layers * 16 * config.dim * tokens)


def launch_ms(field: Field, padded: tuple[Ids, Ids], deadline: Deadline) -> float | None:
    """Return ONNX Runtime's median time to hand a batch to the device; on a CPU, to compute it.

    None for a long batch: then it matters little.
    """
    [bound], taken = field.bound([padded]), list[float]()
    while len(taken) < (FEWEST_LAUNCHES if deadline.over else LAUNCHES):
        begin = deadline.now()
        field.bare.launch(bound)
        taken.append(1000 * (deadline.now() - begin))
        field.device.wait()
        # the first may have allocated memory
        if len(taken) > 1 and deadline.now() - begin > LONGEST_LAUNCH:
            return None
    return statistics.median(taken)


def cases(field: Field, setting: Setting) -> list[Case]:
    """Return the cases: the criteria's (in bf16 only these), mixes, single lengths, one text."""
    ordered = sorted(_cases(field, setting), key=lambda case: not case.chief)
    return [case for case in ordered if case.chief or field.precision != "bf16"]


def _cases(field: Field, setting: Setting) -> Iterator[Case]:
    config = field.exact.config
    batches, sizes = (
        (BATCHES_A_MIX, (setting.tokens, setting.tokens // 4))
        if _fast(field)
        else (1, (setting.tokens,))
    )
    lengths = log_normal(setting.tokens, config.max_length, batches)
    mixes = {
        DOCSTRINGS: _texts(setting, field, batches),
        LOG_NORMAL: [random_ids(config, n, seed) for seed, n in enumerate(lengths)],
    }
    for kind, texts in mixes.items():
        for tokens in sizes:
            rows = plan([len(ids) for ids in texts], squared=False, tokens=tokens)
            # One text would be compiled separately: it is a case of its own, below.
            rows = [one for one in rows if len(one) > 1] or rows
            yield Case(
                kind,
                tokens,
                tuple(tuple(texts[row] for row in one) for one in rows),
                kind == DOCSTRINGS,
            )
    lengths = [length for length in setting.lengths if length <= config.max_length]
    for length in lengths:
        count = max(1, setting.tokens // length)
        batch = tuple(random_ids(config, length, seed) for seed in range(count))
        yield Case("length", length, (batch,), length == setting.lengths[0])
    for length in lengths:
        yield Case("one text", length, ((random_ids(config, length, 0),),))


def _fast(field: Field) -> bool:
    """Return whether the speed allows mixes of several batches, in several sizes."""
    return field.precision == "fp16" and field.name != LARGE


def _texts(setting: Setting, field: Field, batches: int) -> list[Ids]:
    """Return docstrings, repeated until there are enough tokens."""
    known = read(
        field.runtime.bundle.file("tokenizer.json"), field.exact.config.max_length, setting.texts
    )
    needed, texts, tokens = batches * setting.tokens, list[Ids](), 0
    while tokens < needed:
        texts.append(known[len(texts) % len(known)])
        tokens += len(texts[-1])
    return texts


def log_normal(tokens: int, longest: int, batches: int = BATCHES_A_MIX) -> list[int]:
    """Return lengths of a skewed mix, median 100, enough for its batches.

    Some are the longest that a batch can hold.
    """
    drawn = np.random.default_rng(0).lognormal(np.log(100), 1.2, size=batches * tokens)
    lengths = np.clip(drawn, 4, min(longest, tokens)).astype(int)
    return [
        int(n) for n in lengths[: int(np.searchsorted(np.cumsum(lengths), batches * tokens)) + 1]
    ]
