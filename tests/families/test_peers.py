"""The exporter's own comparison with transformers: differences, and models it cannot compare."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from headlight.outputs.registry import MEASURED
from headlight_export.command import main
from headlight_export.folders.origin import read_origin
from headlight_export.parity.transformers_comparison import against_transformers
from headlight_model.encoder import Encoder
from headlight_model.positions.rope import RopeScaling
from tests.families import models
from tests.families.described import Jina, New
from tests.families.models import ROTARY, VOCABULARY, make

transformers.logging.set_verbosity_error()

FAMILY = "modernbert"
EXACT = dict.fromkeys(MEASURED, 0.0)  # the rounding of float32: the remaining error is the floor
LONG = {"max_position_embeddings": 512, "num_hidden_layers": 4, "pad_token_id": 0}


def opened(name: str, folder: Path) -> Encoder:
    """Save a model of transformers and read it with Headlight."""
    make(name).save_pretrained(folder)
    return read_origin(folder, pooling="mean", ids_only=True).encoder


@pytest.mark.parametrize("seen", [64, 300])
def test_a_wrong_window_is_detected_though_short_texts_do_not_reach_it(
    seen: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = ROTARY | LONG | {"local_attention": seen}
    monkeypatch.setitem(models.MODELS, "modernbert-long", ("ModernBert", values))
    encoder = opened("modernbert-long", tmp_path)
    assert encoder.config.window == seen // 2
    assert against_transformers(tmp_path, FAMILY, encoder, EXACT).errors
    for window in (20, seen // 2 - 1, seen // 2 + 1):
        wrong = Encoder(dataclasses.replace(encoder.config, window=window)).eval()
        wrong.load_state_dict(encoder.state_dict())
        with pytest.raises(ValueError, match="this folder is read wrongly"):
            against_transformers(tmp_path, FAMILY, wrong, EXACT)


def test_second_token_types_are_compared(tmp_path: Path) -> None:
    encoder = opened("bert", tmp_path)
    with torch.no_grad():
        encoder.get_parameter("segment_embedding.weight")[1] *= -1
    with pytest.raises(ValueError, match="this folder is read wrongly"):
        against_transformers(tmp_path, "bert", encoder, EXACT)


@pytest.mark.parametrize("name", ["bert", "roberta", "qwen2"])
def test_padding_is_compared(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a causal model no token sees later ones,
    so visible padding has no effect.
    """
    encoder, family = opened(name, tmp_path), name.replace("roberta", "xlm-roberta")
    assert against_transformers(tmp_path, family, encoder, EXACT).errors
    visible = encoder.visible
    monkeypatch.setattr(
        encoder, "visible", lambda keep, window=0: visible(torch.ones_like(keep), window)
    )
    if encoder.config.causal:
        assert against_transformers(tmp_path, family, encoder, EXACT).errors
        return
    with pytest.raises(ValueError, match="this folder is read wrongly"):
        against_transformers(tmp_path, family, encoder, EXACT)


@pytest.mark.parametrize("name", ["llama", "mistral-local", "qwen2", "qwen3"])
def test_a_bidirectional_decoder_is_compared_bidirectionally(name: str, tmp_path: Path) -> None:
    opened(name, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    own = {"use_bidirectional_attention": True, "auto_map": {"AutoModel": "modeling_own.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(values | own), encoding="utf-8")
    encoder = read_origin(tmp_path, pooling="mean", ids_only=True).encoder
    found = against_transformers(tmp_path, name.removesuffix("-local"), encoder, EXACT)
    assert found.version == transformers.__version__
    assert 0 < max(found.errors.values()) < 1e-4


@pytest.mark.parametrize(
    "name", ["bert", "roberta", "distilbert", "roformer", "modernbert", "mistral-local"]
)
def test_a_question_answering_model_gives_vectors_without_its_head(
    name: str, tmp_path: Path
) -> None:
    kind, values = models.MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**values)
    getattr(transformers, f"{kind}ForQuestionAnswering")(config).save_pretrained(tmp_path)
    origin = read_origin(tmp_path, pooling="mean", ids_only=True)
    assert against_transformers(tmp_path, origin.family, origin.encoder, EXACT).errors


@pytest.mark.parametrize("inside", [None, 48])
@pytest.mark.parametrize("name", ["yarn", "llama3"])
def test_a_top_level_original_length_matches_transformers(
    name: str, inside: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, values = models.MODELS[name]
    own = {
        key: said
        for key, said in values["rope_parameters"].items()
        if key != "original_max_position_embeddings"
    }
    own |= {} if inside is None else {"original_max_position_embeddings": inside}
    changed = values | {"rope_parameters": dict(own), "original_max_position_embeddings": 24}
    monkeypatch.setitem(models.MODELS, name, (kind, changed))
    make(name).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert written["original_max_position_embeddings"] == 24
    (tmp_path / "config.json").write_text(
        json.dumps(written | {"rope_parameters": own}), encoding="utf-8"
    )
    origin = read_origin(tmp_path, pooling="mean", ids_only=True)
    assert origin.encoder.config.rope_scaling is not None
    assert origin.encoder.config.rope_scaling.trained_length == 24
    assert against_transformers(tmp_path, origin.family, origin.encoder, EXACT).errors


@pytest.mark.parametrize("seen", [18, 19])
def test_gemma3_with_former_keys_is_compared(seen: int, tmp_path: Path) -> None:
    """With an odd window, too, which transformers 4 saves and halves again when it opens it."""
    opened("gemma3", tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values.pop("rope_parameters")
    assert values.pop("layer_types")
    scaling = {"rope_type": "linear", "factor": 4.0}
    old = {"rope_theta": 5e5, "rope_local_base_freq": 700.0, "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(
        json.dumps(values | old | {"sliding_window": seen, "sliding_window_pattern": 2})
    )
    origin = read_origin(tmp_path, ids_only=True)
    assert ("9 tokens each way" in origin.about) == (seen == 19)
    assert against_transformers(tmp_path, origin.family, origin.encoder, EXACT).errors
    for wrongly in (
        {"window": 8},
        {"window": 10},
        {"local_layers": (0, 1)},
        {"rope_local_theta": 5e5},
        {"rope_scaling": None},
        {"scale_embeddings": False},
        {"activation": "gelu"},
    ):
        wrong = Encoder(dataclasses.replace(origin.encoder.config, **wrongly)).eval()
        wrong.load_state_dict(origin.encoder.state_dict())
        with pytest.raises(ValueError, match="this folder is read wrongly"):
            against_transformers(tmp_path, origin.family, wrong, EXACT)


def published(tensors: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """Return tensors of NomicBERT under the names of its own code."""
    names = {
        "embeddings.LayerNorm": "emb_ln",
        "self_attn.o_proj": "attn.out_proj",
        "post_attention_layernorm": "norm1",
        "post_mlp_layernorm": "norm2",
        "mlp.up_proj": "mlp.fc11",
        "mlp.gate_proj": "mlp.fc12",
        "mlp.down_proj": "mlp.fc2",
    }
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        own, tensor = f"encoder.{name}" if name.startswith("layers.") else name, value
        for theirs, word in names.items():
            own = own.replace(theirs, word)
        if "q_proj" in own:
            parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            own, tensor = own.replace("self_attn.q_proj", "attn.Wqkv"), torch.cat(parts)
        if "k_proj" not in own and "v_proj" not in own:
            found[f"{prefix}{own}"] = tensor.contiguous()
    return found


def publish_nomic(folder: Path, prefix: str = "") -> None:
    """Write a folder as its makers publish it."""
    model = make("nomic_bert")
    save_file(published(model.state_dict(), prefix), folder / "model.safetensors")
    words = {
        "model_type": "nomic_bert",
        "activation_function": "swiglu",
        "layer_norm_epsilon": 1e-12,
        "max_trained_positions": 96,
        "n_embd": ROTARY["hidden_size"],
        "n_head": ROTARY["num_attention_heads"],
        "n_inner": ROTARY["intermediate_size"],
        "n_layer": ROTARY["num_hidden_layers"],
        "rotary_emb_base": 1000,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY,
    }
    (folder / "config.json").write_text(json.dumps(words), encoding="utf-8")


def test_nomic_folders_as_published_are_compared(tmp_path: Path) -> None:
    publish_nomic(tmp_path)
    encoder = read_origin(tmp_path, ids_only=True).encoder
    found = against_transformers(tmp_path, "nomic_bert", encoder, EXACT)
    assert found.version == transformers.__version__
    assert 0 < max(found.errors.values()) < 1e-4
    for wrongly in (
        dataclasses.replace(encoder.config, rope_theta=10_000.0),
        dataclasses.replace(encoder.config, activation="gelu"),
    ):
        wrong = Encoder(wrongly).eval()
        wrong.load_state_dict(encoder.state_dict())
        with pytest.raises(ValueError, match="this folder is read wrongly"):
            against_transformers(tmp_path, "nomic_bert", wrong, EXACT)


def test_gte_of_its_own_code_is_compared_with_that_of_transformers(tmp_path: Path) -> None:
    New().save(tmp_path)
    encoder = read_origin(tmp_path, pooling="cls", ids_only=True).encoder
    assert against_transformers(tmp_path, "new", encoder, EXACT).errors
    for wrongly in (None, RopeScaling(kind="ntk", factor=New.factor)):
        wrong = Encoder(dataclasses.replace(encoder.config, rope_scaling=wrongly)).eval()
        wrong.load_state_dict(encoder.state_dict())
        with pytest.raises(ValueError, match="this folder is read wrongly"):
            against_transformers(tmp_path, "new", wrong, EXACT)


def nomic_of_other_names(folder: Path) -> None:
    publish_nomic(folder, "bert.")


def jina(folder: Path) -> None:
    Jina().save(folder)


@pytest.mark.parametrize(
    ("save", "why"),
    [
        (jina, "it has no code for jina_bert, which came with a code of its own"),
        (nomic_of_other_names, "it does not find "),
    ],
)
def test_models_that_cannot_be_compared_are_reported(
    save: Callable[[Path], None],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save(folder)
    arguments = [
        str(folder),
        "--out",
        str(tmp_path / "out"),
        "--pooling",
        "mean",
        "--ids-only",
    ]
    assert main(arguments) == 0
    assert f"not compared with transformers: {why}" in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "parity.json").read_text(encoding="utf-8"))
    assert report["pytorch_fp32_against_transformers"]["not_compared"].startswith(why)
