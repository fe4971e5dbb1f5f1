"""Trainer of one model: its weights, its optimiser, the step it has reached.

Saved to and resumed from a folder.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.attention_roles import targets
from headlight_model.train.data.altered import altered_batch, other_brackets
from headlight_model.train.data.batches import (
    NEAR,
    ORDER,
    PAIRS,
    embed,
    encode,
    equal_texts,
    pair_batch,
)
from headlight_model.train.data.order import draw, fillers
from headlight_model.train.data.stored import Data
from headlight_model.train.data.tokenizer import vocabulary
from headlight_model.train.data.words import (
    distance_from_words,
    learn_words,
    starting_vectors,
    words_loss,
)
from headlight_model.train.initial import initialise_encoder, initialise_head
from headlight_model.train.objectives import (
    MaskedTokenHead,
    ReplacedTokenHead,
    nested_loss,
    order_loss,
    source_loss,
)
from headlight_model.train.optimizer import build_optimizer
from headlight_model.train.recipe import Recipe

STATE = "state.safetensors"


@dataclasses.dataclass(frozen=True)
class StepReport:
    """Losses and accuracies of one step by objective, on its own batch, before its update."""

    loss: dict[str, float]  # nats
    accuracy: dict[str, float]
    tokens: int  # padding included


class Result(NamedTuple):
    """Result of one objective in a step."""

    loss: Tensor
    accuracy: Tensor
    tokens: int


class Trainer:
    """Training of one model, step by step.

    Two trainers of equal arguments take equal steps, even if one is saved and resumed in between.

    `origin`: digests, by name, of what `data` was made from. `tokenizer`: for the questions of
    order.
    """

    def __init__(
        self,
        recipe: Recipe,
        positions: str,
        data: Data,
        tokenizer: Tokenizer,
        seed: int,
        origin: dict[str, str],
    ) -> None:
        torch.manual_seed(seed)
        self.recipe, self.data, self.seed, self.origin = recipe, data, seed, origin
        self.tokenizer = tokenizer
        self.pieces = pieces = vocabulary(tokenizer)
        self.fillers = fillers(pieces)
        self.encoder = Encoder(recipe.encoder_config(positions, len(pieces)))
        initialise_encoder(self.encoder, starting_vectors(pieces, data, recipe.dim))
        self.head = MaskedTokenHead(self.encoder.config, recipe.guess_dim)
        initialise_head(self.head, self.encoder)
        self.replaced_head = ReplacedTokenHead(self.encoder.config)
        self.other_brackets = other_brackets(pieces)
        self.parts = nn.ModuleDict(
            {
                "encoder": self.encoder,
                "mlm_head": self.head,
                "replaced_head": self.replaced_head,
            }
        )
        self.optimizer = build_optimizer(self.parts, recipe)
        self.step = 0
        self.seconds = 0.0  # of training so far, over all resumptions

    def learn_words(self) -> None:
        """Train the word vectors; `advance` does so before the first step."""
        learn_words(self.encoder, self.data, self.recipe, self.seed)

    def advance(self) -> StepReport:
        """Take one step: update the weights once."""
        if self.step == 0:
            self.learn_words()
        # For dropout: a resumed run drops what an unbroken one drops.
        torch.manual_seed(self.seed * 2**32 + self.step)
        self.parts.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.step) * group["pace"]
        self.optimizer.zero_grad()
        results = {}
        for name, weight in self.objectives().items():
            results[name] = result = getattr(self, name)()
            (weight * result.loss).backward()  # one after the other: less memory
        nn.utils.clip_grad_norm_(self.parts.parameters(), self.recipe.gradient_norm)
        self.optimizer.step()
        self.step += 1
        return StepReport(
            {name: result.loss.item() for name, result in results.items()},
            {name: result.accuracy.item() for name, result in results.items()},
            sum(result.tokens for result in results.values()),
        )

    def objectives(self) -> dict[str, float]:
        """Return the weights above 0 of the stage's losses, by the method that computes each."""
        stage = self.recipe.stages[self.recipe.number(self.step)]
        names = ("words", "pairs", "order", "source", "near")
        weights = {name: getattr(stage, name) for name in names}
        return {name: weight for name, weight in weights.items() if weight}

    def source(self) -> Result:
        """Guess the hidden tokens of this step's windows, and find the replaced ones."""
        recipe = self.recipe
        batch = altered_batch(self.data, recipe, self.other_brackets, self.seed, self.step)
        loss, accuracy = source_loss(
            self.encoder,
            self.head,
            self.replaced_head,
            batch,
            recipe,
            targets(batch.original, self.pieces),
        )
        return Result(loss, accuracy, batch.ids.numel())

    def words(self) -> Result:
        """Match this step's pairs of texts by their word vectors."""
        return Result(*words_loss(self.encoder, self.data, self.recipe, self.seed, self.step), 0)

    def pairs(self) -> Result:
        """Match this step's pairs of texts."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, PAIRS, self.step])
        queries, documents = pair_batch(
            self.data, recipe.pairs, random, recipe.drop_tokens, recipe.run
        )
        (asked, query_tokens), (found, document_tokens) = (
            embed(self.encoder, rows, bfloat16=recipe.bfloat16) for rows in (queries, documents)
        )
        same = equal_texts(queries, documents)
        loss, accuracy = nested_loss(asked, found, same, recipe.temperature, recipe.widths)
        return Result(loss, accuracy, query_tokens + document_tokens)

    def order(self) -> Result:
        """Choose between answers that only order tells apart."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, ORDER, self.step])
        drawn = draw(random, recipe.order_triplets, self.fillers)
        questions = [text for each in drawn for text in (each.question, each.other_question)]
        answers = [text for each in drawn for text in (each.right, each.wrong)]
        rows = encode(self.tokenizer, questions + answers, recipe.sentence_length)
        vectors, tokens = embed(self.encoder, rows, bfloat16=recipe.bfloat16)
        asked, found = vectors.view(2, recipe.order_triplets, 2, -1)
        loss, accuracy = order_loss(asked, found, recipe.temperature)
        return Result(loss, accuracy, tokens)

    def near(self) -> Result:
        """Hold vectors of texts near those of their words."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, NEAR, self.step])
        for_near = pair_batch(self.data, recipe.near_pairs, random)
        total, cosine, tokens = torch.zeros(()), torch.zeros(()), 0
        for rows in for_near:
            loss, near, computed = distance_from_words(
                self.encoder, rows, self.data.name_marks, bfloat16=recipe.bfloat16
            )
            total, cosine, tokens = total + loss / 2, cosine + near / 2, tokens + computed
        return Result(total, cosine, tokens)

    def facts(self) -> dict[str, object]:
        """Return what a saved state must share with this trainer to be resumed."""
        return {
            "positions": self.encoder.config.positions,
            "seed": self.seed,
            **self.origin,
            "recipe": json.loads(json.dumps(dataclasses.asdict(self.recipe))),
        }

    def save(self, folder: Path) -> None:
        """Write everything that `resume` needs. An interruption leaves the earlier state intact."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {
            f"weights.{name}": value.detach() for name, value in self.parts.state_dict().items()
        }
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
            ValueError: it was saved by another recipe, seed, scheme, corpus or tokenizer; the
                message names which.
        """
        path = folder / STATE
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; train without --resume first")
        facts = read_facts(path)
        for name, value in self.facts().items():
            if facts[name] != value:
                raise ValueError(
                    f"{path} was saved with {name} {facts[name]}, not {value}; train without "
                    "--resume"
                )
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


def read_facts(path: Path) -> dict[str, Any]:
    """Return the facts inside a saved state."""
    with safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["facts"])
    return facts
