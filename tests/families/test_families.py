"""Each family, from a folder that its own code wrote to results of the runtime.

Compared with that code in eager mode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file

from headlight.outputs.registry import MEASURED
from headlight.runtime import Runtime
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.parity.reference import Reference
from headlight_export.parity.transformers_comparison import against_transformers
from tests.families.models import MODELS, VOCABULARY, entropy_of, make, random_ids
from tests.families.opened import (
    LENGTHS,
    NAMES,
    Theirs,
    distances,
    imported,
    limits,
    moved_by_mates,
    sentence,
)
from tests.families.scorers import scorer

transformers.logging.set_verbosity_error()

SEGMENTED = (
    *("bert", "deberta-v2", "deberta-v2-unshared", "electra", "nomic_bert", "gte", "jina_bert"),
    *("roformer", "roformer-values", "linear", "dynamic"),
)
EXACT = dict.fromkeys(MEASURED, 0.0)
Opened = tuple[str, Runtime, Theirs]


@pytest.fixture(scope="module", params=NAMES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Return each family in turn: its name, a runtime, and the original model."""
    with imported(request.param, tmp_path_factory.mktemp(request.param)) as (runtime, theirs):
        yield request.param, runtime, theirs


def test_every_output_matches_the_reference_code(opened: Opened) -> None:
    name, runtime, theirs = opened
    for length in LENGTHS:
        ids = sentence(length)
        allowed = limits(theirs, ids)
        for output, error in distances(runtime, theirs, name, ids).items():
            assert error <= allowed[output], (output, length)


def test_second_texts_have_the_second_token_type(opened: Opened) -> None:
    name, runtime, theirs = opened
    ids = sentence(40)
    segments = (ids > ids.mean()).astype(ids.dtype)
    if name not in SEGMENTED:
        assert runtime.bundle.manifest.architecture.segments <= 1
        return
    allowed = limits(theirs, ids, segments)
    for output, error in distances(runtime, theirs, name, ids, segments).items():
        assert error <= allowed[output], output


def test_a_vector_does_not_depend_on_batch_mates(opened: Opened) -> None:
    _, runtime, _ = opened
    assert moved_by_mates(runtime) <= 1e-6


@pytest.mark.parametrize("opened", ["gemma3", "gemma3-causal"], indirect=True)
def test_every_output_matches_the_reference_code_on_openvino(opened: Opened) -> None:
    name, runtime, theirs = opened
    with Runtime(runtime.bundle.path, provider="openvino", threads=1) as on_openvino:
        for length in LENGTHS:
            ids = sentence(length)
            allowed = limits(theirs, ids)
            for output, error in distances(on_openvino, theirs, name, ids).items():
                assert error <= allowed[output], (output, length)
        assert moved_by_mates(on_openvino) <= 1e-6


def test_attention_of_the_models_is_far_from_uniform(opened: Opened) -> None:
    """Otherwise the comparison would hide a wrong scale."""
    _, _, theirs = opened
    weights = theirs.outputs(random_ids(64, 5)[0].numpy()).attention
    # ln 64; for a text that was not used to sharpen.
    assert max(entropy_of(torch.from_numpy(maps)[None]) for maps in weights) < 0.7 * 4.1589


def test_a_dynamic_scaling_is_fixed_for_the_longest_text(tmp_path: Path) -> None:
    """At that length transformers, which scales by the current length, gives the same."""
    model = make("dynamic")
    model.save_pretrained(tmp_path)
    longest, trained = 200, MODELS["dynamic"][1]["max_position_embeddings"]
    long = read_origin(tmp_path, max_length=longest, ids_only=True).encoder
    plain = read_origin(tmp_path, ids_only=True).encoder
    ids, short = random_ids(longest, 3), random_ids(trained, 3)
    with torch.inference_mode():
        tokens = model(ids).last_hidden_state
        torch.testing.assert_close(long(ids).tokens, tokens, atol=2e-5, rtol=0)
        assert not torch.allclose(long(short).tokens, plain(short).tokens, atol=1e-3)
    assert (long.config.max_length, plain.config.max_length) == (longest, trained)


def test_gte_in_the_inner_names_of_transformers_is_the_same(tmp_path: Path) -> None:
    model = make("gte")
    states = []
    for original in (True, False):
        model.save_pretrained(tmp_path / str(original), save_original_format=original)
        encoder = read_origin(tmp_path / str(original), pooling="cls", ids_only=True).encoder
        states.append(encoder.state_dict())
    torch.testing.assert_close(*states, atol=0, rtol=0)


def save_as(model: Any, folder: Path, changes: dict[str, Any]) -> None:
    """Save a model with another config.json."""
    model.save_pretrained(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes), encoding="utf-8")


@pytest.mark.parametrize("pooling", ["avg", "cls", "last"])
def test_a_bidirectional_llama_pools_as_its_config_says(pooling: str, tmp_path: Path) -> None:
    kept = scorer("llama", "SequenceClassification", 1, is_causal=False)
    temperature = 0.2
    own = {
        "model_type": "llama_bidirec",
        "pooling": pooling,
        "temperature": temperature,
        "is_causal": None,
    }
    ids = random_ids(40, 3)
    for kind in ("Model", "ForSequenceClassification"):
        model = kept.model if kind == "Model" else kept
        folder = tmp_path / kind
        named = kind == "ForSequenceClassification" or pooling == "avg"  # else by its model_type
        classes = {"architectures": [f"LlamaBidirectional{kind}"] if named else None}
        save_as(model, folder, own | classes)
        origin = read_origin(folder, ids_only=True)
        encoder = origin.encoder
        with torch.inference_mode():
            tokens = kept.model(ids).last_hidden_state
            pooled = {"avg": tokens.mean(1), "cls": tokens[:, 0], "last": tokens[:, -1]}[pooling]
            ours = encoder(ids)
            torch.testing.assert_close(ours.tokens, tokens, atol=2e-5, rtol=0)
            if kind == "Model":
                assert f"pooling: {encoder.config.pooling} (config.json)" in origin.about
                torch.testing.assert_close(ours.pooled, pooled, atol=2e-5, rtol=0)
                assert against_transformers(folder, "llama_bidirec", encoder, EXACT).errors
            else:
                logits = kept.score(pooled) / temperature
                torch.testing.assert_close(ours.heads["logits"], logits, atol=2e-5, rtol=1e-5)


def test_the_projection_of_a_bidirectional_qwen3_is_applied_to_the_mean(tmp_path: Path) -> None:
    """Voyage's code applies it to tokens."""
    model = scorer("qwen3", "SequenceClassification", 1, is_causal=False).model
    own = {
        "auto_map": {"AutoModel": "modeling_qwen3_bidirectional.Qwen3BidirectionalModel"},
        "is_causal": None,
    }
    save_as(model, tmp_path, own)
    projection = torch.randn(50, model.config.hidden_size)
    weights = {f"model.{name}": each for name, each in model.state_dict().items()}
    save_file(weights | {"linear.weight": projection}, tmp_path / "model.safetensors")
    encoder = read_origin(tmp_path, pooling="mean", ids_only=True).encoder
    ids = random_ids(40, 3)
    with torch.inference_mode():
        expected = (model(ids).last_hidden_state @ projection.T).mean(1)
        torch.testing.assert_close(encoder(ids).pooled, expected, atol=5e-5, rtol=1e-5)
    with pytest.raises(Refused, match=r"linear\.weight is .* by max .* served are mean, cls"):
        read_origin(tmp_path, pooling="max", ids_only=True)
    assert against_transformers(tmp_path, "qwen3", encoder, EXACT).errors


def test_config_keys_of_nomics_own_code_are_read(tmp_path: Path) -> None:
    """For published configs, transformers would use its default sizes."""
    model = make("nomic_bert")
    model.save_pretrained(tmp_path)
    sizes = MODELS["nomic_bert"][1]
    words = {
        "model_type": "nomic_bert",
        "activation_function": "swiglu",
        "layer_norm_epsilon": 1e-12,
        "max_trained_positions": sizes["max_position_embeddings"],
        "n_embd": sizes["hidden_size"],
        "n_head": sizes["num_attention_heads"],
        "n_inner": sizes["intermediate_size"],
        "n_layer": sizes["num_hidden_layers"],
        "n_positions": 8192,
        "prenorm": False,
        "qkv_proj_bias": False,
        "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY,
    }
    (tmp_path / "config.json").write_text(json.dumps(words), encoding="utf-8")
    encoder = read_origin(tmp_path, ids_only=True).encoder
    ids = random_ids(40, 3)
    with torch.inference_mode():
        torch.testing.assert_close(
            encoder(ids).tokens, model(ids).last_hidden_state, atol=2e-5, rtol=0
        )
    assert encoder.config.max_length == sizes["max_position_embeddings"]
    assert against_transformers(tmp_path, "nomic_bert", encoder, EXACT).errors


def test_a_folder_that_transformers_cannot_open_is_refused_in_one_line(tmp_path: Path) -> None:
    """For any exception of transformers."""
    model = make("modernbert")
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    del values["rope_parameters"]
    (tmp_path / "config.json").write_text(
        json.dumps(values | {"local_rope_theta": None}), encoding="utf-8"
    )
    encoder = read_origin(tmp_path, ids_only=True).encoder
    with pytest.raises(
        Refused, match=r"transformers .* cannot open .* \(TypeError: .*; correct the folder"
    ):
        against_transformers(tmp_path, "modernbert", encoder, EXACT)


def test_rounding_of_large_biases_is_not_reported_as_a_mismatch(
    tmp_path: Path,
) -> None:
    """Qwen2's keys have large biases.

    They give scores of thousands, of which float32 keeps three decimal places.
    """
    model = make("qwen2")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("q_proj.bias", "k_proj.bias")):
                parameter.normal_(std=40.0, generator=torch.Generator().manual_seed(1))
    model.save_pretrained(tmp_path)
    encoder = read_origin(tmp_path, pooling="last", ids_only=True).encoder
    own_error = Reference(encoder).own_error(1)
    assert own_error["attention"] > 1e-5
    assert against_transformers(tmp_path, "qwen2", encoder, own_error).errors
    with torch.no_grad():
        encoder.get_parameter("blocks.0.feed_forward.down.weight").mul_(1.01)
    with pytest.raises(ValueError, match="this folder is read wrongly"):
        against_transformers(tmp_path, "qwen2", encoder, own_error)
