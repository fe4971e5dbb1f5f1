"""Comparisons of one change each, at equal steps: embeddings, base, heads, depth, varied length.

They use the tasks of `reversal` and `extrapolation`.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from headlight_model.positions.angles import inverse_wavelengths
from lab.experiments.heads import lost_without, pruned
from lab.plans import Training
from lab.tasks import IGNORED
from lab.training import Step, accuracy, at_lengths, held_out, points, trained

DIM = 64  # of the lab's encoders
REVERSED = 16  # tokens
VARIED = (8, 16)  # tokens
BASES = (100.0, 1_000_000.0)  # beside 10,000
HEADS = (1, 8)  # beside 4
DEEP = 6  # layers, beside 2
SMALL = DIM**-0.5  # standard deviation of embeddings, which sqrt(dim) lifts to 1
# Lengths of the tests.
LENGTHS = (32, 64, 128)  # of "recall"
ASKED = {"reverse": (REVERSED,), "recall": LENGTHS}
ASKED_VARIED = (8, 12, 16, 20)


PLAIN = Training(
    task="reverse",
    scheme="sinusoidal",
    seed=0,
    steps=1000,
    lengths=(REVERSED, REVERSED),
    rate=2e-3,
    variant="plain",
    comparisons=("concat", "scale"),
)
RECALL = Training(
    task="recall",
    scheme="sinusoidal",
    seed=0,
    steps=1500,
    lengths=(16, 32),
    batch=32,
    rate=2e-3,
    variant="plain",
    comparisons=("base", "heads"),
)


def trainings(seeds: range) -> list[Training]:
    """Return the trainings of this experiment."""
    plans = [PLAIN, RECALL, *embeddings(), *attention(), *depths(), *varied()]
    return [dataclasses.replace(plan, seed=seed) for plan in plans for seed in seeds]


def embeddings() -> list[Training]:
    """Return concatenated positions, and new embeddings of other scales."""
    scaled = {"scale_embeddings": True}
    return [
        *(
            changed(PLAIN, f"concat {width}", "concat", scheme="learned", word_width=width)
            for width in (32, 48)
        ),
        changed(PLAIN, "scaled", "scale", fields=scaled),
        changed(PLAIN, "small", "scale", initial_std=SMALL),
        changed(PLAIN, "small scaled", "scale", initial_std=SMALL, fields=scaled),
    ]


def attention() -> list[Training]:
    """Return other bases of the sinusoids, and other numbers of heads."""
    return [
        *(
            changed(RECALL, f"base {base:g}", "base", fields={"sinusoidal_base": base})
            for base in BASES
        ),
        *(changed(RECALL, f"heads {heads}", "heads", fields={"heads": heads}) for heads in HEADS),
    ]


def depths() -> list[Training]:
    """Return two and six layers with RoPE."""
    return [
        changed(PLAIN, f"layers {layers}", "depth", scheme="rope", fields={"layers": layers})
        for layers in (2, DEEP)
    ]


def varied() -> list[Training]:
    """Return the reversal of varied length."""
    return [
        changed(PLAIN, "varied", "varied", task=task, scheme=scheme, lengths=VARIED)
        for task, scheme in (
            ("reverse", "sinusoidal"),
            ("reverse", "learned"),
            ("reverse", "rope"),
            ("reverse marked", "rope"),
        )
    ]


def changed(plain: Training, variant: str, comparison: str, **changes: Any) -> Training:
    """Return a training with a change, and the comparison that it belongs to."""
    return dataclasses.replace(plain, variant=variant, comparisons=(comparison,), **changes)


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as in `training.trained`.

    Returns:
        `accuracy`: by length and question, or the error message if the encoder rejects the length.
        `curve`: as in `reversal.run`.
        `parameters`: their number.
        `pruned`, for "depth": the result of `heads.pruned`.
    """
    encoder, curve = trained(training, checkpoints, step, again=again)
    result: dict[str, object] = {
        "accuracy": at_lengths(
            lambda length: accuracy(encoder, held_out(training, length)), lengths(training)
        ),
        "curve": points(curve, training.steps),
        "parameters": sum(each.numel() for each in encoder.parameters() if each.requires_grad),
    }
    if "depth" in training.comparisons:
        lost = lost_without(encoder, held_out(training, REVERSED), training.task)
        result["pruned"] = pruned(encoder, training, REVERSED, lost)
    return result


def lengths(training: Training) -> tuple[int, ...]:
    """Return the lengths at which a training is tested."""
    return ASKED_VARIED if training.variant == "varied" else ASKED[training.task]


def question_count(training: Training, length: int) -> dict[str, int]:
    """Return how many questions of each kind are asked at a length, of every seed alike."""
    targets = held_out(training, length).targets
    return {name: int((target != IGNORED).sum()) for name, target in targets.items()}


def full_circles(length: int, base: float) -> int:
    """Return how many pairs of the sinusoidal positions complete a turn within a length."""
    return int((2 * math.pi / inverse_wavelengths(DIM, base) <= length).sum())
