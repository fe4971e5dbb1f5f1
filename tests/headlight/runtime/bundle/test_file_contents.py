"""Files of a bundle are read once, and used from memory."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import os
import shutil
import stat
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import set_external_data

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight.runtime.bundle import file_contents
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import Weights, check_file, read_file, read_weights
from headlight.runtime.bundle.manifest import FileEntry
from headlight.runtime.bundle.onnx_file import ExternalData, external_data, with_inputs
from headlight.runtime.providers import provider_choice
from headlight.runtime.providers.provider_choice import open_session
from headlight.spec import AttentionSpec
from tests.tampering import relist, set_value

PROVIDERS = ("cpu", "openvino")
FLOAT = onnx.TensorProto.FLOAT
TEXTS = ["join two paths", "read lines of a file and close it"]
watched: list[tuple[Path, list[str]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and watched and isinstance(arguments[0], str):
        folder, seen = watched[-1]
        if Path(arguments[0]).parent == folder:
            seen.append(Path(arguments[0]).name)


sys.addaudithook(_audit)  # permanent: it cannot be removed


@contextmanager
def opened_in(folder: Path) -> Iterator[list[str]]:
    """Record the names of files of a folder that Python opens."""
    seen: list[str] = []
    watched.append((folder, seen))
    yield seen
    watched.pop()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    if request.param == "openvino":
        pytest.importorskip("openvino")
    return str(request.param)


def tensor(offset: int, count: int) -> ExternalData:
    return ExternalData("w", offset, 4 * count, "t", FLOAT, (count,), initializer=True)


def entry(data: bytes) -> FileEntry:
    return FileEntry(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def test_each_file_is_opened_once(copy: Path) -> None:
    with opened_in(copy) as seen:
        Runtime(copy, threads=1).check_golden()
    assert sorted(seen) == sorted(path.name for path in copy.iterdir())


def test_files_changed_after_hashing_are_not_used(
    provider: str, copy: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_session

    def change_before(*arguments: Any) -> Any:
        for path in copy.iterdir():
            path.write_bytes(b"\0" * path.stat().st_size)
        return opened(*arguments)

    monkeypatch.setattr(provider_choice, "open_session", change_before)
    ours = Runtime(copy, provider=provider, threads=1)
    ours.check_golden()
    for got, expected in zip(ours.encode_items(TEXTS), runtime.encode_items(TEXTS), strict=True):
        np.testing.assert_allclose(got.pooled, expected.pooled, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("wide", [False, True])
def test_an_opened_bundle_needs_no_files(
    provider: str, wide: bool, copy: Path, runtime: Runtime
) -> None:
    ours = Runtime(copy, provider=provider, threads=1, streams=2, wide=wide)
    shutil.rmtree(copy)
    ours.check_golden()
    ours.probe()
    ours.warm_up([8, 64])
    spec = AttentionSpec()
    for a, b in zip(
        ours.encode_items(TEXTS, attention=spec),
        runtime.encode_items(TEXTS, attention=spec),
        strict=True,
    ):
        np.testing.assert_allclose(a.pooled, b.pooled, atol=1e-5)  # type: ignore[arg-type]
        np.testing.assert_allclose(a.attention, b.attention, atol=1e-5)  # type: ignore[arg-type]


def test_a_copied_tensor_is_made_once_and_does_not_keep_the_file() -> None:
    weights = Weights(6000)
    weights.array(tensor(0, 1500))[:] = np.arange(1500)
    table = weights.copied(tensor(400, 300))
    other = dataclasses.replace(tensor(400, 300), name="of another graph")
    assert weights.copied(other) is table
    mapped = weakref.ref(weights.memory)
    del weights
    assert mapped() is None
    np.testing.assert_array_equal(table, np.arange(100, 400))


@pytest.mark.parametrize("wide", [False, True])
def test_weights_stay_mapped_while_a_session_may_read_them(
    provider: str, wide: bool, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO reads all in place. ONNX Runtime copies all but tables, which have their own."""
    files = list[weakref.ref[Any]]()

    class Watched(Weights):
        def __init__(self, size: int) -> None:
            super().__init__(size)
            files.append(weakref.ref(self.memory))

    monkeypatch.setattr(file_contents, "Weights", Watched)
    runtime = Runtime(copy, provider=provider, threads=1, streams=2, wide=wide)
    [file] = files
    assert (file() is None) == (provider == "cpu")
    expected = runtime.encode(TEXTS)
    runtime.bundle.release()
    gc.collect()
    np.testing.assert_array_equal(runtime.encode(TEXTS), expected)
    del runtime
    gc.collect()
    assert file() is None


def test_tables_outlive_the_sessions_that_borrow_them(copy: Path) -> None:
    runtime, ended = Runtime(copy, threads=1, streams=2, wide=True, attend=False), list[str]()
    session: Any = runtime.engine._sessions["embed"]
    assert session._tables
    assert session._wide is not session._session
    for each, name in (
        (session._session, "session"),
        (session._wide, "session"),
        *((table, "table") for table in session._tables.values()),
    ):
        weakref.finalize(each, ended.append, name)
    count = len(session._tables)
    del each, session
    runtime.close()
    gc.collect()
    assert ended == ["session"] * 2 + ["table"] * count


def test_a_file_truncated_while_being_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").write_bytes(b"x" * 10)
    longer = SimpleNamespace(st_mode=stat.S_IFREG, st_size=11)
    monkeypatch.setattr(os, "fstat", lambda _: longer)
    for read in (read_file, read_weights, check_file):
        with pytest.raises(BundleError, match=r"^w: was cut short while it was read"):
            read(tmp_path / "w", "w", entry(b"x" * 11))


def test_a_file_larger_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise MemoryError

    (tmp_path / "w").write_bytes(b"x" * 10)
    monkeypatch.setattr(file_contents, "Weights", full)
    with pytest.raises(
        BundleError,
        match=r"^w: has 10 bytes, more than the free memory; allow the process more",
    ):
        read_weights(tmp_path / "w", "w", entry(b"x" * 10))


def test_weights_that_match_no_initialiser_are_refused(copy: Path) -> None:
    model = onnx.load(copy / "embed.onnx", load_external_data=False)
    constant = onnx.helper.make_tensor("t", FLOAT, [2], b"\0" * 8, raw=True)
    set_external_data(constant, "weights.bin", offset=0, length=8)
    constant.ClearField("raw_data")
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["c"], value=constant))
    (copy / "embed.onnx").write_bytes(model.SerializeToString())
    relist(copy, "embed.onnx")
    with pytest.raises(
        BundleError, match=r"^embed\.onnx: refers to 8 bytes of weights\.bin that are not an init"
    ):
        Bundle(copy)


@pytest.mark.parametrize(
    ("kind", "shape"), [(FLOAT, [3]), (FLOAT, [-1, -2]), (onnx.TensorProto.STRING, [2])]
)
def test_weights_whose_size_does_not_match_their_shape_are_refused(
    copy: Path, kind: int, shape: list[int]
) -> None:
    model = onnx.load(copy / "embed.onnx", load_external_data=False)
    other = onnx.TensorProto(name="t", data_type=kind, dims=shape, raw_data=b"\0" * 8)
    set_external_data(other, "weights.bin", offset=0, length=8)
    other.ClearField("raw_data")
    model.graph.initializer.append(other)
    (copy / "embed.onnx").write_bytes(model.SerializeToString())
    relist(copy, "embed.onnx")
    with pytest.raises(
        BundleError, match=r"^embed\.onnx: refers to 8 bytes of weights\.bin that are not an init"
    ):
        Bundle(copy)


def test_a_weights_file_with_other_content_is_refused(copy: Path) -> None:
    set_value(copy, "golden", "weights.bin")
    with pytest.raises(
        BundleError, match=r"^weights\.bin: is listed as weights and for another use"
    ):
        Runtime(copy, threads=1)


def test_initialisers_become_inputs_and_nothing_else_changes(bundle_path: Path) -> None:
    data = (bundle_path / "attend.onnx").read_bytes()
    before = onnx.load_from_string(data)
    names = {reference.name for reference in external_data(data, "attend.onnx")}
    after = onnx.load_from_string(with_inputs(data, names))
    added = after.graph.input[len(before.graph.input) :]
    initial = {tensor.name: tensor for tensor in before.graph.initializer}
    assert {value.name for value in added} == names
    for value in added:
        kind = value.type.tensor_type
        assert kind.elem_type == initial[value.name].data_type
        assert [size.dim_value for size in kind.shape.dim] == list(initial[value.name].dims)
    assert [tensor.name for tensor in after.graph.initializer] == [
        name for name in initial if name not in names
    ]
    assert list(after.graph.node) == list(before.graph.node)
    assert list(after.graph.output) == list(before.graph.output)
    assert list(after.opset_import) == list(before.opset_import)


def test_embedding_tables_are_distinguished_from_other_weights(bundle_path: Path) -> None:
    graph = onnx.load(bundle_path / "embed.onnx", load_external_data=False).graph
    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    found = external_data((bundle_path / "embed.onnx").read_bytes(), "embed.onnx")
    assert {reference.name for reference in found if reference.table} == tables & {
        one.name for one in found
    }
    assert any(reference.table for reference in found)
    assert not all(reference.table for reference in found)
