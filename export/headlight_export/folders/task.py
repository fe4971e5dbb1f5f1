"""The task of a folder's model. Only models for vectors can be exported so far.

A folder says it in three places: `model_type` of config_sentence_transformers.json, the scores of a
cross-encoder in config.json, and the classes of transformers in its `architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlight_model.checkpoint import printable

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
