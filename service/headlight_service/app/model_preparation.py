"""Preparation of the model to serve: its bundle, exported into the cache on the first start.

The export runs in a separate process: the serving process never loads PyTorch.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from headlight.extras import remedy
from headlight.model_store.model_cache import Entry, entry_of, make_entry
from headlight.model_store.model_source import ModelSource, ModelSourceError, find_model
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.command_line import ConfigError, flag_of
from headlight_service.config.options import Config

log = logging.getLogger("headlight_service.app.model_preparation")
# Modules that an export needs in addition to the service; a Hub id needs both.
EXPORTERS, HUB = ("torch", "onnx", "onnxscript", "safetensors"), "huggingface_hub"
EXIT_REFUSED = 2  # of the exporter: the same command can never succeed
PREFIX = "export: "  # of its last line


class ExportFailed(Exception):
    """The export failed for now, for example on a full disk or without a network."""


async def prepare(config: Config, environ: Mapping[str, str], steps: StartupSteps) -> Path:
    """Return the bundle to serve; export the model first if it is not a bundle.

    A cancellation also ends the export.

    Raises:
        ConfigError: the model cannot be found or exported; the message has the remedy.
        ExportFailed: the export failed, and may succeed later.
    """
    if config.bundle is not None:
        return config.bundle
    try:
        model = await asyncio.to_thread(find_model, next(iter(config.model), None), config.revision)
        options = _export_options(config)
        if isinstance(model, Path):
            # A precision is chosen among those of the bundle; the others only an export can set.
            if idle := options.keys() - {"precision"}:
                names = " and ".join(map(flag_of, sorted(idle)))
                raise ConfigError(f"{model} is a bundle already; leave out {names}")
            return model
        entry = entry_of(model, options, environ)
        if not entry.complete:
            await _export(model, options, entry, steps)
    except ModelSourceError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(
            f"cannot keep the exported model: {error.strerror or error}: {error.filename}; "
            "set HEADLIGHT_CACHE to a folder that can be written"
        ) from None
    log.info(
        "the model is in the cache",
        extra={"event": "model_cached", "key": entry.key, "folder": str(entry.folder)},
    )
    return entry.bundle


def _export_options(config: Config) -> dict[str, object]:
    """Return the options of the export: those that change the bundle."""
    # OpenVINO needs no other export: every bundle has the graphs that it computes with.
    precision = config.precision if config.provider != "openvino" else "fp32"
    options = {
        "pooling": config.pooling,
        "max_length": config.max_length,
        "precision": precision if precision != "fp32" else None,
    }
    return {name: value for name, value in options.items() if value is not None}


async def _export(
    source: ModelSource, options: Mapping[str, object], entry: Entry, steps: StartupSteps
) -> None:
    """Run `headlight export`, and log its steps."""
    needed = EXPORTERS if source.digest else (*EXPORTERS, HUB)
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{source.location} is no bundle, and exporting it needs {missing[0]}: "
            f"{remedy('serve,export')}; or run `headlight export` elsewhere, and serve its bundle"
        )
    make_entry(entry)
    command = [
        sys.executable,
        "-m",
        "headlight",
        "export",
        source.location,
        "--if-missing",
        "--quiet",
    ]
    command += ["--out", str(entry.bundle), "--name", source.name]
    command += ["--revision", source.revision] if source.revision else []
    for name, value in options.items():
        command += [flag_of(name), str(value)]
    log.info(
        f"exporting {source.location}, once",
        extra={"event": "exporting", "model_source": source.location},
    )
    export = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await asyncio.gather(_log_steps(export, steps), _read(export.stderr))
        code = await export.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            export.terminate()
    if code:
        lines = [line for line in errors.splitlines() if line.startswith(PREFIX)]
        problem = lines[-1].removeprefix(PREFIX) if lines else errors.strip()[-500:]
        message = problem or f"the export ended with exit code {code}"
        raise ConfigError(message) if code == EXIT_REFUSED else ExportFailed(message)


async def _log_steps(export: asyncio.subprocess.Process, steps: StartupSteps) -> None:
    while export.stdout is not None and (line := await export.stdout.readline()):
        steps.exported(line.decode(errors="replace").rstrip())


async def _read(stream: asyncio.StreamReader | None) -> str:
    return "" if stream is None else (await stream.read()).decode(errors="replace")
