"""Trained on short sequences, asked on long ones: the left neighbour (local) and what followed the same key earlier (induction)."""

from __future__ import annotations

from pathlib import Path

from torch.nn import functional

from model.encoder import Encoder
from model.lab.tasks import IGNORED, Examples
from model.lab.training import SCHEMES, Step, Training, accuracy, held_out, name_all, save, train

TRAINED = (16, 32)
LENGTHS = (32, 64, 128, 512)  # 1, 2, 4 and 16 times the longest of the training


def trainings(seeds: range) -> list[Training]:
    """What is to be trained."""
    return [
        Training(task="recall", scheme=scheme, seed=seed, steps=4000, lengths=TRAINED)
        for scheme in SCHEMES
        for seed in seeds
    ]


def run(training: Training, checkpoints: Path, step: Step) -> dict[str, object]:
    """Train and measure.

    Returns:
        `accuracy`: for each length and kind of question; the message of the refusal where the encoder accepts no such length.
        `blind`: the same without positions at test time, at the length of the training. `mirrored`: see there.
    """
    encoder, _ = train(training, step)
    save(encoder, training, checkpoints)
    examples = held_out(training, TRAINED[1])
    return {
        "accuracy": {str(length): at_length(encoder, training, length) for length in LENGTHS},
        "blind": accuracy(encoder, examples, blind=True),
        "mirrored": mirrored(encoder, examples),
    }


def at_length(encoder: Encoder, training: Training, length: int) -> dict[str, float] | str:
    """Accuracy, or what the encoder says against so many tokens."""
    try:
        return accuracy(encoder, held_out(training, length))
    except ValueError as refusal:
        return str(refusal)


def mirrored(encoder: Encoder, examples: Examples) -> float:
    """Share of the questions for the left neighbour that are answered with the right one."""
    right = functional.pad(examples.ids[:, 1:], (0, 1), value=IGNORED)
    asked = (examples.targets["left"] != IGNORED) & (right != IGNORED)
    return float((name_all(encoder, examples.ids) == right)[asked].float().mean())
