"""Training of one small encoder on one task.

The embeddings are also the output layer: the answer is the id whose embedding fits best.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.checkpoint import load_checkpoint, save_checkpoint
from headlight_model.encoder import Encoder
from lab.building import build
from lab.plans import Training
from lab.schemes import FIELDS
from lab.tasks import IGNORED, TASKS, Examples, keys_of

SCHEMES = tuple(FIELDS)
TEST_SEED = 0x7E57  # of test sequences; trainings have small seeds
WARM_UP, WARM_UP_SHARE = 100, 5  # steps, and at most a fifth of all
WINDOW = 50  # steps whose accuracies make one point of a curve
RECORD = "training.json"  # beside a checkpoint
Step = Callable[[], None]  # called after each step step


def train(training: Training, step: Step) -> tuple[Encoder, list[float]]:
    """Train from scratch.

    Returns:
        The encoder, its weights rounded as a checkpoint holds them; and the accuracy of each WINDOW
        of steps, on new sequences.
    """
    torch.manual_seed(training.seed)
    encoder = build(training)
    curve = take_steps(encoder, training, step)
    return encoder, curve


def take_steps(encoder: Encoder, training: Training, step: Step) -> list[float]:
    """Train an encoder further, as `train` does; return the accuracy of each WINDOW."""
    task, random = TASKS[training.task], torch.Generator().manual_seed(training.seed)
    optimizer = torch.optim.AdamW(
        encoder.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    encoder.train()
    accuracies = []
    for number in range(training.steps):
        for group in optimizer.param_groups:
            group["lr"] = training.rate * rate_share(number, training.steps)
        length = int(
            torch.randint(training.lengths[0], training.lengths[1] + 1, (1,), generator=random)
        )
        loss, accuracy = score(encoder, task.make(training.batch, length, random))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        accuracies.append(accuracy)
        step()
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.copy_(weight.half())
    encoder.eval()
    windows = [accuracies[begin : begin + WINDOW] for begin in range(0, len(accuracies), WINDOW)]
    return [sum(window) / len(window) for window in windows]


def rate_share(number: int, steps: int) -> float:
    """Return the share of the peak learning rate at a step.

    Linear warm-up, then half a cosine to a twentieth.
    """
    rise = min(1.0, (number + 1) / max(1, min(WARM_UP, steps // WARM_UP_SHARE)))
    return rise * (0.525 + 0.475 * math.cos(math.pi * number / steps))


def score(encoder: Encoder, examples: Examples) -> tuple[Tensor, float]:
    """Return the loss in nats, summed over kinds of question, and the share of right answers."""
    scores = fit_scores(encoder, examples.ids)  # [B, S, vocabulary]
    losses = [
        functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        for targets in examples.targets.values()
    ]
    named = scores.detach().argmax(dim=-1)
    right = [(named == targets)[targets != IGNORED] for targets in examples.targets.values()]
    return torch.stack(losses).sum(), float(torch.cat(right).float().mean())


def fit_scores(
    encoder: Encoder, ids: Tensor, positions: Tensor | None = None, head_mask: Tensor | None = None
) -> Tensor:
    """Return how well each id fits in each place: float [B, S, vocabulary].

    Arguments as in Encoder.forward.

    Input and output share the embeddings (Press and Wolf 2017), so a checkpoint of the encoder is
    complete, and a client can decode token vectors that the service returned.
    """
    tokens = encoder(ids, positions=positions, head_mask=head_mask).tokens
    scores: Tensor = tokens @ encoder.embedding.weight.T / math.sqrt(tokens.shape[-1])
    return scores


def held_out(training: Training, length: int, **more: int | bool) -> Examples:
    """Return test sequences of this training's task, the same for every scheme.

    `more`: further arguments of the task's `make`.
    """
    random = torch.Generator().manual_seed(TEST_SEED)
    return TASKS[training.task].make(tested(training, length), length, random, **more)


def tested(training: Training, length: int) -> int:
    """Return the number of test sequences of a length."""
    return max(4, training.tested // length)


def few_keys(training: Training, length: int) -> Examples:
    """Return test sequences of "recall" with no more keys than the longest training sequence.

    With the length, only the distance of the answers grows.
    """
    return held_out(training, length, keys=min(keys_of(length), keys_of(training.lengths[1])))


def accuracy(
    encoder: Encoder, examples: Examples, *, blind: bool = False, head_mask: Tensor | None = None
) -> dict[str, float]:
    """Return the share of right answers to each kind of question.

    Args:
        encoder: in evaluation mode.
        examples: of a length that the encoder accepts.
        blind: give every token position 0, which removes the position information of any scheme.
        head_mask: float [1, L, H]; 0 removes a head.
    """
    named = name_all(encoder, examples.ids, blind=blind, head_mask=head_mask)
    return {
        kind: float((named == targets)[targets != IGNORED].float().mean())
        for kind, targets in examples.targets.items()
    }


def at_lengths(measure: Callable[[int], object], lengths: Sequence[int]) -> dict[str, object]:
    """Return a measurement by length, or the encoder's error message if it rejects the length."""
    result: dict[str, object] = {}
    for length in lengths:
        try:
            result[str(length)] = measure(length)
        except ValueError as refusal:
            result[str(length)] = str(refusal)
    return result


def places(ids: Tensor, *, blind: bool) -> Tensor | None:
    """Return positions for Encoder.forward: None, the default, or int64 [1, S] of zeros."""
    return torch.zeros(1, ids.shape[1], dtype=torch.int64) if blind else None


@torch.inference_mode()
def name_all(
    encoder: Encoder, ids: Tensor, *, blind: bool = False, head_mask: Tensor | None = None
) -> Tensor:
    """Return the answers, int64 [B, S]. Arguments as in `accuracy`."""
    parts = []
    for some in torch.split(ids, max(1, (1 << 14) // ids.shape[1])):
        mask = None if head_mask is None else head_mask.expand(len(some), -1, -1)
        parts.append(fit_scores(encoder, some, places(ids, blind=blind), mask).argmax(dim=-1))
    return torch.cat(parts)


def points(curve: list[float], steps: int) -> list[list[float]]:
    """Return a curve as [[steps, accuracy of the window that ends there], ...]."""
    return [[min((place + 1) * WINDOW, steps), value] for place, value in enumerate(curve)]


def trained(
    training: Training, folder: Path, step: Step, *, again: bool = False
) -> tuple[Encoder, list[float]]:
    """Train as `train` does, and save a checkpoint in `folder` under the training's name.

    It can be exported and served like any other.

    Args:
        training: what to train.
        folder: of all checkpoints.
        step: called after each step.
        again: load the checkpoint of an equal training instead, if there is one.
    """
    place = folder / training.name
    record = {"training": json.loads(json.dumps(dataclasses.asdict(training)))}
    del record["training"]["comparisons"]  # a name of the page, which changes no weight
    if again and (place / RECORD).is_file():
        stored = json.loads((place / RECORD).read_text(encoding="utf-8"))
        if stored["training"] == record["training"]:
            for _ in range(training.steps):
                step()
            return load_checkpoint(place), stored["curve"]
    encoder, curve = train(training, step)
    save(encoder, training, folder, training.name)
    (place / RECORD).write_text(json.dumps(record | {"curve": curve}) + "\n", encoding="utf-8")
    return encoder, curve


def save(encoder: Encoder, training: Training, folder: Path, name: str) -> None:
    """Save a checkpoint of this training's task, with its tokenizer, at folder/name."""
    save_checkpoint(folder / name, encoder, TASKS[training.task].tokenizer_json())
