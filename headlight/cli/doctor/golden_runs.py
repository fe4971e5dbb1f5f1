"""Golden inputs of a model of this machine: whether providers compute PyTorch's numbers here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from headlight.cli.cache_command import facts
from headlight.cli.doctor.usable_providers import Provider
from headlight.model_store.model_cache import entries
from headlight.model_store.model_source import MANIFEST, ModelSourceError, find_model

PRECISION = "fp32"


@dataclasses.dataclass(frozen=True)
class GoldenRun:
    """The golden inputs of a model on one provider, in fp32.

    Attributes:
        provider: its name.
        model: name and version of the model; if it cannot be used, the folder of its bundle.
        problem: why it must not be used here; empty: its answers are PyTorch's.
    """

    provider: str
    model: str
    problem: str


def run_golden_inputs(providers: Iterable[Provider]) -> list[GoldenRun]:
    """Run the short golden inputs of one model on each usable provider; empty: no model is here."""
    usable = [each.name for each in providers if PRECISION in each.precisions]
    bundle = find_bundle(os.environ)
    return [] if bundle is None else [_run(bundle, name) for name in usable]


def find_bundle(environ: Mapping[str, str]) -> Path | None:
    """Return the shipped bundle, else the newest of the cache that is not damaged, else None."""
    try:
        shipped = find_model(None)
    except ModelSourceError:
        shipped = None
    if isinstance(shipped, Path):
        return shipped
    try:
        bundles = [entry.bundle for entry in entries(environ) if facts(entry)["precisions"]]
        return max(bundles, key=lambda each: (each / MANIFEST).stat().st_mtime, default=None)
    except (ModelSourceError, OSError):  # the report has a section on the cache
        return None


def _run(bundle: Path, provider: str) -> GoldenRun:
    from headlight.runtime import Runtime  # noqa: PLC0415 # needs an extra

    try:
        with Runtime(bundle, provider=provider) as runtime:
            model = runtime.model()
    except Exception as error:  # a library or short memory raises anything
        return GoldenRun(provider, str(bundle), " ".join(str(error).split()) or repr(error))
    return GoldenRun(provider, f"{model.name} {model.version}", "")
