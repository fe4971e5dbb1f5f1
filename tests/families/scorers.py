"""Classifiers and rerankers of transformers, with random weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import processors

from tests.factory import VOCABULARY as TEXT_VOCABULARY
from tests.factory import small_tokenizer
from tests.families.models import MODELS, SIZES, VOCABULARY, sharpen
from tests.families.sentences import SPECIAL

LONGEST = 40  # tokens of texts
NONE: Mapping[str, Any] = {}

KINDS = {
    **{
        name: MODELS[name]
        for name in (
            *("bert", "roberta", "distilbert", "modernbert", "gte", "deberta-v2", "mpnet"),
        )
    },
    "camembert": ("Camembert", MODELS["roberta"][1]),
    "plain roberta": ("Roberta", MODELS["roberta"][1]),
    "modernbert mean": (
        "ModernBert",
        MODELS["modernbert"][1]
        | {"classifier_pooling": "mean", "classifier_bias": True, "classifier_activation": "silu"},
    ),
    **{
        name: MODELS[name]
        for name in ("gemma3-causal", "gpt2", "llama", "mistral-local", "qwen2", "qwen3")
    },
    "electra": ("Electra", SIZES | {"embedding_size": 20}),
    "electra, embeddings as wide": ("Electra", SIZES | {"embedding_size": 30}),
}


def scorer(name: str, use: str, labels: int, vocabulary: int = VOCABULARY, **values: Any) -> Any:
    """Return the model of a key of KINDS, in evaluation mode, with eager attention.

    Args:
        name: the key.
        use: "SequenceClassification" or "TokenClassification".
        labels: number of labels.
        vocabulary: number of ids.
        values: further values of its config.
    """
    kind, sizes = KINDS[name]
    torch.manual_seed(7)
    named = {"id2label": {at: f"class {at}" for at in range(labels)}}
    config = getattr(transformers, f"{kind}Config")(
        **sizes | {"vocab_size": vocabulary} | named | values
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{kind}For{use}")(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "token_type" in key:
                parameter.normal_(std=0.5)
            elif parameter.requires_grad:
                head = "pooler" in key or not key.startswith(f"{model.base_model_prefix}.")
                last = head and parameter.shape[0] == labels
                parameter.mul_(40.0 if last else 12.0 if head else 3.0)
        sharpen(model, 0.62)
    return model


def write_scorer(
    folder: Path, name: str, use: str, labels: int, settings: Mapping[str, Any] = NONE
) -> Any:
    """Write a model that reads texts, and return it.

    Args:
        folder: created.
        name, use, labels: see `scorer`.
        settings: added to its config.json.
    """
    model = scorer(name, use, labels, len(TEXT_VOCABULARY))
    model.save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings), encoding="utf-8")
    types = getattr(model.config, "type_vocab_size", 0) > 1
    tokenizer = small_tokenizer()
    if "roberta" in name:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] [SEP] $B [SEP]",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LONGEST,
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
        **SPECIAL,
    ).save_pretrained(folder)
    return model
