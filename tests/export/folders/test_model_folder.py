import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from headlight_export.folders.model_folder import (
    Refused,
    check_readable,
    read_config,
    read_json,
    read_tensors,
)


def write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(json.dumps(value))


def sharded(folder: Path) -> None:
    save_file(
        {"a": torch.ones(2), "b": torch.zeros(3)}, folder / "model-00001-of-00002.safetensors"
    )
    save_file({"c": torch.full((4,), 2.0)}, folder / "model-00002-of-00002.safetensors")
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}
    write(
        folder,
        "model.safetensors.index.json",
        {"metadata": {}, "weight_map": names | {"c": "model-00002-of-00002.safetensors"}},
    )


def refused(folder: Path) -> str:
    with pytest.raises(Refused) as caught:
        read_tensors(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # the problem, and the remedy
    return message


def test_a_refusal_is_one_line() -> None:
    assert str(Refused("two\n  lines")) == "two lines"
    assert isinstance(Refused(""), ValueError)


def test_a_config_that_names_custom_code_is_read_without_running_it(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"model_type": "bert", "auto_map": {"AutoModel": "code.Model"}})
    assert read_config(tmp_path)["model_type"] == "bert"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no config.json"),
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("[" * 10**5, "is not JSON"),
    ],
)
def test_an_invalid_config_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(Refused, match=message):
        read_config(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not a folder"):
        read_config(tmp_path / "missing")


def test_files_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"model_type": "\xff"}')
    with pytest.raises(Refused, match="is not JSON"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_become_float32_and_integers_are_unchanged(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    values = torch.tensor([1.5, -2.0, 0.25], dtype=dtype)
    save_file(
        {"w": values, "n": torch.arange(3), "m": torch.tensor([True])},
        tmp_path / "model.safetensors",
    )
    tensors = read_tensors(tmp_path)
    assert tensors["w"].dtype == torch.float32
    assert tensors["w"].tolist() == [1.5, -2.0, 0.25]
    assert tensors["n"].dtype == torch.int64
    assert tensors["m"].dtype == torch.bool


def test_shards_are_merged(tmp_path: Path) -> None:
    sharded(tmp_path)
    tensors = read_tensors(tmp_path)
    assert {name: tensor.shape[0] for name, tensor in tensors.items()} == {"a": 2, "b": 3, "c": 4}


@settings(max_examples=20)
@given(places=st.dictionaries(st.text("abc.", min_size=1), st.integers(0, 3), min_size=1))
def test_any_sharding_gives_the_same_tensors(
    tmp_path_factory: pytest.TempPathFactory, places: dict[str, int]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    whole = {name: torch.full((2, 2), float(i)) for i, name in enumerate(places)}
    for shard in set(places.values()):
        save_file(
            {name: whole[name] for name in places if places[name] == shard},
            folder / f"{shard}.safetensors",
        )
    write(
        folder,
        "model.safetensors.index.json",
        {"weight_map": {name: f"{shard}.safetensors" for name, shard in places.items()}},
    )
    read = read_tensors(folder)
    assert set(read) == set(whole)
    assert all(torch.equal(read[name], whole[name]) for name in whole)


def test_files_may_be_links_as_in_the_hub_cache(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
    blobs.mkdir()
    snapshot.mkdir()
    sharded(blobs)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(Path("../blobs") / path.name)
    assert set(read_tensors(snapshot)) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "place",
    [
        "../a.safetensors",
        "/etc/a.safetensors",
        "x/a.safetensors",
        "..",
        "",
        "..\\a",
        "C:a",
        None,
        3,
        ["a"],
    ],
)
def test_an_index_that_points_outside_the_folder_is_refused(tmp_path: Path, place: object) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "a.safetensors")
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner, "model.safetensors.index.json", {"weight_map": {"a": place}})
    assert "only a file beside the index" in refused(inner)


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": []}, []])
def test_an_index_without_names_is_refused(tmp_path: Path, index: object) -> None:
    write(tmp_path, "model.safetensors.index.json", index)
    refused(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors is missing" in refused(tmp_path)


def test_a_tensor_missing_from_its_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    save_file({"other": torch.ones(1)}, tmp_path / "model-00002-of-00002.safetensors")
    assert "model-00002-of-00002.safetensors lacks c" in refused(tmp_path)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.pt", "model.pth"]
)
def test_pickles_are_refused_unopened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    message = refused(tmp_path)
    assert name in message
    assert "convert to safetensors: model.save_pretrained(..., safe_serialization=True)" in message


@pytest.mark.parametrize(
    "name", ["tf_model.h5", "flax_model.msgpack", "model.gguf", "other.safetensors", None]
)
def test_missing_weights_are_refused_and_the_files_found_are_named(
    tmp_path: Path, name: str | None
) -> None:
    if name:
        (tmp_path / name).touch()
    message = refused(tmp_path)
    assert "has no model.safetensors" in message
    assert name is None or name in message


def test_an_adapter_is_refused_even_beside_weights(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    write(tmp_path, "adapter_config.json", {})
    assert "merge it" in refused(tmp_path)


def test_a_pointer_of_git_lfs_is_recognised(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    assert "git lfs pull" in refused(tmp_path)


def cut_end(data: bytes) -> bytes:
    return data[:-4]


def cut_header(data: bytes) -> bytes:
    return data[:20]


def nothing(_: bytes) -> bytes:
    return b""


def huge_header(data: bytes) -> bytes:
    return b"\xff" * 8 + data[8:]


@pytest.mark.parametrize("spoil", [cut_end, cut_header, nothing, huge_header])
def test_a_damaged_file_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(100)}, path)
    path.write_bytes(spoil(path.read_bytes()))
    assert re.search(r"model\.safetensors is damaged or cut short", refused(tmp_path))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_tensor_that_is_not_finite_is_named(
    tmp_path: Path, bad: float, dtype: torch.dtype
) -> None:
    tensors: dict[str, Tensor] = {
        "fine": torch.ones(3),
        "layer.7.weight": torch.tensor([0.0, bad], dtype=dtype),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    assert "layer.7.weight holds NaN or infinity" in refused(tmp_path)


def test_a_number_beyond_the_float32_range_is_refused(tmp_path: Path) -> None:
    save_file({"wide": torch.tensor([1e300], dtype=torch.float64)}, tmp_path / "model.safetensors")
    assert "wide holds NaN or infinity" in refused(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match=r"tokenizer\.json cannot be read \(No such file"):
        check_readable(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(Refused, match=r"config\.json cannot be read \(Is a directory"):
        check_readable(tmp_path)
    with pytest.raises(Refused, match=r"missing\.json is missing; save the folder"):
        read_json(tmp_path / "missing.json")
