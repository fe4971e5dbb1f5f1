"""One small encoder, trained on one task. Its own embeddings read its token vectors: the answer is the id whose embedding fits best."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.checkpoint import save_checkpoint
from model.config import EncoderConfig
from model.encoder import Encoder
from model.lab.schemes import FIELDS, config
from model.lab.tasks import IGNORED, MARKS, TASKS, Examples

SCHEMES = tuple(FIELDS)
MAX_LENGTH = 2048  # tokens that are accepted where no table ends
TEST_SEED = 1 << 32  # of sequences that are measured on; trainings have small ones
WARM_UP = 100  # steps
WINDOW = 50  # steps whose accuracies make one point of a curve
Step = Callable[[], None]  # called after each


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """One training. Equal values give equal weights, on one machine and one thread.

    Attributes:
        scheme: one of SCHEMES.
        lengths: shortest and longest sequence; each step draws one.
        batch: sequences a step.
        rope_theta: base of the wavelengths, for "rope".
        tested: tokens of the sequences that it is measured on, at each length.
    """

    task: str
    scheme: str
    seed: int
    steps: int
    lengths: tuple[int, int]
    batch: int = 64
    rate: float = 1e-3
    rope_theta: float = 10000.0
    tested: int = 1 << 15

    @property
    def name(self) -> str:
        """For people and for folders: what tells it from the lab's other trainings."""
        theta = f"-theta{self.rope_theta:g}" if self.scheme == "rope" else ""
        return f"{self.task}-{self.lengths[1]}-{self.scheme}{theta}-seed{self.seed}".replace(" ", "-")


def encoder_config(training: Training) -> EncoderConfig:
    """The lab's encoder of a scheme. A table of learned positions ends with the longest sequence."""
    longest = training.lengths[1] + (len(MARKS) if training.task.endswith("marked") else 0)
    return config(
        training.scheme,
        vocab_size=TASKS[training.task].vocabulary,
        rope_theta=training.rope_theta,
        trained_length=longest,
        max_length=longest if training.scheme == "learned" else MAX_LENGTH,
    )


def train(training: Training, step: Step) -> tuple[Encoder, list[float]]:
    """Train from scratch.

    Returns:
        The encoder, its weights rounded as a checkpoint holds them; and the accuracy of each WINDOW of steps, on new sequences.
    """
    torch.manual_seed(training.seed)
    encoder = Encoder(encoder_config(training))
    curve = take_steps(encoder, training, step)
    return encoder, curve


def take_steps(encoder: Encoder, training: Training, step: Step) -> list[float]:
    """Train an encoder further, as `train` does and with what it returns."""
    task, random = TASKS[training.task], torch.Generator().manual_seed(training.seed)
    optimizer = torch.optim.AdamW(encoder.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    encoder.train()
    accuracies = []
    for number in range(training.steps):
        for group in optimizer.param_groups:
            group["lr"] = training.rate * pace(number, training.steps)
        length = int(torch.randint(training.lengths[0], training.lengths[1] + 1, (1,), generator=random))
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


def pace(number: int, steps: int) -> float:
    """Share of the learning rate that a step has: linear warm-up, then half a cosine to a twentieth."""
    rise = min(1.0, (number + 1) / WARM_UP)
    return rise * (0.525 + 0.475 * math.cos(math.pi * number / steps))


def score(encoder: Encoder, examples: Examples) -> tuple[Tensor, float]:
    """Loss in nats, one share for each kind of question; and the share of right answers, over all of them."""
    said = answers(encoder, examples.ids)  # [B, S, vocabulary]
    losses = [
        functional.cross_entropy(said.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)
        for wanted in examples.targets.values()
    ]
    named = said.detach().argmax(dim=-1)
    right = [(named == wanted)[wanted != IGNORED] for wanted in examples.targets.values()]
    return torch.stack(losses).sum(), float(torch.cat(right).float().mean())


def answers(encoder: Encoder, ids: Tensor, positions: Tensor | None = None, head_mask: Tensor | None = None) -> Tensor:
    """How well each id fits in each place: float [B, S, vocabulary]. Arguments as of Encoder.forward.

    Input and output share the embeddings (Press and Wolf 2017), so a checkpoint of an encoder is all there is, and a client can read
    token vectors that it was served.
    """
    tokens = encoder(ids, positions=positions, head_mask=head_mask).tokens
    said: Tensor = tokens @ encoder.embedding.weight.T / math.sqrt(tokens.shape[-1])
    return said


def held_out(training: Training, length: int) -> Examples:
    """Sequences of this training's task that it has not seen, the same for every scheme and seed."""
    count = max(4, training.tested // length)
    return TASKS[training.task].make(count, length, torch.Generator().manual_seed(TEST_SEED))


def accuracy(
    encoder: Encoder, examples: Examples, *, blind: bool = False, head_mask: Tensor | None = None
) -> dict[str, float]:
    """Share of right answers to each kind of question.

    Args:
        encoder: in evaluation mode.
        examples: whose length it accepts.
        blind: every token says that it stands at position 0, which takes from each scheme all that it knows.
        head_mask: float [1, L, H]; 0 removes a head.
    """
    named = name_all(encoder, examples.ids, blind=blind, head_mask=head_mask)
    return {
        kind: float((named == wanted)[wanted != IGNORED].float().mean()) for kind, wanted in examples.targets.items()
    }


@torch.inference_mode()
def name_all(encoder: Encoder, ids: Tensor, *, blind: bool = False, head_mask: Tensor | None = None) -> Tensor:
    """The answers, int64 [B, S]. Arguments as of `accuracy`."""
    positions = torch.zeros(1, ids.shape[1], dtype=torch.int64) if blind else None
    parts = []
    for some in torch.split(ids, max(1, (1 << 14) // ids.shape[1])):
        mask = None if head_mask is None else head_mask.expand(len(some), -1, -1)
        parts.append(answers(encoder, some, positions, mask).argmax(dim=-1))
    return torch.cat(parts)


def save(encoder: Encoder, training: Training, folder: Path) -> None:
    """A checkpoint that exports and serves like any other, at `folder`/its name."""
    save_checkpoint(folder / training.name, encoder, TASKS[training.task].tokenizer_json())
