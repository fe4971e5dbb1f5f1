"""Pooling of a folder: its own, the requested one, or the usual one of its family."""

from __future__ import annotations

import dataclasses
from typing import Any

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.sentence_folder import Recipe
from headlight_export.folders.task import GENERATES, other_use
from headlight_model.checkpoint import printable
from headlight_model.config import EncoderConfig
from headlight_model.layers.pooling import POOLING


def with_pooling(
    recipe: Recipe,
    config: dict[str, Any],
    built: EncoderConfig,
    requested: str | None,
    *,
    for_vectors: bool = False,
) -> Recipe:
    """Return the recipe with a pooling: the folder's, the requested one, or the family's usual.

    `for_vectors`: --task says that the model is for vectors.
    """
    if requested is not None and requested not in POOLING:
        raise Refused(f"--pooling {requested} is not known; choose one of {', '.join(POOLING)}")
    if recipe.pooling is not None:
        if requested not in (None, recipe.pooling):
            raise Refused(
                f"the folder pools by {recipe.pooling}, --pooling says {requested}; "
                "leave --pooling out"
            )
        return recipe
    if requested is None and not for_vectors:
        check_use(recipe, config, causal=built.causal)
    return dataclasses.replace(recipe, pooling=requested or built.pooling)


def check_use(recipe: Recipe, config: dict[str, Any], *, causal: bool) -> None:
    """Check that the model of a folder without a pooling was trained for vectors.

    Raises:
        Refused: it was not. The message has the option that exports it anyway.
    """
    if other := other_use(recipe.kind, config):
        poolings = "last" if causal else "mean or cls"
        raise Refused(
            f"{other}, which is not exported yet, and the folder names no pooling; "
            f"if its vectors are wanted, export with --pooling {poolings}"
        )
    if causal:
        architectures = config.get("architectures")
        names = (
            [printable(str(name)) for name in architectures]
            if isinstance(architectures, list)
            else []
        )
        generating = next((name for name in names if GENERATES in name), None)
        what = (
            f"{generating} is a decoder with a generation head"
            if generating
            else "the model is a decoder"
        )
        raise Refused(
            f"{what} and the folder does not name a pooling; if the model was trained to embed, "
            "export with --pooling last" + (", if to rerank with --task rerank" * bool(generating))
        )
