"""The two heads of BGE-M3 beside its encoder: a weight of each token, and a vector of each.

The rules are those of FlagEmbedding, `BGEM3FlagModel`. It saves the heads as pickles, which are
never opened here: `headlight_export.folders.convert_bge_m3` converts them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tokenizers

from headlight.runtime.bundle.roles import RoleRules
from headlight.spec import INPUT_ROLES
from headlight_export.folders.model_folder import Refused, read_file
from headlight_export.folders.sentence_folder import Recipe
from headlight_export.folders.sentence_modules import DenseLayer
from headlight_export.tokenizers.tokenizer_file import read_settings

WEIGHTS, VECTORS = HEADS = ("sparse_linear", "colbert_linear")
FAMILY = "xlm-roberta"
CLS = "cls_token"
# Tokens without a weight; the family's spelling, unless the folder has another.
SPECIAL = {CLS: "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CONVERT = "python -m headlight_export.folders.convert_bge_m3"
DENSE_ALONE = "export with --task embed for dense vectors alone"


def has_heads(folder: Path) -> bool:
    """Return whether a folder has a head of BGE-M3, in any form."""
    return any(path.stem in HEADS for path in folder.glob("*_linear.*"))


def with_heads(
    recipe: Recipe, family: str, width: int, tokenizer: str | None, task: str | None
) -> Recipe:
    """Return the recipe of dense, sparse and multi-vectors, from a folder that `has_heads`.

    Args:
        recipe: of the folder. Without a pooling, dense vectors are those of the first token.
        family: of the encoder.
        width: of its vectors.
        tokenizer: the text of tokenizer.json; None: token ids alone.
        task: of --task.

    Raises:
        Refused: a head is missing, pickled, damaged or of another shape; or the tokenizer is
            missing.
    """
    folder = recipe.transformer
    if task is not None:
        raise Refused(
            f"{folder} has the heads of BGE-M3, so dense, sparse and multi-vectors are exported "
            f"together; leave --task {task} out, or {DENSE_ALONE}"
        )
    if family != FAMILY:
        raise Refused(f"{folder} has the heads of BGE-M3, read for {FAMILY} alone; {DENSE_ALONE}")
    if tokenizer is None:
        raise Refused(
            f"the heads of BGE-M3 need {folder}'s tokenizer, whose special tokens have no weight; "
            f"leave --ids-only out, or {DENSE_ALONE}"
        )
    weights, vectors = (_head(folder, name, width) for name in HEADS)
    if len(weights.weight) != 1:
        raise Refused(
            f"{folder / WEIGHTS}.safetensors gives {len(weights.weight)} numbers for each token; "
            "expected 1"
        )
    ids = _special_ids(folder, tokenizer)
    rules = RoleRules(skipped=(ids[CLS],))
    pooled = {} if recipe.pooling else {"pooling": "cls", "normalize": True}
    return dataclasses.replace(
        recipe,
        token_weights=weights,
        unweighted=tuple(sorted({*ids.values()})),
        multi_vector=(vectors,),
        roles=dict.fromkeys(INPUT_ROLES, rules),
        **pooled,
    )


def _head(folder: Path, name: str, width: int) -> DenseLayer:
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
    shapes = {key: list(tensor.shape) for key, tensor in tensors.items()}
    rows = shapes.get("weight", [0])[0]
    if not rows or shapes != {"weight": [rows, width], "bias": [rows]}:
        raise Refused(
            f"{path} holds {shapes}; the model takes weight [n, {width}] and bias [n]; "
            "convert the folder again"
        )
    return DenseLayer(tensors["weight"], tensors["bias"], "identity")


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
                f"BGE-M3 give no weight; correct the tokenizer, or {DENSE_ALONE}"
            )
        ids[role] = number
    return ids
