"""Word order over the wire: one sentence, shuffled, asked of a model without and with positions.

    python -m examples.word_order.word_order --picture word-order.png

It makes two models of the same random weights, which differ in `positions` alone. It exports and
serves both, and compares their answers to the sentence and to its shuffled words. It needs a clone
after `make setup`, and about a minute. The exit code is 1 if a property of the page
docs/guides/word-order.md does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

from examples.served import served
from headlight import Client
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import save_checkpoint
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

Floats = NDArray[np.float32]
POSITIONS = {"without positions": "none", "with positions": "sinusoidal"}
WORDS = ("dog", "bites", "man")
ORDER = (2, 1, 0)  # word ORDER[i] is at place i of the shuffled sentence
SHUFFLED = tuple(WORDS[at] for at in ORDER)
SEED = 0
SHARPER = 3.0  # factor of queries and keys: fresh weights attend almost uniformly
DIM = 32
SAME, DIFFERENT = 1e-5, 1e-2  # largest rounding, and least difference, of single entries
LAYER, HEAD = 1, 1  # of the picture


class SentenceOutputs(NamedTuple):
    """Outputs of one sentence of n words."""

    pooled: Floats  # [D]
    tokens: Floats  # [n, D]
    attention: Floats  # [L, H, n, n]


def make_bundle(positions: str, folder: Path) -> Path:
    """Write a model of random weights, the same for all positions, and return its bundle."""
    ids = {word: at for at, word in enumerate(("[PAD]", "[UNK]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(SEED)
    sizes: Any = {"dim": DIM, "heads": 2, "layers": 2, "ffn_dim": 4 * DIM}
    sizes |= {"vocab_size": len(ids), "trained_length": 16, "max_length": 16}
    encoder = Encoder(EncoderConfig(positions=positions, **sizes))
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if name.endswith("attention.project_in.weight"):
                parameter[: 2 * DIM] *= SHARPER  # the rows of queries and keys
    save_checkpoint(folder / "checkpoint", encoder, tokenizer.to_str())
    export_checkpoint(folder / "checkpoint", folder / "bundle", name=positions)
    return folder / "bundle"


def ask(client: Client, words: Sequence[str]) -> SentenceOutputs:
    """Ask the service for all outputs of a sentence."""
    text = " ".join(words)
    return SentenceOutputs(
        client.encode(text), client.encode_tokens([text])[0], client.attend(text).weights
    )


def unshuffled(answers: SentenceOutputs) -> SentenceOutputs:
    """Put the tokens of the shuffled sentence back to the places of their words."""
    back = np.argsort(ORDER)
    attention = answers.attention[:, :, back][:, :, :, back]
    return SentenceOutputs(answers.pooled, answers.tokens[back], attention)


def differences(sentence: SentenceOutputs, shuffled: SentenceOutputs) -> dict[str, float]:
    """Return the largest difference of an entry, by output, once the words are at their places."""
    back = unshuffled(shuffled)
    pairs = {
        "pooled vector": (sentence.pooled, back.pooled),
        "token vectors": (sentence.tokens, back.tokens),
        "attention": (sentence.attention, back.attention),
    }
    return {name: float(np.abs(one - other).max()) for name, (one, other) in pairs.items()}


def failures(measured: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each difference, by model and output, that contradicts the page."""
    lines = []
    for model, outputs in measured.items():
        equal = POSITIONS[model] == "none"
        limit = f"at most {SAME:.0e}" if equal else f"at least {DIFFERENT:.0e}"
        lines += [
            f"{model}: {name}: the difference is {value:.1e}; it must be {limit}"
            for name, value in outputs.items()
            if not (value <= SAME if equal else value >= DIFFERENT)  # NaN is no property
        ]
    return lines


def draw(answers: Mapping[str, tuple[SentenceOutputs, SentenceOutputs]], path: Path) -> None:
    """Draw one head of each model: the sentence, its words shuffled, and these put back."""
    made = Figure(figsize=(8.8, 5.4), dpi=150, layout="constrained")
    axes = made.subplots(len(answers), 3, squeeze=False)
    for row, (model, (sentence, shuffled)) in zip(axes, answers.items(), strict=True):
        panels = (
            (" ".join(WORDS), sentence, WORDS),
            (" ".join(SHUFFLED), shuffled, SHUFFLED),
            ("the same, words put back", unshuffled(shuffled), WORDS),
        )
        for panel, (title, shown, words) in zip(row, panels, strict=True):
            weights = shown.attention[LAYER, HEAD]
            panel.imshow(weights, vmin=0.0, vmax=1.0, aspect="auto")
            panel.set(title=title, xlabel="key")
            panel.set_xticks(range(len(words)), words)
            panel.set_yticks(range(len(words)), words)
            for (query, key), weight in np.ndenumerate(weights):
                colour = "black" if weight > 0.45 else "white"
                panel.text(key, query, f"{weight:.2f}", ha="center", va="center", color=colour)
        row[0].set_ylabel(f"{model}\nquery")
    made.savefig(path, metadata={"Software": None})


def main() -> int:
    """Make, serve, ask, print, draw. Return 1 if a property does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="PNG of the attention maps to write")
    options = parser.parse_args()
    answers = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as services:
        targets = {}
        for model, positions in POSITIONS.items():
            bundle = make_bundle(positions, Path(folder) / positions)
            targets[model] = services.enter_context(served(bundle))
        for model, target in targets.items():
            with Client(target) as client:
                answers[model] = ask(client, WORDS), ask(client, SHUFFLED)
    measured = {model: differences(*both) for model, both in answers.items()}
    print(f"| largest difference | {' | '.join(measured)} |\n|---|{'---|' * len(measured)}")
    for name in measured["with positions"]:
        print(f"| {name} | {' | '.join(f'{outputs[name]:.1e}' for outputs in measured.values())} |")
    if options.picture:
        draw(answers, options.picture)
    wrong = failures(measured)
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
