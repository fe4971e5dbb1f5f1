"""One model under training: its weights, its optimiser, the step it has reached; saved to and resumed from a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.data.batches import PAIRS, Data, embed, equal_texts, masked_batch, pair_batch
from headlight_model.train.data.words import learn_words, starting_vectors
from headlight_model.train.initial import WRITES, initialise_encoder, initialise_head, word_scale
from headlight_model.train.objectives import MaskedTokenHead, contrastive_loss, masked_token_loss
from headlight_model.train.recipe import Recipe

STATE = "state.safetensors"


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What one step achieved, on its own batch and before its update."""

    objective: str  # "masked" or "retrieval"
    loss: float  # nats
    accuracy: float
    tokens: int  # padding included


class Trainer:
    """Takes steps. Two trainers of equal arguments take equal steps, whatever was saved and resumed in between.

    `origin`: digests, by name, of what `data` was made from.
    """

    def __init__(
        self, recipe: Recipe, positions: str, data: Data, pieces: Sequence[str], seed: int, origin: dict[str, str]
    ) -> None:
        torch.manual_seed(seed)
        self.recipe, self.data, self.seed, self.origin = recipe, data, seed, origin
        self.encoder = Encoder(recipe.encoder_config(positions, len(pieces)))
        words = starting_vectors(pieces, data, recipe.dim - recipe.guess_dim)
        initialise_encoder(self.encoder, recipe.guess_dim, words)
        self.head = MaskedTokenHead(self.encoder.config, recipe.guess_dim)
        initialise_head(self.head, self.encoder, recipe.guess_dim)
        self.parts = nn.ModuleDict({"encoder": self.encoder, "mlm_head": self.head})
        self.optimizer = build_optimizer(self.parts, recipe)
        self.slow = meaning_part(self.encoder, recipe)
        self.step = 0
        self.seconds = 0.0  # of training so far, over all resumptions

    def advance(self) -> StepReport:
        """One update of the weights."""
        if self.step == 0:
            learn_words(self.encoder, self.data, self.recipe, self.seed)
        torch.manual_seed(self.seed * 2**32 + self.step)  # for dropout: a resumed run drops what an unbroken one drops
        self.parts.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        masked = (self.step + 1) % self.recipe.retrieval_every != 0
        loss, accuracy, tokens = self.masked() if masked else self.retrieval()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parts.parameters(), self.recipe.gradient_norm)
        before = [weight.clone() for weight, _ in self.slow]
        self.optimizer.step()
        for (weight, pace), old in zip(self.slow, before, strict=True):
            weight.lerp_(old, 1 - pace)
        self.step += 1
        return StepReport("masked" if masked else "retrieval", loss.item(), accuracy.item(), tokens)

    def masked(self) -> tuple[Tensor, Tensor, int]:
        """Loss, accuracy and tokens of this step's windows."""
        ids, labels = masked_batch(self.data, self.recipe, self.encoder.config.vocab_size, self.seed, self.step)
        return *masked_token_loss(self.encoder, self.head, ids, labels), ids.numel()

    def retrieval(self) -> tuple[Tensor, Tensor, int]:
        """Loss, accuracy and tokens of this step's pairs."""
        random = np.random.default_rng([self.seed, PAIRS, self.step])
        queries, documents = pair_batch(self.data, self.recipe.pairs, random, self.recipe.drop_tokens)
        query_vectors, query_tokens = embed(self.encoder, queries)
        document_vectors, document_tokens = embed(self.encoder, documents)
        same = equal_texts(queries, documents)
        loss, accuracy = contrastive_loss(query_vectors, document_vectors, same, self.recipe.temperature)
        return loss, accuracy, query_tokens + document_tokens

    def facts(self) -> dict[str, object]:
        """What a saved state must share with this trainer to continue it."""
        return {
            "positions": self.encoder.config.positions,
            "seed": self.seed,
            **self.origin,
            "recipe": json.loads(json.dumps(dataclasses.asdict(self.recipe))),
        }

    def save(self, folder: Path) -> None:
        """Write everything that `resume` needs. An interruption leaves the earlier state whole."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"weights.{name}": value.detach() for name, value in self.parts.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        facts = {"step": self.step, "seconds": self.seconds, **self.facts()}
        # The facts travel inside the tensors' file, so that one rename replaces both.
        save_file(tensors, folder / f"{STATE}.new", metadata={"facts": json.dumps(facts)})
        (folder / f"{STATE}.new").replace(folder / STATE)

    def resume(self, folder: Path) -> None:
        """Continue from what `save` wrote.

        Raises:
            FileNotFoundError: nothing was saved there.
            ValueError: it was saved by another recipe, seed, scheme, corpus or tokenizer; the message names which.
        """
        path = folder / STATE
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; train without --resume first")
        facts = read_facts(path)
        for name, value in self.facts().items():
            if facts[name] != value:
                raise ValueError(f"{path} was saved with {name} {facts[name]}, not {value}; train without --resume")
        moments: dict[int, dict[str, Tensor]] = {}
        weights: dict[str, Tensor] = {}
        for name, tensor in load_file(path).items():
            kind, _, rest = name.partition(".")
            if kind == "weights":
                weights[rest] = tensor
            else:
                index, _, moment = rest.partition(".")
                moments.setdefault(int(index), {})[moment] = tensor
        self.parts.load_state_dict(weights)
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.step, self.seconds = facts["step"], facts["seconds"]


def build_optimizer(parts: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; weight decay for the matrices of blocks and head alone."""
    free: list[Tensor] = []
    decayed: list[Tensor] = []
    for name, weight in parts.named_parameters():
        shrinks = weight.ndim > 1 and not name.startswith(("encoder.embedding", "encoder.dense"))
        (decayed if shrinks else free).append(weight)
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": free, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def meaning_part(encoder: Encoder, recipe: Recipe) -> list[tuple[Tensor, float]]:
    """Views of the weights that the vector of a text is made by, each with the share of a step that it takes.

    Adam's steps have the same length for every weight whatever its gradient, so those of the guess would soon overrun it.
    """
    rest, pace = slice(recipe.guess_dim, None), recipe.meaning_pace
    found = [(encoder.embedding.weight.data[:, rest], pace * word_scale(encoder))]
    for name, weight in encoder.named_parameters():
        if name.startswith("dense."):
            found.append((weight.data, pace))
        elif name.endswith(WRITES):
            found.append((weight.data[rest], pace))
    return found


def read_facts(path: Path) -> dict[str, Any]:
    """The facts inside a saved state."""
    with safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["facts"])
    return facts
