"""Steps of a training: weights, an optimiser, the step reached, and their saved state."""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.data.stored import Data
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


class Trainer(abc.ABC):
    """Training of one model, step by step.

    Two trainers of equal arguments take equal steps, even if one is saved and resumed in between.

    Args:
        encoder: with its first weights, which the seed decides.
        heads: other parts with weights, by name.
        tokenizer: of the data's texts.
        origin: digests, by name, of what `data` was made from.
    """

    def __init__(
        self,
        encoder: Encoder,
        heads: Mapping[str, nn.Module],
        recipe: Recipe,
        data: Data,
        tokenizer: Tokenizer,
        seed: int,
        origin: dict[str, str],
    ) -> None:
        self.encoder, self.recipe, self.data = encoder, recipe, data
        self.tokenizer, self.seed, self.origin = tokenizer, seed, origin
        self.parts = nn.ModuleDict({"encoder": encoder, **heads})
        self.optimizer = build_optimizer(self.parts, recipe)
        self.step = 0
        self.seconds = 0.0  # of training so far, over all resumptions

    @abc.abstractmethod
    def objectives(self) -> dict[str, float]:
        """Return the weights above 0 of this step's losses, by the method that computes each."""

    def advance(self) -> StepReport:
        """Take one step: update the weights once."""
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
