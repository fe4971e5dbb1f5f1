"""Folders whose config.json contradicts their vectors or their maximum length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from tests.bert_folder import CONFIG, ROWS, tensors
from tests.export.folders.test_import import configure, retouch
from tests.factory import VOCABULARY
from tests.folders import chain

JINA = "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a BERT that can be served, for token ids."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    save_file(tensors(), tmp_path / "model.safetensors")
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(Refused) as caught:
        read_origin(folder, ids_only=True)
    return str(caught.value)


@pytest.mark.parametrize(
    "how", [{"quant_method": "fp8"}, {"quant_method": "bitsandbytes", "load_in_4bit": True}, {}]
)
def test_quantized_weights_are_refused_before_they_are_read(
    folder: Path, how: dict[str, Any]
) -> None:
    configure(quantization_config=how)(folder)
    (folder / "model.safetensors").unlink()
    message = refusal(folder)
    assert "config.json has a quantization_config" in message
    assert how.get("quant_method", "None") in message
    assert "export the folder that they were made from" in message


@pytest.mark.parametrize("key", ["AutoModel", "AutoModelForMaskedLM"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda found: found.pop(QUERY),
            "the weights have no encoder.layer.0.attention.self.query.weight",
        ),
        (lambda found: found.update({QUERY: torch.ones(3, 24)}), "has the shape [51, 24]"),
        (
            lambda found: found.update({QUERY: torch.ones(3, 3)}),
            "have the shapes [3, 3], [24, 24], [24, 24]",
        ),
        (
            lambda found: found.update({"bert.encoder.layer.0.layer_norm_q.weight": torch.ones(3)}),
            "layer_norm_q.weight",
        ),
    ],
)
def test_custom_code_is_named_if_tensors_do_not_fit(
    folder: Path, key: str, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    retouch(change)(folder)
    told = f"; config.json names code of its own ({JINA}), which may be another architecture"
    assert told not in refusal(folder)
    configure(auto_map={"AutoConfig": "configuration_bert.JinaBertConfig", key: JINA})(folder)
    assert message in refusal(folder)
    assert refusal(folder).endswith(told)


def test_custom_code_is_accepted_if_tensors_fit(folder: Path) -> None:
    configure(auto_map={"AutoModel": JINA})(folder)
    assert read_origin(folder, ids_only=True).family == "bert"


@pytest.mark.parametrize(
    ("config", "settings", "does"),
    [
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}},
            {},
            "CrossEncoder scores pairs of texts",
        ),
        ({}, {"model_type": "CrossEncoder"}, "CrossEncoder scores pairs of texts"),
        ({}, {"model_type": "NewEncoder"}, "NewEncoder is for something else than vectors"),
        (
            {"architectures": ["BertForMaskedLM"]},
            {},
            "BertForMaskedLM fills masks, or gives sparse vectors (SPLADE)",
        ),
        (
            {"architectures": ["BertForQuestionAnswering"]},
            {},
            "BertForQuestionAnswering gives places of answers",
        ),
    ],
)
def test_a_model_for_something_else_is_refused_unless_pooling_is_specified(
    folder: Path, config: dict[str, Any], settings: dict[str, Any], does: str
) -> None:
    retouch(
        lambda found: found.update(
            {f"qa_outputs.{part}": torch.ones(2) for part in ("weight", "bias")}
        )
    )(folder)
    configure(**config)(folder)
    if settings:
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert refusal(folder) == (
        f"{does}, which is not exported yet, and the folder names no pooling; "
        "if its vectors are wanted, export with --pooling mean or cls"
    )
    origin = read_origin(folder, pooling="cls", ids_only=True)
    assert origin.encoder.config.pooling == "cls"
    assert (origin.task, origin.why) == ("embed", f"--pooling; {does}: that head is left out")
    assert origin.about.endswith(", qa_outputs")


def test_a_classifier_with_sentence_transformers_pooling_is_accepted(folder: Path) -> None:
    pooling = chain(folder, "Transformer", "Pooling") / "1_Pooling" / "config.json"
    pooling.write_text(
        json.dumps({"embedding_dimension": CONFIG["hidden_size"], "pooling_mode": "cls"})
    )
    configure(architectures=["BertForSequenceClassification"])(folder)
    assert read_origin(folder, ids_only=True).encoder.config.pooling == "cls"


def test_stored_position_ids_are_ignored(folder: Path) -> None:
    """They are not reported as unused weights."""
    before = read_origin(folder, ids_only=True).about
    retouch(
        lambda found: found.update(
            {"bert.embeddings.position_ids": torch.arange(float(ROWS))[None]}
        )
    )(folder)
    assert read_origin(folder, ids_only=True).about == before


@pytest.mark.parametrize(
    ("said", "asked", "told"),
    [
        (None, None, f"length: {ROWS} tokens; pooling: "),
        (20, None, "length: 20 tokens; pooling: "),
        (20, 30, "length: 30 tokens (--max-length); pooling: "),
        (
            99,
            None,
            f"length: {ROWS} tokens (for more it has no positions; the folder says 99); pooling: ",
        ),
    ],
)
def test_the_length_is_reported_with_a_longer_one_if_the_folder_allows_it(
    folder: Path, said: int | None, asked: int | None, told: str
) -> None:
    if said is not None:
        chain(folder, "Transformer", "Pooling")
        (folder / "1_Pooling/config.json").write_text(
            json.dumps({"embedding_dimension": CONFIG["hidden_size"]})
        )
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": said}))
        configure()(folder)
    assert read_origin(folder, max_length=asked, ids_only=True).about.startswith(told)


def test_reserved_position_rows_do_not_extend_the_length(folder: Path) -> None:
    """RoBERTa reserves the first two rows;
    most of its tokenizers give the length without them, but not all.
    """
    save_file(
        {name.replace("bert.", "roberta."): tensor for name, tensor in tensors().items()},
        folder / "model.safetensors",
    )
    configure(model_type="roberta", pad_token_id=1)(folder)
    assert read_origin(folder, ids_only=True).about.startswith(
        f"length: {ROWS - 2} tokens; pooling: "
    )


def nomic(folder: Path) -> None:
    """Write Nomic Embed's config, which was trained with fewer tokens than it accepts."""
    dim, ffn, words = 8, 12, len(VOCABULARY)
    values = {
        "model_type": "nomic_bert",
        "n_embd": dim,
        "n_head": 2,
        "n_layer": 1,
        "n_inner": ffn,
        "vocab_size": words,
    }
    values |= {
        "max_trained_positions": 2048,
        "n_positions": 8192,
        "rotary_scaling_factor": None,
        "type_vocab_size": 2,
    }
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    shapes: dict[str, tuple[int, ...]] = {"embeddings.word_embeddings.weight": (words, dim)}
    shapes |= {"embeddings.token_type_embeddings.weight": (2, dim)}
    layer = "encoder.layers.0"
    shapes |= {
        f"{layer}.attn.Wqkv.weight": (3 * dim, dim),
        f"{layer}.attn.out_proj.weight": (dim, dim),
    }
    shapes |= {f"{layer}.mlp.fc1{i}.weight": (ffn, dim) for i in (1, 2)} | {
        f"{layer}.mlp.fc2.weight": (dim, ffn)
    }
    for norm in ("emb_ln", f"{layer}.norm1", f"{layer}.norm2"):
        shapes |= {f"{norm}.weight": (dim,), f"{norm}.bias": (dim,)}
    save_file(
        {name: torch.ones(shape) for name, shape in shapes.items()}, folder / "model.safetensors"
    )


def test_a_longer_available_length_is_reported_with_its_option(tmp_path: Path) -> None:
    nomic(tmp_path)
    about = read_origin(tmp_path, ids_only=True).about
    assert about.startswith(
        "length: 2048 tokens (what it was trained with; the folder says 8192: --max-length 8192); "
    )
    longer = read_origin(tmp_path, max_length=8192, ids_only=True)
    assert longer.about.startswith("length: 8192 tokens (--max-length); ")
    assert longer.encoder.config.max_length == 8192
