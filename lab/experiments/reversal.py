"""Reversal of a sequence, which needs positions, and copying, which does not.

Every scheme is trained in the same way.
"""

from __future__ import annotations

from pathlib import Path

from lab.experiments.heads import antidiagonal_mass, lost_without, maps, pruned
from lab.plans import Training
from lab.training import SCHEMES, Step, accuracy, held_out, points, trained

LENGTH = 16
MARKED = ("none", "rope", "alibi", "alibi signed")  # distances only, or no positions
SHOWN = 0  # the seed whose attention is drawn, of the schemes DRAWN
DRAWN = ("learned", "none")
PRUNED = ("sinusoidal", "learned", "rope")  # schemes that reverse


def trainings(seeds: range) -> list[Training]:
    """Return the trainings of this experiment."""
    plans = [("copy", scheme, 200) for scheme in SCHEMES]
    plans += [("reverse", scheme, 2000) for scheme in SCHEMES]
    plans += [("reverse marked", scheme, 2000) for scheme in MARKED]
    return [
        Training(
            task=task,
            scheme=scheme,
            seed=seed,
            steps=steps,
            lengths=(LENGTH, LENGTH),
            rate=2e-3,
            comparisons=(task.replace("reverse marked", "marked"),),
        )
        for task, scheme, steps in plans
        for seed in seeds
    ]


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as in `training.trained`.

    Returns:
        `accuracy`; `blind`, the same without positions at test time; `curve`: [[steps, accuracy of
        the window that ends there], ...]. For "reverse" also `antidiagonal` and `lost` of each
        head, [L][H], and for the drawn runs the `maps` and `blind_maps` of one sequence,
        [L][H][S][S]. For the schemes PRUNED also `pruned`, see `heads.pruned`.
    """
    encoder, curve = trained(training, checkpoints, step, again=again)
    examples = held_out(training, LENGTH)
    [kind] = examples.targets
    result: dict[str, object] = {
        "accuracy": accuracy(encoder, examples)[kind],
        "blind": accuracy(encoder, examples, blind=True)[kind],
        "curve": points(curve, training.steps),
    }
    if training.task == "reverse":
        some = examples.ids[:256]
        result["antidiagonal"] = antidiagonal_mass(maps(encoder, some)).mean(dim=1).tolist()
        lost = result["lost"] = lost_without(encoder, examples, kind)
        if training.scheme in PRUNED:
            result["pruned"] = pruned(encoder, training, LENGTH, lost)
        if training.seed == SHOWN and training.scheme in DRAWN:
            result["maps"] = maps(encoder, some[:1])[:, 0].tolist()
            result["blind_maps"] = maps(encoder, some[:1], blind=True)[:, 0].tolist()
    return result
