from __future__ import annotations

import dataclasses
import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file, save_file

from headlight import Attention, Client, Hidden
from headlight.archive import (
    TOKEN_FIELDS,
    add_arrays,
    read_npz,
    read_safetensors,
    write_npz,
    write_safetensors,
)
from headlight.cli import commands
from headlight.extras import remedy

TEXT = 'def 日本(): "quoted"'
WAYS = [(write_npz, read_npz), (write_safetensors, read_safetensors)]
Write = Callable[[Path, Attention | Hidden], None]
Read = Callable[[Path], Attention | Hidden]


def assert_same(read: Attention | Hidden, written: Attention | Hidden) -> None:
    assert type(read) is type(written)
    found, expected = (
        value.weights if isinstance(value, Attention) else value.states for value in (read, written)
    )
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert (read.layers, read.tokens, read.model) == (written.layers, written.tokens, written.model)
    assert all(type(entry) is int for entry in (*read.layers, *read.tokens.ids))
    assert all(type(entry) is bool for entry in read.tokens.special)


@pytest.mark.parametrize(("write", "read"), WAYS)
def test_an_archive_round_trips(client: Client, tmp_path: Path, write: Write, read: Read) -> None:
    path = tmp_path / "kept.as-named"
    # The second replaces the first.
    for value in (client.attend(TEXT, [2, 0]), client.hidden(TEXT)):
        write(path, value)
        assert_same(read(path), value)
    assert [file.name for file in tmp_path.iterdir()] == ["kept.as-named"]


def test_an_archive_contains_exactly_the_documented_arrays(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any NumPy version: in 1.26, every keyword is an array."""
    savez = np.savez_compressed

    def of_numpy_1(file: Any, **arrays: Any) -> None:
        savez(file, **{f"{name} of NumPy 1.26": array for name, array in arrays.items()})

    monkeypatch.setattr(np, "savez_compressed", of_numpy_1)
    write_npz(tmp_path / "a", client.attend(TEXT))
    with np.load(tmp_path / "a", allow_pickle=False) as archive:
        assert set(archive.files) == {"weights", "layers", "heads", "model", *TOKEN_FIELDS}


def test_values_that_need_pickle_are_refused(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "a", "w") as archive,
        pytest.raises(ValueError, match="allow_pickle"),
    ):
        add_arrays(archive, {"any": np.array([{}], object)})


@pytest.mark.parametrize(("write", "read"), WAYS)
def test_hidden_states_keep_their_type_and_tokens(
    client: Client, tmp_path: Path, write: Write, read: Read
) -> None:
    every = client.hidden(TEXT)
    turned = tuple(reversed(range(len(every.tokens))))  # all: the count does not reveal the order
    for places in ((2, 0), turned):
        some = dataclasses.replace(
            every, states=every.states[:, list(places)].astype(np.float16), places=places
        )
        write(tmp_path / "some", some)
        found = read(tmp_path / "some")
        assert_same(found, some)
        assert isinstance(found, Hidden)
        assert found.places == places


@pytest.mark.parametrize(("write", "read"), WAYS)
def test_a_view_is_written_as_a_contiguous_array(
    client: Client, tmp_path: Path, write: Write, read: Read
) -> None:
    attention = client.attend(TEXT)
    turned = dataclasses.replace(attention, weights=attention.weights[::-1].swapaxes(-1, -2))
    write(tmp_path / "turned", turned)
    assert_same(read(tmp_path / "turned"), turned)


def test_safetensors_can_be_read_without_headlight(client: Client, tmp_path: Path) -> None:
    attention, path = client.attend(TEXT, [1]), tmp_path / "a.safetensors"
    write_safetensors(path, attention)
    tensors = load_file(path)
    assert list(tensors) == ["weights"]
    np.testing.assert_array_equal(tensors["weights"], attention.weights)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata["layers"]) == [1]
    assert json.loads(metadata["tokens"])["pieces"] == list(attention.tokens.pieces)
    assert json.loads(metadata["model"])["bundle_sha256"] == attention.model.bundle_sha256


def test_archives_of_the_command_line_can_be_read(
    client: Client, target: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "attention.npz")
    arguments = ["attend", TEXT, "--target", target, "--format", "npz", "--out", path]
    assert commands.main(arguments) == 0
    assert_same(read_npz(path), client.attend(TEXT))
    assert commands.main([*arguments, "--head", "1"]) == 0
    with pytest.raises(ValueError, match="holds heads 1 alone"):
        read_npz(path)


def test_foreign_files_are_refused_by_name(client: Client, tmp_path: Path) -> None:
    path, good = tmp_path / "file", tmp_path / "good.npz"
    for content in (b"", b"\x80\x04N.", b"PK"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"file: not attention .* no NumPy archive"):
            read_npz(path)
        with pytest.raises(ValueError, match="file: not attention"):
            read_safetensors(path)
    save_file({"embedding": np.zeros(2, np.float32)}, path)
    with pytest.raises(ValueError, match="neither weights nor states"):
        read_safetensors(path)
    save_file({"weights": np.zeros((1, 1, 2, 2), np.float32)}, path)
    with pytest.raises(ValueError, match="no layers"):
        read_safetensors(path)
    write_npz(good, client.attend(TEXT, [0]))
    arrays: dict[str, Any] = dict(np.load(good))
    changes = [
        ({"ids": arrays["ids"][1:]}, "does not fit"),
        ({"weights": arrays["weights"][..., 1:]}, "does not fit"),
        ({"weights": arrays["weights"].astype(np.float64)}, "float64"),
        ({"layers": np.array([0, 1])}, "does not fit 2 layers"),
        ({"weights": arrays["weights"][None]}, "does not fit"),
        ({"model": np.array("{}")}, "no name"),
        ({"model": np.array("{")}, "model is not JSON"),
        ({"model": np.array("3")}, "no name"),
        ({"ids": np.array([None] * len(arrays["ids"]))}, "not attention .*pickle"),
        ({"ids": arrays["ids"] + 0.5}, "ids are not a list of int"),
        ({"layers": np.array(0)}, "layers are not a list of int"),
    ]
    for change, message in changes:
        np.savez(tmp_path / "bad.npz", **arrays | change)
        with pytest.raises(ValueError, match=message):
            read_npz(tmp_path / "bad.npz")


def test_any_damage_to_an_archive_is_refused(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    write_npz(path, client.attend(TEXT, [0]))
    whole = path.read_bytes()
    refused: list[str] = []
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_npz(path)  # some bytes, for example dates, are not checked
        except ValueError as error:
            refused.append(str(error))
        except OSError:
            pass
    assert len(refused) > len(whole) / 7 / 2
    assert all("not attention or hidden states" in message for message in refused)


def test_metadata_of_other_types_are_refused(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, client.attend(TEXT, [0]))
    tensors = load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    for change in ({"layers": "0"}, {"layers": '["0"]'}, {"tokens": "0"}, {"model": "null"}):
        save_file(tensors, path, metadata | change)
        with pytest.raises(ValueError, match="not attention or hidden states"):
            read_safetensors(path)


def test_without_safetensors_the_error_says_what_to_install(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    for action in (
        lambda: write_safetensors(tmp_path / "a", client.hidden(TEXT)),
        lambda: read_safetensors(tmp_path / "a"),
    ):
        with pytest.raises(ImportError, match=re.escape(remedy("safetensors"))):
            action()
    assert not (tmp_path / "a").exists()
