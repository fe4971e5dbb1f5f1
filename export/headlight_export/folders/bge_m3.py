"""The two heads of BGE-M3 beside its encoder: a weight of each token, and a vector of each.

The rules are those of FlagEmbedding, `BGEM3FlagModel`. It saves the heads as pickles, which are
never opened here: `headlight_export.folders.convert_bge_m3` converts them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import tokenizers

from headlight.runtime.bundle.roles import RoleRules
from headlight.spec import INPUT_ROLES
from headlight_export.folders.model_folder import Refused, read_file
from headlight_export.folders.sentence_folder import Recipe
from headlight_export.folders.sentence_modules import DenseLayer
from headlight_export.tokenizers.tokenizer_file import read_settings

NAME = "BGE-M3"
WEIGHTS, VECTORS = HEADS = ("sparse_linear", "colbert_linear")
FAMILY = "xlm-roberta"
CLS = "cls_token"
# Tokens without a weight; the family's spelling, unless the folder has another.
SPECIAL = {CLS: "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CONVERT = "python -m headlight_export.folders.convert_bge_m3"
WHY = f"with sparse and multi-vectors, by the heads of {NAME}"  # of the export, for the user
DENSE_ALONE = "export with --task embed for dense vectors alone"


class Heads(NamedTuple):
    """The layers of both heads."""

    weights: DenseLayer
    vectors: DenseLayer


def read_heads(folder: Path, family: str, task: str | None) -> Heads | None:
    """Return the heads in the folder of an encoder; None: there are none, or --task leaves them.

    Args:
        folder: of config.json and weights.
        family: of the encoder.
        task: of --task.

    Raises:
        Refused: a head is missing, pickled or damaged, or --task is for another kind of model.
    """
    if task == "embed" or not any(path.stem in HEADS for path in folder.glob("*_linear.*")):
        return None
    if task is not None:
        raise Refused(
            f"{folder} has the heads of {NAME}, so dense, sparse and multi-vectors are exported "
            f"together; leave --task {task} out, or {DENSE_ALONE}"
        )
    if family != FAMILY:
        raise Refused(f"{folder} has the heads of {NAME}, read for {FAMILY} alone; {DENSE_ALONE}")
    return Heads(*(_head(folder, name) for name in HEADS))


def with_heads(
    recipe: Recipe, heads: Heads, width: int, tokenizer: str | None
) -> tuple[Recipe, dict[str, RoleRules]]:
    """Return the recipe of dense, sparse and multi-vectors, and the rules of both roles.

    Args:
        recipe: of the folder. Without a pooling, dense vectors are those of the first token.
        heads: of the folder.
        width: of the encoder's vectors.
        tokenizer: the text of tokenizer.json; None: token ids alone.

    Raises:
        Refused: the heads do not fit the encoder, or their special tokens are unknown.
    """
    folder = recipe.transformer
    if tokenizer is None:
        raise Refused(
            f"the heads of {NAME} need {folder}'s tokenizer, whose special tokens have no weight; "
            f"leave --ids-only out, or {DENSE_ALONE}"
        )
    for name, layer in zip(HEADS, heads, strict=True):
        rows = 1 if name == WEIGHTS else len(layer.weight)
        if layer.weight.shape != (rows, width):
            raise Refused(
                f"{folder / name}.safetensors has a weight of {list(layer.weight.shape)}; the "
                f"model takes {[rows, width]}; fetch the folder anew, or {DENSE_ALONE}"
            )
    ids = _special_ids(folder, tokenizer)
    rules = RoleRules(skiplist=(ids[CLS],))
    whole = dataclasses.replace(
        recipe,
        pooling=recipe.pooling or "cls",
        normalize=recipe.normalize or not recipe.pooling,
        token_weights=heads.weights,
        unweighted=tuple(sorted({*ids.values()})),
        multi_vector=(heads.vectors,),
    )
    return whole, dict.fromkeys(INPUT_ROLES, rules)


def _head(folder: Path, name: str) -> DenseLayer:
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        pickled = (folder / f"{name}.pt").is_file()
        problem = (
            f"is a pickle ({name}.pt), which is never read; run `{CONVERT} {folder}`"
            if pickled
            else "is missing; fetch the folder anew"
        )
        raise Refused(f"{folder}: the head {name} {problem}, or {DENSE_ALONE}")
    tensors = read_file(path)
    weight, bias = tensors.get("weight"), tensors.get("bias")
    if len(tensors) != 2 or weight is None or bias is None or bias.shape != weight.shape[:1]:
        shapes = {key: list(tensor.shape) for key, tensor in tensors.items()}
        raise Refused(
            f"{path} holds {shapes!a:.200}; expected weight [n, width] and bias [n]; fetch the "
            f"folder anew, or {DENSE_ALONE}"
        )
    return DenseLayer(weight, bias, "identity")


def _special_ids(folder: Path, tokenizer: str) -> dict[str, int]:
    """Return the ids of the tokens that have no weight, by their roles."""
    settings, vocabulary = read_settings(folder), tokenizers.Tokenizer.from_str(tokenizer)
    ids = dict[str, int]()
    for role, usual in SPECIAL.items():
        stated = settings.get(role) or usual
        name = str(stated.get("content") if isinstance(stated, dict) else stated)
        number = vocabulary.token_to_id(name)
        if number is None:
            raise Refused(
                f"{folder}: the vocabulary has no {role} {name!a:.40}, to which the heads of "
                f"{NAME} give no weight; correct the tokenizer, or {DENSE_ALONE}"
            )
        ids[role] = number
    return ids
