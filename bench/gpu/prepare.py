"""Preparation of the measured bundles, if missing.

The shipped models and MiniLM's size are exported and checked as by `headlight export`, in fp32,
bf16 and fp16. The larger two are timed and never served. Their graphs are written without the
parity check, which would take minutes and repeat the others' result.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from bench.gpu.sizes import BASE, CHECKPOINTS, LARGE, SIZES, TINY, TRAINED, encoder_of
from headlight.runtime.bundle.manifest_fields import MANIFEST

PRECISIONS = ("bf16", "fp16")
UNPROVEN = (BASE, LARGE, TINY)
NEEDED = ("torch", "onnx", "onnxscript", "safetensors")
TOKENIZER = CHECKPOINTS / TRAINED[0] / "tokenizer.json"


class Unprepared(RuntimeError):
    """A bundle is missing, or cannot be made here; the message has the requirement."""


def require(folder: Path, names: Iterable[str]) -> None:
    """Raise Unprepared, with the remedy, if a bundle is missing under `folder`."""
    absent = [name for name in names if not (folder / name / MANIFEST).is_file()]
    if absent:
        raise Unprepared(
            f"{folder} lacks {', '.join(absent)}: run `python -m bench.gpu prepare` with "
            "the same options"
        )


def prepare(folder: Path, names: Iterable[str]) -> None:
    """Make the bundle of each name under `folder`. Existing ones stay.

    Raises:
        Unprepared: a package for it is missing.
    """
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise Unprepared(
            f"preparing bundles needs {', '.join(missing)}: install them, "
            "or prepare on another machine"
        )
    for name in names:
        out, begin = folder / name, time.monotonic()
        if not (out / MANIFEST).is_file():
            (_write_unproven if name in UNPROVEN else _export)(out, name)
            print(
                f"{name}: {size(out) / 2**20:.0f} MiB, made in {time.monotonic() - begin:.0f} s",
                flush=True,
            )


def size(bundle: Path) -> int:
    """Return the bundle's bytes."""
    return sum(path.stat().st_size for path in bundle.iterdir())


def _export(out: Path, name: str) -> None:
    # The exporter's packages are not everywhere.
    from headlight_export.folders.origin import read_origin  # noqa: PLC0415
    from headlight_export.writer.bundle_writer import export_origin  # noqa: PLC0415

    if name in SIZES:
        export_origin(_origin(name), out, version="random", precisions=PRECISIONS)
    else:
        export_origin(read_origin(CHECKPOINTS / name), out, precisions=PRECISIONS)


def _origin(name: str):  # type: ignore[no-untyped-def]  # of a package that is not everywhere
    from headlight_export.folders.origin import OURS, Origin  # noqa: PLC0415
    from headlight_export.folders.sentence_folder import Recipe  # noqa: PLC0415

    encoder = encoder_of(name)
    recipe = Recipe(
        transformer=TOKENIZER.parent,
        pooling=encoder.config.pooling,
        normalize=encoder.config.normalize,
    )
    return Origin(encoder, TOKENIZER.read_text(encoding="utf-8"), OURS, "", recipe)


def _write_unproven(out: Path, name: str) -> None:
    from headlight.outputs.registry import FLOORS  # noqa: PLC0415
    from headlight_export.parity.reference import Reference  # noqa: PLC0415
    from headlight_export.precision.graph_files import convertible, write_precision  # noqa: PLC0415
    from headlight_export.progress import silent  # noqa: PLC0415
    from headlight_export.writer.draft import put_in_place, save  # noqa: PLC0415
    from headlight_export.writer.fp32_parts import write_parts  # noqa: PLC0415

    origin = _origin(name)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{name}-") as folder:
        draft = Path(folder) / "bundle"
        draft.mkdir()
        floors = dict.fromkeys(FLOORS, 0.0)
        manifest = write_parts(draft, origin, Reference(origin.encoder), floors, silent)
        exact = convertible(manifest.graphs)
        more = [
            graph for p in PRECISIONS for graph in write_precision(draft, exact, p, origin.encoder)
        ]
        save(
            draft,
            dataclasses.replace(
                manifest, name=name, version="random", graphs=(*manifest.graphs, *more)
            ),
        )
        put_in_place(out, draft)
