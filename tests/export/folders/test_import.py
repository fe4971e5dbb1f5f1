"""Import of Hugging Face folders with the command.

One can be served; many cannot, and each is refused in one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headlight.runtime import Runtime
from headlight.spec import PooledSpec
from headlight_export.command import main
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from tests.bert_folder import CONFIG, DIM, ROWS, write_bert
from tests.factory import VOCABULARY, small_config, write_checkpoint
from tests.folders import chain


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bert(tmp_path / "bert")


def configure(**changes: Any) -> Callable[[Path], None]:
    """Change config.json; None removes a key."""

    def change(folder: Path) -> None:
        values = {name: value for name, value in (CONFIG | changes).items() if value is not None}
        (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")

    return change


def retouch(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    """Change the tensors."""

    def apply(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        change(found)
        save_file(found, folder / "model.safetensors")

    return apply


QUERY = "bert.encoder.layer.0.attention.self.query.weight"
# Files that cannot be read: test_model_folder.py; values of config.json: test_any_config.py;
# modules: test_sentence_folder.py.
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no such family": (
        configure(model_type="xlnet"),
        "model_type 'xlnet' is not a supported family: its positions are relative, as in ",
    ),
    "a size is missing": (configure(hidden_size=None), "config.json has no hidden_size"),
    "heads do not divide": (
        configure(num_attention_heads=5),
        "dim 24 is not a multiple of heads 5",
    ),
    "relative positions": (
        configure(position_embedding_type="relative_key"),
        "position_embedding_type is 'relative_key'",
    ),
    "a decoder": (configure(is_decoder=True), "is_decoder is True, which makes it causal"),
    "activation": (configure(hidden_act="mish"), "activation 'mish' cannot be served; served are "),
    "wrong shape": (
        configure(intermediate_size=41),
        "intermediate.dense.weight has the shape [40, 24]; config.json makes it [41, 24]",
    ),
    "fewer layers than promised": (
        configure(num_hidden_layers=2),
        "the weights have no encoder.layer.1.",
    ),
    "more layers than promised": (
        retouch(
            lambda found: found.update({"bert.encoder.layer.1.output.dense.bias": torch.zeros(DIM)})
        ),
        "bert.encoder.layer.1.output.dense.bias",
    ),
    "a tensor is missing": (retouch(lambda found: found.pop(QUERY)), "attention.self.query.weight"),
    "no tokenizer": (
        lambda folder: (folder / "vocab.txt").unlink(),
        "has no tokenizer; save it there with",
    ),
    "a tokenizer of more ids than the model": (
        lambda folder: (folder / "vocab.txt").write_text(
            "\n".join([*VOCABULARY, "more"]) + "\n", encoding="utf-8"
        ),
        f"has ids up to {len(VOCABULARY)}; the model knows {len(VOCABULARY)}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_that_cannot_be_served_is_refused_in_one_line(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = REFUSED[case]
    change(folder)
    assert main([str(folder), "--out", str(folder.parent / "out" / "bundle")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("export: ")
    assert message in line
    assert not list(folder.parent.glob("out/*"))


def test_a_generating_decoder_is_refused(folder: Path) -> None:
    """An embedding decoder declares its pooling, or the option does."""
    values = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8,
        "num_attention_heads": 2,
    }
    values |= {
        "num_hidden_layers": 1,
        "intermediate_size": 12,
        "vocab_size": len(VOCABULARY),
        "max_position_embeddings": 32,
    }
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    shapes: dict[str, tuple[int, ...]] = {
        f"layers.0.self_attn.{part}_proj.weight": (8, 8) for part in "qkvo"
    }
    shapes |= {
        "layers.0.mlp.gate_proj.weight": (12, 8),
        "layers.0.mlp.up_proj.weight": (12, 8),
        "layers.0.mlp.down_proj.weight": (8, 12),
    }
    shapes |= {"embed_tokens.weight": (len(VOCABULARY), 8), "norm.weight": (8,)}
    shapes |= {f"layers.0.{name}_layernorm.weight": (8,) for name in ("input", "post_attention")}
    save_file(
        {f"model.{name}": torch.randn(shape) for name, shape in shapes.items()},
        folder / "model.safetensors",
    )
    with pytest.raises(
        Refused,
        match=r"LlamaForCausalLM is a decoder with a generation head and .* not name a pooling",
    ):
        read_origin(folder)
    config = read_origin(folder, pooling="last").encoder.config
    assert (config.pooling, config.causal) == ("last", True)


def test_a_folder_that_can_be_served_is_exported_and_matches_the_original(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command to vectors of text, including int8 and pairs."""
    texts = folder.parent / "texts"
    texts.write_text("\n".join(f"text {i} of many" for i in range(120)), encoding="utf-8")
    out = folder.parent / "bundle"
    arguments = [
        str(folder),
        "--out",
        str(out),
        "--max-length",
        "30",
        "--calibration",
        str(texts),
    ]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "parity, alone 30" in said
    assert "not compared with transformers: it is not installed" in said
    assert (
        "pooling: mean (the folder says nothing of it; --pooling chooses); weights left out, "
        in said
    )
    runtime = Runtime(out, threads=1)
    runtime.check_golden()
    manifest = runtime.bundle.manifest
    assert (manifest.max_length, manifest.pooling, manifest.source["family"]) == (
        30,
        "mean",
        "bert",
    )
    origin = read_origin(folder)
    [one, pair] = runtime.encode_items(["text 5 of many", ("one", "two")])
    assert one.pooled is not None
    assert pair.pooled is not None
    assert runtime.tokenizer is not None
    ids = torch.from_numpy(runtime.tokenizer.encode("text 5 of many").ids)[None]
    with torch.inference_mode():
        np.testing.assert_allclose(one.pooled, origin.encoder(ids).pooled[0], atol=1e-5)
    spec = PooledSpec(dtypes=("int8",))
    assert runtime.select(pooled=spec)["pooled"].ranges is not None
    assert list(out.parent.glob(".bundle-*")) == []


def test_texts_that_cannot_be_encoded_are_reported_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prompt leaves no room for them, which shows only after the graphs are exported."""
    chain(folder, "Transformer", "Pooling")
    configure()(folder)
    prompts = {"prompts": {"long": "a " * ROWS}, "default_prompt_name": "long"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
    texts = folder.parent / "texts"
    texts.write_text("text\n" * 120, encoding="utf-8")
    out = folder.parent / "out" / "bundle"
    assert main([str(folder), "--out", str(out), "--calibration", str(texts)]) == 2
    assert (
        "inputs[0].text: its prompt and special tokens are 42 tokens, the model takes 40"
        in capsys.readouterr().err
    )
    assert not list(out.parent.glob("*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pooling": "cls token"},
            "--pooling cls token is not known; choose one of mean, cls, max, last",
        ),
        (
            {"max_length": ROWS + 1},
            "--max-length 41 is more than the model has positions for; it has 40",
        ),
        ({"max_length": 0}, "--max-length 0 leaves no token; give 1 or more, or leave it out"),
        ({"max_length": -1}, "--max-length -1 leaves no token; give 1 or more, or leave it out"),
    ],
)
def test_options_that_do_not_fit_the_folder_are_refused(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        read_origin(folder, **options)


@pytest.mark.parametrize(
    ("modules", "options", "said"),
    [
        ((), {}, "pooling: mean (the folder says nothing of it; --pooling chooses)"),
        ((), {"pooling": "cls"}, "pooling: cls (--pooling)"),
        (("Transformer", "Pooling"), {}, "pooling: mean (modules.json)"),
    ],
)
def test_pooling_and_unused_weights_are_reported_in_one_line(
    folder: Path, modules: tuple[str, ...], options: dict[str, Any], said: str
) -> None:
    if modules:
        pooling = chain(folder, *modules) / "1_Pooling" / "config.json"
        pooling.write_text(
            pooling.read_text().replace(
                '"word_embedding_dimension": 4', f'"word_embedding_dimension": {DIM}'
            )
        )
    configure(pooling="cls")(folder)  # which BERT does not read
    retouch(
        lambda found: found.update(
            {"classifier.weight": torch.ones(2, DIM), "classifier.bias": torch.ones(2)}
        )
    )(folder)
    left = "bert.pooler.dense, classifier, cls.predictions.transform.dense"
    expected = f"length: {ROWS} tokens; {said}; weights left out, which vectors do not need: {left}"
    assert read_origin(folder, **options).about == expected


def test_a_checkpoint_of_ours_reports_its_pooling(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "ours", small_config())
    assert read_origin(checkpoint).about == "pooling: mean (config.json); no weight is left out"
    retouch(lambda found: found.update({"mlm.bias": torch.ones(2)}))(checkpoint)
    assert read_origin(checkpoint).about.endswith(
        "; weights left out, which vectors do not need: mlm"
    )


def test_options_for_foreign_folders_are_refused_for_headlight_checkpoints(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "ours", small_config())
    assert read_origin(checkpoint).family == "headlight"
    for options in ({"pooling": "cls"}, {"max_length": 9}, {"ids_only": True}):
        with pytest.raises(Refused, match=r"and its config\.json sets them"):
            read_origin(checkpoint, **options)
