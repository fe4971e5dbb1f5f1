"""Options of `headlight embed`: a service or a bundle, and the form of vectors."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from headlight.bulk.signals import undisturbed
from headlight.cli.files import UsageError
from headlight.cli.shared_options import connect, reading
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.extras import MissingExtra
from headlight.interface.arguments import Input
from headlight.interface.encoder import Encoder
from headlight.results import Embeddings
from headlight.spec import VECTOR_BITS, VectorType

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


ONE_TYPE = ("text", "npy")  # formats that hold vectors of one type, without ids


def add_vectors(made: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add options for the form of vectors, and return their group."""
    group = made.add_argument_group("vectors")
    group.add_argument("--dimensions", type=int, metavar="D", help="keep this many, from the first")
    group.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="make vectors have unit length, or not; default: as the model does",
    )
    group.add_argument(
        "--dtype",
        action="append",
        choices=tuple(VECTOR_BITS),
        help=(
            "type of the numbers, default float32; several times for several, "
            "in the formats json, jsonl, npz and parquet"
        ),
    )
    return group


def vector_types(arguments: argparse.Namespace) -> Sequence[VectorType]:
    """Return the types of the options of `add_vectors`.

    Raises UsageError if the format cannot show them.
    """
    dtypes: Sequence[VectorType] = arguments.dtype or ("float32",)
    if len(dtypes) > 1 and (arguments.format or "text") in ONE_TYPE:
        raise UsageError(
            "--dtype: text and npy hold one type; use --format json, jsonl or npz for several"
        )
    return dtypes


def encoding(
    encoder: Encoder, arguments: argparse.Namespace
) -> Callable[[Sequence[Input]], Embeddings]:
    """Return a function that encodes some inputs as the options say.

    Raises UsageError as `vector_types`.
    """
    options = {
        "dimensions": arguments.dimensions,
        "normalize": arguments.normalize,
        "dtype": vector_types(arguments),
        **reading(arguments),
    }
    return lambda some: encoder.encode_with_info(some, **options)


def vector_settings(arguments: argparse.Namespace, nothing: Embeddings) -> dict[str, object]:
    """Return the settings on which vectors depend, for a job that may be resumed.

    Values are as in JSON; names are those of options, for the error message.
    """
    return {
        "model or precision": [
            nothing.model.name,
            nothing.model.bundle_sha256,
            nothing.model.precision,
        ],
        "--dtype or --dimensions": [
            [name, each.dtype.str, each.shape[1]] for name, each in nothing.by_type.items()
        ],
        "--normalize": arguments.normalize,
        "--truncate": arguments.truncate,
        "--prompt": [arguments.prompt_name, arguments.prompt],
        "--role": arguments.role,
        "--special-tokens": arguments.special_tokens,
        "--empty-texts": arguments.empty_texts,
    }
