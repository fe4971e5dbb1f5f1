"""Models with a vector for each token, with random weights, in folders as their libraries write."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from torch import nn

from tests.factory import VOCABULARY, small_tokenizer
from tests.families.models import make
from tests.families.sentences import SPECIAL

MARKERS = ("[Q] ", "[D] ", "[unused0]", "[unused1]")
LONGEST, WIDTH = 96, 24
# Ragged, with signs, a token that is no word, a marker, and more tokens than any role has.
TEXTS = [
    "a planet is red",
    "mars",
    "green, is a (colour) of grass. and of leaves",
    "mars",
    "x" * 120,
    "é café",
    "hello, [Q] you",
    "!?",
]
FIXED = {"strategy": "fixed", "length": 20}


def write_base(folder: Path, name: str, markers: tuple[str, ...] = MARKERS) -> Path:
    """Write a model of `tests.families.models` that reads texts, and knows markers as tokens."""
    tokenizer = small_tokenizer()
    tokenizer.add_tokens([*markers])
    make(name, vocabulary=len(VOCABULARY) + len(markers)).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
        mask_token="[MASK]",
        **SPECIAL,
    ).save_pretrained(folder)
    return folder


def write_multi_vector(
    folder: Path,
    name: str = "bert",
    *,
    lengths: Mapping[str, int] | None = None,
    expansion: Mapping[str, Any] | None = None,
    prompts: Mapping[str, str] | None = None,
    skipped: list[str] | None = None,
    skipping: list[str] | None = None,
    residual: bool = False,
) -> MultiVectorEncoder:
    """Write folder / "model" as sentence-transformers does, and return its model.

    Args:
        folder: created.
        name: of the encoder, as in `tests.families.models`.
        lengths: `query_length` and `document_length`.
        expansion: query_expansion.
        prompts: by role.
        skipped: words without a vector.
        skipping: roles that they are for.
        residual: the first layer adds what it reads.
    """
    base = Transformer(
        str(write_base(folder / "base", name)), query_expansion=expansion, **(lengths or {})
    )
    width = base.get_embedding_dimension()
    vectors = {"module_input_name": "token_embeddings", "activation_function": nn.Identity()}
    layers = [
        Dense(width, 2 * width, use_residual=residual, **vectors),
        Dense(2 * width, WIDTH, bias=False, **vectors),
    ]
    randomize(layers)
    mask = MultiVectorMask(skipped, skiplist_tasks=skipping)
    modules = [base, *layers, mask, Normalize("token_embeddings")]
    named = {"prompts": dict(prompts or {})}
    MultiVectorEncoder(modules=modules, device="cpu", **named).save_pretrained(
        str(folder / "model")
    )
    return MultiVectorEncoder(str(folder / "model"), device="cpu")


def write_stanford(folder: Path, **metadata: Any) -> MultiVectorEncoder:
    """Write folder / "model" as Stanford's ColBERT does; return its sentence-transformers model."""
    made = write_base(folder / "model", "bert")
    weights = load_file(made / "model.safetensors")
    torch.manual_seed(3)
    named = {f"bert.{name}": tensor for name, tensor in weights.items()}
    width = named["bert.embeddings.word_embeddings.weight"].shape[1]
    save_file(
        named | {"linear.weight": 0.3 * torch.randn(WIDTH, width)},
        made / "model.safetensors",
        metadata={"format": "pt"},
    )
    configure(made / "config.json", architectures=["HF_ColBERT"])
    values = {"query_maxlen": 20, "doc_maxlen": 40, "attend_to_mask_tokens": False, "dim": WIDTH}
    (made / "artifact.metadata").write_text(json.dumps(values | metadata))
    return MultiVectorEncoder(str(made), device="cpu")


def write_pylate(folder: Path, **settings: Any) -> None:
    """Write folder / "model" as PyLate 1.6 does."""
    made = write_base(folder / "model", "bert")
    layer = nn.Linear(30, WIDTH, bias=False)
    randomize([layer])
    (made / "1_Dense").mkdir()
    save_file({"linear.weight": layer.weight.data}, made / "1_Dense" / "model.safetensors")
    files: dict[str, Any] = {
        "1_Dense/config.json": {
            "in_features": 30,
            "out_features": WIDTH,
            "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
            "use_residual": False,
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
        ],
        "sentence_bert_config.json": {"max_seq_length": 31, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "model_type": "ColBERT",
            "prompts": {"query": "", "document": ""},
            "similarity_fn_name": "MaxSim",
            "query_prefix": "[Q] ",
            "document_prefix": "[D] ",
            "query_length": 20,
            "document_length": 40,
            "skiplist_words": [*string.punctuation],
        }
        | settings,
    }
    for name, content in files.items():
        (made / name).write_text(json.dumps(content))


def randomize(layers: list[nn.Module]) -> None:
    """Give layers random weights that are not small."""
    torch.manual_seed(3)
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter.normal_(std=0.3)


def configure(file: Path, **values: Any) -> None:
    """Change values of a JSON object in a file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
