"""Reverse a sequence, which cannot be done without positions, and copy one, which can.

Each scheme is trained alike.
"""

from __future__ import annotations

from pathlib import Path

from headlight_model.lab.heads import antidiagonal_mass, lost_without, maps
from headlight_model.lab.training import (
    SCHEMES,
    WINDOW,
    Step,
    Training,
    accuracy,
    held_out,
    trained,
)

LENGTH = 16
MARKED = ("none", "rope", "alibi", "alibi signed")  # schemes that know distances alone, or nothing
SHOWN = 0  # the seed whose attention is drawn, of the schemes DRAWN
DRAWN = ("learned", "none")


def trainings(seeds: range) -> list[Training]:
    """What is to be trained."""
    plans = [("copy", scheme, 500) for scheme in SCHEMES]
    plans += [("reverse", scheme, 2000) for scheme in SCHEMES]
    plans += [("reverse marked", scheme, 2000) for scheme in MARKED]
    return [
        Training(
            task=task, scheme=scheme, seed=seed, steps=steps, lengths=(LENGTH, LENGTH), rate=2e-3
        )
        for task, scheme, steps in plans
        for seed in seeds
    ]


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as of `training.trained`.

    Returns:
        accuracy, and `blind` without positions at test time; `curve`: [[steps, accuracy of the
        window that ends there], ...]; for "reverse" also `antidiagonal` and `lost` of each head,
        [L][H], and of those that are drawn the `maps` and `blind_maps` of one sequence,
        [L][H][S][S].
    """
    encoder, curve = trained(training, checkpoints, step, again=again)
    examples = held_out(training, LENGTH)
    [kind] = examples.targets
    result: dict[str, object] = {
        "accuracy": accuracy(encoder, examples)[kind],
        "blind": accuracy(encoder, examples, blind=True)[kind],
        "curve": [
            [min((place + 1) * WINDOW, training.steps), value] for place, value in enumerate(curve)
        ],
    }
    if training.task == "reverse":
        some = examples.ids[:256]
        result["antidiagonal"] = antidiagonal_mass(maps(encoder, some)).mean(dim=1).tolist()
        result["lost"] = lost_without(encoder, examples, kind)
        if training.seed == SHOWN and training.scheme in DRAWN:
            result["maps"] = maps(encoder, some[:1])[:, 0].tolist()
            result["blind_maps"] = maps(encoder, some[:1], blind=True)[:, 0].tolist()
    return result
