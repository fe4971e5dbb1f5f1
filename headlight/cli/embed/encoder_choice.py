"""The encoder of `headlight embed`: a service, or a bundle in this process."""

from __future__ import annotations

import argparse

from headlight.bulk.signals import undisturbed
from headlight.cli.files import UsageError
from headlight.cli.shared_options import connect
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.extras import MissingExtra
from headlight.interface.encoder import Encoder

# Options of a connection, which --local has none of.
CONNECTION = ("model", "tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")


def add_local(made: argparse.ArgumentParser) -> None:
    """Add options for a bundle in this process."""
    group = made.add_argument_group("in this process")
    group.add_argument(
        "--local",
        metavar="BUNDLE",
        help="compute here, on all cores or the GPU, without a service; needs the extra [runtime]",
    )
    group.add_argument(
        "--provider",
        metavar="NAME",
        help="with --local: cpu, openvino or cuda; default: a GPU if there is one, else cpu",
    )
    group.add_argument(
        "--precision",
        metavar="NAME",
        help="with --local: fp32, the default; or bf16, fp16 or int8, if the bundle has it",
    )


def encoder_of(arguments: argparse.Namespace, concurrency: int, ready: float) -> Encoder:
    """Return the encoder that the options name.

    Args:
        arguments: of the command.
        concurrency: calls of a service at once, for each of a job's blocks.
        ready: seconds to wait for a service that is starting.

    Raises:
        UsageError: the options exclude each other, or the runtime is not installed.
        BundleError: the bundle cannot be opened.
    """
    if arguments.local is None:
        for option in ("provider", "precision"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option}: is for --local; a service has its own")
        return connect(arguments, concurrency, ready)
    for option in CONNECTION:
        if getattr(arguments, option):
            raise UsageError(
                f"--{option.replace('_', '-')}: is of a connection, and --local makes none; "
                "leave one out"
            )
    try:
        from headlight.runtime import Runtime  # noqa: PLC0415 # needs an extra
    except MissingExtra as error:
        raise UsageError(str(error)) from None

    class UndisturbedRuntime(Runtime):
        """Runtime that closes even if a second Ctrl-C is pressed."""

        def close(self) -> None:
            with undisturbed():
                super().close()

    return UndisturbedRuntime(
        arguments.local,
        provider=arguments.provider or "auto",
        precision=arguments.precision or "fp32",
        attend=False,
    )


def is_service(encoder: Encoder) -> bool:
    """Return whether calls go to a service."""
    return isinstance(encoder, Client)


def check_kind(arguments: argparse.Namespace, model: ModelDescription) -> None:
    """Raise UsageError if the model does not accept the kind of the inputs, texts or ids."""
    kind, remedy = (
        ("ids", "leave out --token-ids")
        if arguments.token_ids
        else ("text", "give token ids, by --token-ids")
    )
    if model.accepts and kind not in model.accepts:
        raise UsageError(
            f"{model.name} takes {' or '.join(model.accepts)}, and no {kind}; {remedy}"
        )
