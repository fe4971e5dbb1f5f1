"""The task of a folder's model: vectors, or scores of texts or tokens.

A folder says it in three places: `model_type` of config_sentence_transformers.json, the scores of a
cross-encoder in config.json, and the classes of transformers in its `architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlight.runtime.bundle.manifest import TASKS
from headlight_export.folders.model_folder import Refused
from headlight_model.checkpoint import printable
from headlight_model.config import EncoderConfig

SENTENCES = "SentenceTransformer"  # the model_type of models for vectors
CROSS_ENCODER, CLASSIFIER = "CrossEncoder", "ForSequenceClassification"
OF_TOKENS = "ForTokenClassification"
SPARSE_ENCODER, MASKED = "SparseEncoder", "ForMaskedLM"
MULTI_VECTOR, PYLATE, STANFORD = "MultiVectorEncoder", "ColBERT", "HF_ColBERT"
MULTI_VECTORS = (MULTI_VECTOR, PYLATE, STANFORD)  # the last is a class of its own library
GENERATES = "ForCausalLM"  # a decoder, which may score by the tokens that it would generate
# Other model_types, and ends of the names of transformers' classes: what the models do.
OTHERS = {
    CROSS_ENCODER: "scores pairs of texts",
    SPARSE_ENCODER: "gives sparse vectors",
    **dict.fromkeys(MULTI_VECTORS, "gives a vector for each token"),
    MASKED: "fills masks, or gives sparse vectors (SPLADE)",
    CLASSIFIER: "gives classes",
    OF_TOKENS: "gives classes of tokens",
    "ForQuestionAnswering": "gives places of answers",
    "ForMultipleChoice": "chooses among answers",
}
MOST_LABELS = 5  # that a message names


def scored(
    kind: str, config: Mapping[str, Any], pooling: str | None, task: str | None, *, pools: bool
) -> str | None:
    """Return the class of a model whose head for scores is exported; None: its vectors are.

    Args:
        kind: model_type of config_sentence_transformers.json.
        config: config.json.
        pooling: of --pooling, which asks for vectors.
        task: of --task.
        pools: whether the folder itself has a pooling.

    Raises:
        Refused: the options contradict each other or the folder, or the folder leaves the task
            open.
    """
    if task not in (None, *TASKS):
        raise Refused(f"--task {task} is not known; choose one of {', '.join(TASKS)}")
    if pooling is not None and task not in (None, "embed"):
        raise Refused(f"--pooling is for vectors of --task embed, not {task}; leave one out")
    if task in ("embed", "sparse", "multi_vector") or pooling is not None:
        return None
    said = config.get("architectures")
    names = [str(name) for name in said] if isinstance(said, list) else []
    [name] = [each for each in names if each.endswith((CLASSIFIER, OF_TOKENS))][:1] or [""]
    generates = [each for each in names if each.endswith(GENERATES)]
    if not pools and not name and generates and (kind == CROSS_ENCODER or task == "rerank"):
        return generates[0]
    if pools or not name or kind not in (SENTENCES, CROSS_ENCODER):
        if task is not None:
            raise Refused(
                f"--task {task} takes a model whose config.json names a class of transformers "
                f"that ends with {CLASSIFIER} or {OF_TOKENS}; leave it out"
            )
        return None
    if name.endswith(OF_TOKENS) and task != "classify":
        if task is not None:
            raise Refused(f"{printable(name)} gives classes of tokens; export with --task classify")
        if not config.get("id2label"):  # some models for vectors name such a class, too
            raise Refused(
                f"config.json names {printable(name)} and no id2label, so it may be for vectors "
                "or for classes of tokens; choose --task embed or --task classify"
            )
    return name


def weights_terms(
    kind: str, config: Mapping[str, Any], pooling: str | None, task: str | None
) -> bool:
    """Return whether a model's head for the terms of its vocabulary is exported.

    The arguments are those of `scored`.

    Raises:
        Refused: it has no such head.
    """
    if task != "sparse" and (task is not None or pooling is not None or kind != SPARSE_ENCODER):
        return False
    said = config.get("architectures")
    if not any(str(name).endswith(MASKED) for name in (said if isinstance(said, list) else ())):
        raise Refused(
            f"sparse vectors need a class of transformers that ends with {MASKED} in config.json; "
            "save the masked language model, or export the vectors of its tokens with --task embed "
            "and --pooling mean or cls"
        )
    return True


def matches_tokens(kind: str, pooling: str | None, task: str | None) -> bool:
    """Return whether a vector of each token is exported, to be matched one by one.

    The arguments are those of `scored`.

    Raises:
        Refused: the folder has no layers for them.
    """
    if kind not in MULTI_VECTORS and task == "multi_vector":
        raise Refused(
            "--task multi_vector takes a folder of MultiVectorEncoder of sentence-transformers, of "
            f"PyLate, or of Stanford's ColBERT ({STANFORD}); leave it out"
        )
    return kind in MULTI_VECTORS and pooling is None and task in (None, "multi_vector")


def task_of(config: EncoderConfig, requested: str | None = None) -> str:
    """Return the task of a model with such heads: with a single label it ranks.

    Raises:
        Refused: `requested`, of --task, does not suit the head.
    """
    head = config.score_head
    if head is None:
        if config.token_weight_head is not None:  # dense vectors beside those of both heads
            return "embed"
        alone = {"multi_vector": config.multi_vector_head, "sparse": config.term_head}
        return next((task for task, each in alone.items() if each is not None), "embed")
    if requested == "rerank" and (head.each_token or len(head.labels) != 1):
        raise Refused(
            f"--task rerank takes a model with one score, and this has {len(head.labels)}; "
            "leave it out"
        )
    return requested or ("rerank" if len(head.labels) == 1 and not head.each_token else "classify")


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
