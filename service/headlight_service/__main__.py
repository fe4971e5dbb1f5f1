"""Entry point of the service, `headlight serve`: reads the configuration and runs a server."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # must be set before ONNX Runtime is loaded
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else a line for each bad request, not JSON
os.environ.setdefault("RUST_BACKTRACE", "0")  # before tokenizers is loaded: a panic prints less

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight_service.app.allocator import configure_allocator
from headlight_service.app.assembly import load
from headlight_service.app.lifecycle import (
    EXIT_BUNDLE,
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_OK,
    Server,
    end_at_once,
)
from headlight_service.app.model_preparation import ExportFailed, prepare
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.command_line import ConfigError
from headlight_service.config.model_entries import entries_of
from headlight_service.config.options import Config
from headlight_service.security.access_policy import security_of
from headlight_service.telemetry import text_logs, tracing, uncaught_errors
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Read the options, check or serve, and end with the exit code.

    Args:
        arguments: of the command line; None: those of the process.
    """
    configure_allocator()
    try:
        config = Config.parse(sys.argv[1:] if arguments is None else arguments, os.environ)
        if config.check:
            sys.exit(check(config))
        spans = tracing.start(config.otlp_endpoint)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(EXIT_CONFIG)
    text_logs.configure(config.log_level, config.log_format)
    uncaught_errors.redirect()
    asyncio.run(serve(config, spans))


async def serve(config: Config, spans: Tracing | None) -> NoReturn:
    """Run a server, and end the process. asyncio.run would wait for threads that may never end."""
    try:
        code = await Server(config, spans).serve()
    except Exception:
        log.critical("ended by a bug", exc_info=True, extra={"event": "crashed"})
        code = EXIT_FAILED
    end_at_once(code)


def check(config: Config) -> int:
    """Check certificates, tokens, bundle and golden inputs; print a line for each model."""
    # Without a handler, `logging` would print errors on the way, too.
    logging.getLogger().addHandler(logging.NullHandler())
    security_of(config, Metrics())
    steps = StartupSteps()
    try:
        for entry in entries_of(config):
            bundle = asyncio.run(prepare(entry.config, os.environ, steps))
            runtime = load(dataclasses.replace(entry.config, model=(), bundle=bundle), steps)
            sys.stdout.write(_checked(runtime))
            runtime.close()
    except ExportFailed as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILED
    except BundleError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return EXIT_BUNDLE
    return EXIT_OK


def _checked(runtime: Runtime) -> str:
    manifest = runtime.bundle.manifest
    using = f"{runtime.provider}/{runtime.precision}"
    return f"ok: {manifest.name} {manifest.version} sha256:{runtime.bundle.sha256} on {using}\n"


if __name__ == "__main__":
    main()
