from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headlight_model.checkpoint import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    load_checkpoint,
    load_tensors,
    renamed,
    save_checkpoint,
)
from headlight_model.encoder import Encoder

Build = Callable[..., Encoder]


@pytest.fixture
def saved(tmp_path: Path, encoder: Build) -> tuple[Path, Encoder]:
    folder, original = (
        tmp_path / "deep" / "checkpoint",
        encoder(positions="sinusoidal", norm="post", dropout=0.1),
    )
    save_checkpoint(folder, original, '{"version": "1.0"}', {"mlm.bias": torch.tensor([1.0, 2.5])})
    return folder, original


def test_round_trip_rounds_weights_to_half_precision_and_nothing_else(
    saved: tuple[Path, Encoder],
) -> None:
    folder, original = saved
    loaded = load_checkpoint(folder)
    assert loaded.config == original.config
    assert not loaded.training
    assert loaded.state_dict().keys() == original.state_dict().keys()
    for name, value in loaded.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, original.state_dict()[name].half().float()), name


def test_the_file_contains_float16_and_no_computable_tables(
    saved: tuple[Path, Encoder],
) -> None:
    folder, original = saved
    tensors = load_file(folder / WEIGHTS)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert {name.removeprefix("encoder.") for name in tensors} == {
        *(name for name, _ in original.named_parameters()),
        "mlm.bias",
    }
    assert (folder / TOKENIZER).read_text(encoding="utf-8") == '{"version": "1.0"}'


def test_extra_tensors_are_found_by_their_prefix(saved: tuple[Path, Encoder]) -> None:
    tensors = load_tensors(saved[0], "mlm.")
    assert list(tensors) == ["bias"]
    assert tensors["bias"].tolist() == [1.0, 2.5]
    assert tensors["bias"].dtype == torch.float32


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_a_missing_file_is_named(name: str, saved: tuple[Path, Encoder]) -> None:
    (saved[0] / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        load_checkpoint(saved[0])


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"layers": 3}, r"blocks\.2\."),
        ({"layers": 1}, r"blocks\.1\."),
        ({"ffn_dim": 8}, "up.weight"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    changes: dict[str, int], key: str, saved: tuple[Path, Encoder]
) -> None:
    folder, original = saved
    config = dataclasses.replace(original.config, **changes)  # type: ignore[arg-type]  # ints
    (folder / CONFIG).write_text(config.to_json(), encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"model\.safetensors does not fit config\.json: encoder\..*{key}"
    ) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).replace(str(folder), "")) < 300


def test_missing_weight_prefixes_are_reported(saved: tuple[Path, Encoder]) -> None:
    save_file(
        {name: value.half() for name, value in saved[1].state_dict().items()}, saved[0] / WEIGHTS
    )
    with pytest.raises(
        ValueError,
        match=r"no name begins with 'encoder\.'; put this before the name of each weight",
    ):
        load_checkpoint(saved[0])


def test_all_mismatched_weights_are_counted_and_reported(saved: tuple[Path, Encoder]) -> None:
    tensors = load_file(saved[0] / WEIGHTS)
    for name in [name for name in tensors if ".attention_norm." in name]:
        tensors[name.replace("attention_norm", "norm1")] = tensors.pop(name)
    save_file(tensors, saved[0] / WEIGHTS)
    with pytest.raises(ValueError, match="does not fit") as caught:
        load_checkpoint(saved[0])
    assert str(caught.value).endswith(
        "encoder.blocks.0.attention_norm.weight is missing (and 3 more); "
        "encoder.blocks.0.norm1.bias is not a weight of this model (and 3 more)"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_named(value: float, saved: tuple[Path, Encoder]) -> None:
    tensors = load_file(saved[0] / WEIGHTS)
    tensors["encoder.embedding.weight"][3, 1] = value
    save_file(tensors, saved[0] / WEIGHTS)
    with pytest.raises(
        ValueError, match=r"model\.safetensors: encoder\.embedding\.weight holds NaN or infinity"
    ):
        load_checkpoint(saved[0])


def test_weights_that_float16_cannot_hold_are_refused_and_nothing_is_written(
    tmp_path: Path, encoder: Build
) -> None:
    diverged = encoder()
    with torch.no_grad():
        diverged.embedding.weight[0, 0] = 1e6
    with pytest.raises(ValueError, match=r"encoder\.embedding\.weight is not finite in float16"):
        save_checkpoint(tmp_path / "checkpoint", diverged, "{}")
    assert not (tmp_path / "checkpoint").exists()


def test_a_damaged_weight_file_is_named(saved: tuple[Path, Encoder]) -> None:
    (saved[0] / WEIGHTS).write_bytes(b"\xff" * 100)
    with pytest.raises(ValueError, match=r"model\.safetensors is not a safetensors file"):
        load_checkpoint(saved[0])


def test_renamed_rows_are_joined_in_the_order_of_the_names() -> None:
    theirs = {
        "layers.0.key.weight": torch.full((1, 2), 2.0),  # defined before the query
        "layers.0.query.weight": torch.full((1, 2), 1.0),
        "layers.0.scale": torch.tensor(3.0),
        "head.weight": torch.zeros(5),
    }
    names = {"layers": "blocks", "query": "project_in", "key": "project_in", "head": None}
    ours = renamed(theirs, names)
    assert list(ours) == ["blocks.0.project_in.weight", "blocks.0.scale"]
    assert ours["blocks.0.project_in.weight"].tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert float(ours["blocks.0.scale"]) == 3
