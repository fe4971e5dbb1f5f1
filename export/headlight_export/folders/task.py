"""The task of a folder's model, and its pooling. Only models for vectors can be exported so far.

A folder says it in three places: `model_type` of config_sentence_transformers.json, the scores of a
cross-encoder in config.json, and the classes of transformers in its `architectures`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.sentence_folder import Recipe
from headlight_model.checkpoint import printable
from headlight_model.config import EncoderConfig
from headlight_model.layers.pooling import POOLING

SENTENCES = "SentenceTransformer"  # the model_type of models for vectors
CROSS_ENCODER, CLASSIFIER = "CrossEncoder", "ForSequenceClassification"
# Other model_types, and ends of the names of transformers' classes: what the models do.
OTHERS = {
    CROSS_ENCODER: "scores pairs of texts",
    "SparseEncoder": "gives sparse vectors",
    "MultiVectorEncoder": "gives a vector for each token",
    "ColBERT": "gives a vector for each token",
    "ForMaskedLM": "fills masks, or gives sparse vectors (SPLADE)",
    CLASSIFIER: "gives classes",
    "ForTokenClassification": "gives classes of tokens",
    "ForQuestionAnswering": "gives places of answers",
    "ForMultipleChoice": "chooses among answers",
}
MOST_LABELS = 5  # that a message names


def other_use(kind: str, config: Mapping[str, Any]) -> str | None:
    """Return what the model does if the folder says so, and it is not vectors. None: vectors.

    Args:
        kind: model_type of config_sentence_transformers.json.
        config: config.json.
    """
    architectures = config.get("architectures")
    classes = (
        [printable(str(name)) for name in architectures] if isinstance(architectures, list) else []
    )
    if kind != SENTENCES:
        return f"{printable(kind)} {OTHERS.get(kind, 'is for something else than vectors')}"
    names = [*([CROSS_ENCODER] if _is_cross_encoder(config) else []), *classes]
    for name in names:
        for end, does in OTHERS.items():
            if name.endswith(end):
                return f"{name} {_classes(config) if end == CLASSIFIER else does}"
    return None


def _is_cross_encoder(config: Mapping[str, Any]) -> bool:
    """Return whether sentence-transformers wrote how pairs are scored."""
    settings = config.get("sentence_transformers")
    return "sbert_ce_default_activation_function" in config or (
        isinstance(settings, dict) and "activation_fn" in settings
    )


def _classes(config: Mapping[str, Any]) -> str:
    """Return what a classifier does: with a single label it ranks."""
    stated = config.get("id2label")
    labels = [*stated.values()] if isinstance(stated, dict) else []
    count = len(labels) or config.get("num_labels")
    if count == 1:
        return "scores texts by one number, as a reranker does"
    some = ", ".join(printable(str(name)) for name in labels[:MOST_LABELS])
    more = f" and {len(labels) - MOST_LABELS} more" if labels[MOST_LABELS:] else ""
    return f"gives classes ({some}{more})" if labels else "gives classes"


def with_pooling(
    recipe: Recipe, config: dict[str, Any], built: EncoderConfig, requested: str | None
) -> Recipe:
    """Return the recipe with a pooling: the folder's, the requested one, or the family's usual."""
    if requested is not None and requested not in POOLING:
        raise Refused(f"--pooling {requested} is not known; choose one of {', '.join(POOLING)}")
    if recipe.pooling is not None:
        if requested not in (None, recipe.pooling):
            raise Refused(
                f"the folder pools by {recipe.pooling}, --pooling says {requested}; "
                "leave --pooling out"
            )
        return recipe
    if requested is None:
        _check_use(recipe, config, built)
    return dataclasses.replace(recipe, pooling=requested or built.pooling)


def _check_use(recipe: Recipe, config: dict[str, Any], built: EncoderConfig) -> None:
    """Check that the model was trained for vectors.

    Raises:
        Refused: it was not. The message has the option that exports it anyway.
    """
    if other := other_use(recipe.kind, config):
        poolings = "last" if built.causal else "mean or cls"
        raise Refused(
            f"{other}, which is not exported yet, and the folder names no pooling; "
            f"if its vectors are wanted, export with --pooling {poolings}"
        )
    if built.causal:
        architectures = config.get("architectures")
        names = (
            [printable(str(name)) for name in architectures]
            if isinstance(architectures, list)
            else []
        )
        generating = next((name for name in names if "ForCausalLM" in name), None)
        what = (
            f"{generating} is a decoder with a generation head"
            if generating
            else "the model is a decoder"
        )
        raise Refused(
            f"{what} and the folder does not name a pooling; if the model was trained to embed, "
            "export with --pooling last"
        )
