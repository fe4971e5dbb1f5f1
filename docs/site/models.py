"""Page of named models: what each is exported as, and what is proven of it.

    python -m docs.site.models

reads docs/site/models.toml, checks each row with the code that reads folders, and writes
docs/models.md. It needs no network and no weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headlight_export.families import encoder_config, family_of
from headlight_export.families.heads import DECODERS
from headlight_export.folders.origin import FolderUse, folder_use
from headlight_export.folders.pooling_choice import with_pooling
from headlight_export.folders.sentence_folder import Recipe
from headlight_export.folders.task import OF_TOKENS, SENTENCES, task_of
from headlight_export.writer.fp32_parts import architecture_of, outputs_of
from headlight_model.config import (
    Dense,
    EncoderConfig,
    MultiVectorHead,
    ScoreHead,
    TermHead,
    TokenWeightHead,
)

ROOT = Path(__file__).resolve().parents[2]
DATA, PAGE = ROOT / "docs/site/models.toml", ROOT / "docs/models.md"
# Sizes of some config.json by the names of all families; a row's own keys come first.
SIZES = {
    **dict.fromkeys(("vocab_size", "d_ff", "hidden_dim", "intermediate_size", "n_inner"), 48),
    **dict.fromkeys(("hidden_size", "d_model", "dim", "n_embd"), 24),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "n_head"), 3),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    "d_kv": 8,
}
EMPTY = EncoderConfig(vocab_size=2, dim=2, heads=1, layers=1, ffn_dim=2, positions="none")
FIELDS = {
    *("name", "config", "kind", "pools", "heads", "options", "labels", "real", "note"),
    *("config_from", "licence", "licence_from"),
}
TESTS = """\
On random weights, `.venv/bin/nox -s families` compares each task with a library. The files are in
`tests/families`."""
ABOUT = """\
# Models

Each row names a model of the Hugging Face Hub, and how it is served. `python -m docs.site.models`
writes this page. It reads each row's config as an export does, without weights: so family, task and
outputs are what an export of such a folder has.

**Proven** is on one of two kinds of weights. Only all-MiniLM-L6-v2 was compared with its own
([figures](../bench/results/real-model.md)). For all others, a small model of the same family was
compared, with random weights ([figures](../bench/results/families.md)): its encoder, and its head
unless the row says otherwise. The tests could not reach the Hub. `headlight verify ORG/NAME`
compares a model with its own weights where you are, and prints its row with figures.

A model needs safetensors and a `tokenizer.json` or WordPiece `vocab.txt`
([own models](own-models.md)). An empty cell is not known. Licences are copied from the named
source: read the model's card.
"""


class Row(NamedTuple):
    """What a row's config says."""

    family: str
    task: str
    outputs: Sequence[str]


def read_row(model: Mapping[str, Any]) -> Row:
    """Return what a folder of such a model is exported as.

    Raises:
        Refused: it cannot be exported.
    """
    task = model.get("options", {}).get("task")
    config = SIZES | model["config"]
    family = family_of(config)
    encoder = encoder_config(family, config)
    pools = model.get("pools", False)
    recipe = Recipe(
        transformer=Path(),
        kind=model.get("kind", SENTENCES),
        pooling="mean" if pools else None,
    )
    use = folder_use(recipe, family, config, None, task)
    if not any(use):
        with_pooling(recipe, config, encoder, None, for_vectors=task == "embed")
    built = dataclasses.replace(
        EMPTY, causal=family in DECODERS, **_heads(use, model.get("labels", 1), model.get("heads"))
    )
    purpose = task_of(built, task)
    return Row(family, purpose, outputs_of(purpose, architecture_of(built)))


def _heads(use: FolderUse, labels: int, of_bge_m3: bool | None) -> dict[str, Any]:
    """Return the fields of an encoder's config for the heads of a folder."""
    narrow, heads = (Dense(width=2),), dict[str, Any]()
    if use.scores is not None:
        heads["score_head"] = ScoreHead(
            layers=(Dense(width=labels),),
            labels=tuple(map(str, range(labels))),
            activation="identity",
            each_token=use.scores.endswith(OF_TOKENS),
        )
    if use.terms:
        heads["term_head"] = TermHead(layers=narrow)
    if use.matches or of_bge_m3:
        heads["multi_vector_head"] = MultiVectorHead(layers=narrow)
    if of_bge_m3:
        heads["token_weight_head"] = TokenWeightHead()
    return heads


def page(data: Mapping[str, Any]) -> str:
    """Return the page of all models.

    Raises:
        ValueError: a row does not hold; the message names it.
    """
    header = ("model", "family", "task", "outputs", "proven", "licence", "served by", "config from")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for model in data["model"]:
        try:
            lines.append(f"| {' | '.join(_cells(model, data))} |")
        except (ValueError, KeyError) as error:
            raise ValueError(f"{DATA.name}, {model.get('name')}: {error}") from error
    sources = [f"- **{name}**: {text}" for name, text in sorted(data["sources"].items())]
    tests = [
        f"- **{task}**: beside {proof['beside']}\n  ({', '.join(proof['tests'])})"
        for task, proof in data["proofs"].items()
    ]
    parts = (
        "\n".join(lines),
        "## Sources",
        "\n".join(sources),
        "## Tests",
        TESTS,
        "\n".join(tests),
    )
    return "\n\n".join((ABOUT.strip(), *parts)) + "\n"


def _cells(model: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cells of a row."""
    if unknown := model.keys() - FIELDS:
        raise ValueError(f"there is no field {min(unknown)}; those are {', '.join(sorted(FIELDS))}")
    row = read_row(model)
    name, licence = model["name"], model.get("licence", "")
    if licence:
        licence += f" ({_known(model['licence_from'], data['sources'])})"
    options = "".join(f" --{key} {value}" for key, value in model.get("options", {}).items())
    serve = f"`headlight serve {name}`"
    if options:  # of an export alone
        serve = f"`headlight export {name}{options} --out DIR`, then `headlight serve DIR`"
    note = f"; {model['note']}" if "note" in model else ""
    yield from (name, row.family, row.task, ", ".join(row.outputs), _proof(model, row, data))
    yield from (licence, f"{serve}{note}")
    yield _known(model["config_from"], data["sources"])


def _proof(model: Mapping[str, Any], row: Row, data: Mapping[str, Any]) -> str:
    """Return what is proven of a row."""
    if model.get("real"):
        return "own weights"
    proofs = data["proofs"]
    if row.family in proofs[row.task]["families"]:
        return "random weights"
    if row.family in proofs["embed"]["families"]:
        return "random weights, without this head"
    raise ValueError(f"[proofs.embed] lacks {row.family}")


def _known(name: str, sources: Mapping[str, str]) -> str:
    """Return the name of a source. Raises ValueError if [sources] lacks it."""
    if name not in sources:
        raise ValueError(f"there is no source {name}; those are {', '.join(sorted(sources))}")
    return name


def main() -> None:
    """Write the page. A row that does not hold ends it with one line."""
    argparse.ArgumentParser(prog="python -m docs.site.models", description=__doc__).parse_args()
    try:
        text = page(tomllib.loads(DATA.read_text(encoding="utf-8")))
    except ValueError as error:
        sys.exit(f"models: {error}")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
