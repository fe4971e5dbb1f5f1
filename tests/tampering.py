"""Ways to tamper with a bundle, each with the file that the refusal must name.

Some update the manifest, too, as an attacker would.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx


class Tampering(NamedTuple):
    """Way to tamper."""

    name: str
    file: str  # named by the refusal
    apply: Callable[[Path], None]


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest's values."""
    path = bundle / "manifest.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def relist(bundle: Path, name: str) -> None:
    """Update the manifest for a changed file."""
    data = (bundle / name).read_bytes()
    entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    rewrite(bundle, lambda manifest: manifest["files"].update({name: entry}))


def scale_weights(bundle: Path, factor: float) -> None:
    """Scale all weights, with the right digests: only the numbers differ from PyTorch's."""
    weights = np.fromfile(bundle / "weights.bin", dtype=np.float32)
    (weights * np.float32(factor)).tofile(bundle / "weights.bin")
    relist(bundle, "weights.bin")


def list_as(bundle: Path, name: str) -> None:
    """List one more file, with the digest and size of the weights."""
    rewrite(
        bundle, lambda manifest: manifest["files"].update({name: manifest["files"]["weights.bin"]})
    )


def set_value(bundle: Path, path: str, value: object) -> None:
    """Change one value of the manifest, "architecture.dim" or "graphs.0.outputs"."""

    def change(manifest: dict[str, Any]) -> None:
        at: Any = manifest
        *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        for part in parents:
            at = at[part]
        at[last] = value

    rewrite(bundle, change)


def add(bundle: Path, name: str, amount: int) -> None:
    """Change a number of the manifest's architecture."""
    rewrite(
        bundle,
        lambda manifest: manifest["architecture"].update(
            {name: manifest["architecture"][name] + amount}
        ),
    )


def change_golden(bundle: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change one array of the golden answers."""
    with np.load(bundle / "golden.npz") as golden:
        arrays = dict(golden)
    arrays[name] = change(arrays[name])
    np.savez(bundle / "golden.npz", **arrays)
    relist(bundle, "golden.npz")


def flip(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(data)


def remove(bundle: Path, name: str) -> None:
    (bundle / name).unlink()


def swap(bundle: Path) -> None:
    (bundle / "embed.onnx").rename(bundle / "x")
    (bundle / "attend.onnx").rename(bundle / "embed.onnx")
    (bundle / "x").rename(bundle / "attend.onnx")


def point(bundle: Path, key: str, value: str) -> None:
    """Change the offset of the graph's first external tensor."""
    path = bundle / "embed.onnx"
    model = onnx.load(str(path), load_external_data=False)
    outside = next(
        t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL
    )
    next(entry for entry in outside.external_data if entry.key == key).value = value
    path.write_bytes(model.SerializeToString())
    relist(bundle, "embed.onnx")


def link_out(bundle: Path) -> None:
    (bundle / "golden.npz").rename(bundle.parent / "golden.npz")
    (bundle / "golden.npz").symlink_to("../golden.npz")


def link_to_itself(bundle: Path) -> None:
    (bundle / "golden.npz").unlink()
    (bundle / "golden.npz").symlink_to("golden.npz")


def replace(bundle: Path, name: str, data: bytes) -> None:
    (bundle / name).write_bytes(data)


def replace_and_relist(bundle: Path, name: str, data: bytes) -> None:
    replace(bundle, name, data)
    relist(bundle, name)


LISTED = ("embed.onnx", "attend.onnx", "weights.bin", "tokenizer.json", "golden.npz", "parity.json")
MANIFEST = "manifest.json"
# Values that embedding options cannot have.
NO_OPTIONS: list[tuple[str, object]] = [
    ("architecture.pooled_dim", 0),
    ("architecture.pooled_dim", "36"),
    ("prompts", ["query: "]),
    ("prompts", {"query": 1}),
    ("prompts", {"query": "x" * 5000}),
    ("prompts", {"query": "\ud800"}),
    ("prompts", {"que\nry": "query: "}),
    ("prompts", {"": "query: "}),
    ("prompts", {str(number): "" for number in range(2000)}),
    ("prompts", {str(number): "x" * 4000 for number in range(100)}),
    ("default_prompt", "query"),
    ("default_prompt", 1),
    ("include_prompt", 1),
    ("include_prompt", None),
    ("dimensions", 8),
    ("dimensions", [1 << 30]),
    ("dimensions", [0]),
    ("dimensions", [True]),
    ("dimensions", [8, 8]),
    ("pooling", "median"),
    ("similarity", "cos"),
    ("dense_layers", -1),
    ("dense_layers", "1"),
    ("ranges", 1),
    ("ranges", "a\nb"),
    ("tokenizer_limit", 65536),
    ("tokenizer_limit.max_characters", 0),
    ("tokenizer_limit.max_characters", 1 << 40),
    ("tokenizer_limit.max_characters", None),
    ("tokenizer_limit.worst", "a\nb"),
]
TAMPERINGS = [
    *(Tampering(f"a changed bit in {name}", name, partial(flip, name=name)) for name in LISTED),
    *(Tampering(f"{name} missing", name, partial(remove, name=name)) for name in LISTED),
    Tampering("swapped graphs", ".onnx", swap),
    Tampering("bytes appended", "weights.bin", lambda b: replace(b, "weights.bin", b"x" * 10)),
    Tampering("name with ..", "../weights.bin", lambda b: list_as(b, "../weights.bin")),
    Tampering("name with .. inside", "a/../../out", lambda b: list_as(b, "a/../../out")),
    Tampering("name with a backslash", "out", lambda b: list_as(b, "..\\out")),
    Tampering("absolute name", "/etc/hostname", lambda b: list_as(b, "/etc/hostname")),
    Tampering("name with a zero byte", "weights", lambda b: list_as(b, "weights\0.bin")),
    Tampering("name too long", "xxxx", lambda b: list_as(b, "x" * 5000)),
    Tampering("symbolic link out", "golden.npz", link_out),
    Tampering("symbolic link to itself", "golden.npz", link_to_itself),
    Tampering("hard link", "weights.bin", lambda b: os.link(b / "weights.bin", b.parent / "other")),
    Tampering("graph refers out", "embed.onnx", lambda b: point(b, "location", "../../etc/passwd")),
    Tampering(
        "graph refers to a listed file not its own",
        "embed.onnx",
        lambda b: point(b, "location", "golden.npz"),
    ),
    Tampering("offset beyond the file", "embed.onnx", lambda b: point(b, "offset", str(2**40))),
    Tampering("length beyond the file", "embed.onnx", lambda b: point(b, "length", str(2**40))),
    Tampering("petabyte length", "embed.onnx", lambda b: point(b, "length", str(2**50))),
    Tampering("negative offset", "embed.onnx", lambda b: point(b, "offset", "-4096")),
    Tampering("offset that only Python reads", "embed.onnx", lambda b: point(b, "offset", "4_096")),
    Tampering(
        "offset of a million digits", "embed.onnx", lambda b: point(b, "offset", "9" * 10**6)
    ),
    Tampering(
        "graph that is none",
        "embed.onnx",
        lambda b: replace_and_relist(b, "embed.onnx", b"\xff" * 64),
    ),
    Tampering(
        "format of the future",
        MANIFEST,
        lambda b: rewrite(b, lambda m: m.update(format_version=99)),
    ),
    Tampering(
        "graph without a listed file",
        "none.onnx",
        lambda b: rewrite(b, lambda m: m["graphs"][0].update(file="none.onnx")),
    ),
    Tampering(
        "tolerance beyond any float",
        MANIFEST,
        lambda b: set_value(b, "tolerances.0.pooled", 10**400),
    ),
    Tampering("length of 30 digits", MANIFEST, lambda b: set_value(b, "max_length", 10**30)),
    Tampering("length of terabytes", MANIFEST, lambda b: set_value(b, "max_length", 10**9)),
    Tampering(
        "vocabulary of 30 digits",
        MANIFEST,
        lambda b: set_value(b, "architecture.vocab_size", 10**30),
    ),
    Tampering(
        "a size of 30 digits",
        MANIFEST,
        lambda b: rewrite(b, lambda m: m["files"]["weights.bin"].update(bytes=10**30)),
    ),
    Tampering("a name that is no text", MANIFEST, lambda b: set_value(b, "name", "a\ud800")),
    Tampering("a name of two lines", MANIFEST, lambda b: set_value(b, "name", "a\nb")),
    Tampering("no name", MANIFEST, lambda b: set_value(b, "name", "")),
    Tampering("a version of a megabyte", MANIFEST, lambda b: set_value(b, "version", "1" * 2**20)),
    Tampering(
        "a provider of two lines",
        MANIFEST,
        lambda b: set_value(b, "graphs.0.providers", ["cpu", "a\nb"]),
    ),
    Tampering("a listed name of two lines", "a\\nb", lambda b: list_as(b, "a\nb")),
    Tampering("a listed name that is no text", "a\\ud800", lambda b: list_as(b, "a\ud800")),
    Tampering("a used name of two lines", MANIFEST, lambda b: set_value(b, "golden", "a\nb")),
    *(
        Tampering(f"{path} of {value!r:.30}", MANIFEST, partial(set_value, path=path, value=value))
        for path, value in NO_OPTIONS
    ),
    Tampering("ranges there are not", "ranges.npz", lambda b: set_value(b, "ranges", "ranges.npz")),
    Tampering(
        "manifest cut short",
        MANIFEST,
        lambda b: replace(b, MANIFEST, (b / MANIFEST).read_bytes()[:100]),
    ),
    Tampering("manifest of brackets", MANIFEST, lambda b: replace(b, MANIFEST, b"[" * 10**6)),
    Tampering("not a bundle", MANIFEST, lambda b: (b / MANIFEST).unlink()),
]

FUSED = "embed.fused.onnx"  # the graph of vectors on CPUs, the third of the manifest
# All digests match, and every file is valid by itself: only opening and running them shows
# that they do not fit.
MISFITS = [
    Tampering("another width", FUSED, lambda b: add(b, "dim", 1)),
    Tampering("one head less", "attend.onnx", lambda b: add(b, "heads", -1)),
    Tampering("one layer more", "attend.onnx", lambda b: add(b, "layers", 1)),
    Tampering("one layer less", "golden.npz", lambda b: add(b, "layers", -1)),
    Tampering("a larger vocabulary", FUSED, lambda b: add(b, "vocab_size", 1)),
    Tampering("a smaller vocabulary", "tokenizer.json", lambda b: add(b, "vocab_size", -1)),
    Tampering("outputs there are not", FUSED, lambda b: set_value(b, "graphs.2.outputs", ["x"])),
    Tampering(
        "inputs there are not",
        FUSED,
        lambda b: set_value(b, "graphs.2.inputs", ["ids", "mask", "x"]),
    ),
    Tampering(
        "golden answers of another shape",
        "golden.npz",
        lambda b: change_golden(b, "pooled_0", lambda a: a[:5]),
    ),
    Tampering(
        "golden ids of text",
        "golden.npz",
        lambda b: change_golden(b, "ids_0", lambda a: a.astype(str)),
    ),
    Tampering(
        "golden ids out of range",
        "golden.npz",
        lambda b: change_golden(b, "ids_0", lambda a: a + 10**6),
    ),
    Tampering(
        "golden answers of text",
        "golden.npz",
        lambda b: change_golden(b, "pooled_0", lambda a: a.astype(str)),
    ),
    Tampering("another pooled width", FUSED, lambda b: add(b, "pooled_dim", 1)),
    Tampering(
        "prompts not to be pooled",
        FUSED,
        lambda b: set_value(b, "include_prompt", value=False),
    ),
    Tampering(
        "ranges that are none", "parity.json", lambda b: set_value(b, "ranges", "parity.json")
    ),
    Tampering(
        "ranges of another archive", "golden.npz", lambda b: set_value(b, "ranges", "golden.npz")
    ),
    Tampering(
        "golden answers in another file",
        "weights.bin",
        lambda b: set_value(b, "golden", "weights.bin"),
    ),
]
