"""A causal model of two layers that predicts the next character of English text.

A causal encoder without positions still has an order: a token sees only the tokens before it
(Kazemnejad et al. 2023).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional

from headlight_model.encoder import Encoder
from lab.plans import Training
from lab.training import Step, at_lengths, fit_scores, held_out, places, trained

TRAINED = 128  # characters
LENGTHS = (128, 512)
TESTED = 1 << 17  # characters at each length
AT_ONCE = 1 << 13  # characters
# Signed ALiBi looks ahead, which a causal model must not.
SCHEMES = ("none", "sinusoidal", "learned", "rope", "alibi")


def trainings(seeds: range) -> list[Training]:
    """Return the trainings of this experiment."""
    return [
        Training(
            task="next",
            scheme=scheme,
            seed=seed,
            steps=600,
            lengths=(TRAINED, TRAINED),
            batch=16,
            rate=2e-3,
            tested=TESTED,
            variant="causal",
            comparisons=("causal",),
            fields={"causal": True},
        )
        for scheme in SCHEMES
        for seed in seeds
    ]


def run(training: Training, checkpoints: Path, step: Step, *, again: bool) -> dict[str, object]:
    """Train and measure; arguments as in `training.trained`.

    Returns:
        `perplexity`: by length, per character of text that was not in the training, or the error
            message if the encoder rejects the length.
        `blind`: the perplexity at the training length, without positions at test time.
    """
    encoder, _ = trained(training, checkpoints, step, again=again)
    return {
        "perplexity": at_lengths(lambda length: perplexity(encoder, training, length), LENGTHS),
        "blind": perplexity(encoder, training, TRAINED, blind=True),
    }


@torch.inference_mode()
def perplexity(encoder: Encoder, training: Training, length: int, *, blind: bool = False) -> float:
    """Return exp of the mean loss in nats per character, over the second half of each piece.

    So every character has half of the length or more before it. `blind` as in `training.accuracy`.

    Raises:
        ValueError: the encoder rejects the length.
    """
    examples = held_out(training, length, unseen=True)
    losses, half = [], length // 2
    for ids, target in zip(
        *(
            torch.split(each, max(1, AT_ONCE // length))
            for each in (examples.ids, examples.targets["next"])
        ),
        strict=True,
    ):
        scores = fit_scores(encoder, ids, places(ids, blind=blind))[:, half:]  # [B, S - half, ids]
        losses.append(
            functional.cross_entropy(
                scores.flatten(0, 1), target[:, half:].flatten(), reduction="none"
            )
        )
    return float(torch.cat(losses).mean().exp())
