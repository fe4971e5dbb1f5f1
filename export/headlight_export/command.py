"""Command line of the exporter: export, prove, and print the proof."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import errno
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from headlight.command_parser import CommandParser, examples_text
from headlight.errors import HeadlightError
from headlight.model_store.model_cache import locked
from headlight.model_store.model_source import DEFAULT_REVISION, is_hub_id
from headlight.runtime.bundle.manifest import TASKS
from headlight.runtime.bundle.manifest_fields import MANIFEST
from headlight.runtime.tokenization.tokenizer_probe import NO_KIND
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import Origin, check_settings, read_origin
from headlight_export.hub.hub_download import download
from headlight_export.hub.hub_errors import HubUnavailable
from headlight_export.parity.owner_comparison import NO_BLOCKS, TOKENS, load_owner
from headlight_export.parity.parity_report import table
from headlight_export.parity.transformers_comparison import Compared, Disagreement
from headlight_export.precision.conversion import PRECISIONS
from headlight_export.precision.layer_search import table as search_table
from headlight_export.precision.quality import table as quality_table
from headlight_export.precision.variant_options import check_family
from headlight_export.progress import DOWNLOAD, RANGES, READING, STEPS, VARIANTS, Lines
from headlight_export.writer.bundle_writer import Exported, ParityError, export_origin
from headlight_export.writer.disk_space import NoSpace, check_space

OUT = "--out; for headlight serve: HEADLIGHT_CACHE"
EXAMPLES = (
    "headlight export sentence-transformers/all-MiniLM-L6-v2 --out minilm",
    "headlight export ./my-model --out my-bundle --pooling mean --precision bf16",
    "headlight export ./my-checkpoint --out my-bundle --check-against my_model:trained",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the export and return its exit code.

    0 is success. 1: the bundle disagrees with PyTorch and was not written, or the Hub or the disk
    fails for now. 2: invalid arguments or files.
    """
    options = command_parser().parse_args(arguments)

    def run() -> int:
        with _alone(options) as needed:
            return _run(options) if needed else 0

    return reported("export", options.out.parent, run)


def reported(name: str, folder: Path, run: Callable[[], int]) -> int:
    """Run a command and return its exit code. An error is one line on standard error.

    Args:
        name: of the command.
        folder: that it writes to.
        run: returns the exit code.
    """
    try:
        return run()
    except (HubUnavailable, NoSpace) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except ParityError as error:
        print(table(error.result.rows, error.result.own_error), file=sys.stderr)
        effect = "not written: " if name == "export" else ""
        print(f"{name}: {effect}{error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, HeadlightError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        problem = f"the disk is full; free some space for {folder}" if full else error
        print(f"{name}: {problem}", file=sys.stderr)
        return 1 if full or isinstance(error, Disagreement) else 2


@contextlib.contextmanager
def _alone(options: argparse.Namespace) -> Iterator[bool]:
    """Yield whether there is work. With --if-missing, one process exports and others wait for it.

    What a killed export left behind is removed.
    """
    out = options.out
    if not options.if_missing:
        yield True
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with locked(out.parent, wait=False) as held:
        if not held:
            print(f"waiting for the process that exports to {out}", flush=True)
    with locked(out.parent, wait=True):
        for unfinished in out.parent.glob(f".{out.name}-*"):
            shutil.rmtree(unfinished)
        if exists := (out / MANIFEST).is_file():
            print(f"{out} is there", flush=True)
        yield not exists


def _run(options: argparse.Namespace) -> int:
    if not options.quiet:
        print(f"exporting {options.model}", flush=True)
    result = _export(options)
    if not options.quiet:
        _report(result)
        print(f"wrote {options.out}")
    return 0


def _report(result: Exported) -> None:
    if result.tokens is not None:
        print(f"\n{result.tokens}")
    if (limit := result.tokenizer_limit) is not None:
        why = f"; more {limit.worst} would take too long" if limit.worst != NO_KIND else ""
        print(f"\ntexts of up to {limit.max_characters:,} characters are read{why}")
    _report_peer(result.transformers)
    _report_owner(result.owner)
    print("\nlargest distance from PyTorch (tokens and hidden: over max(1, RMS of the row))\n")
    print(table(result.rows, result.own_error))
    if result.quality:
        print("\n" + quality_table(result.quality))
    for variant, search in result.searches.items():
        print("\n" + search_table("/".join(variant), search))
    if (cut := result.truncate_dim) is not None:
        print(
            f"\nThe folder's own library truncates vectors to {cut} dimensions by default; "
            f"here, request dimensions={cut}."
        )
    print()


def _report_peer(compared: Compared) -> None:
    if compared.errors:
        errors = ", ".join(f"{output} {error:.1e}" for output, error in compared.errors.items())
        print(f"\nour PyTorch against transformers {compared.version}: {errors}")
    if compared.why_not:
        print(f"\nnot compared with transformers: {compared.why_not}")


def _report_owner(errors: Mapping[str, float]) -> None:
    if errors:
        stages = ", ".join(f"{stage} {error:.1e}" for stage, error in errors.items())
        print(f"\nour PyTorch against your model, without padding: {stages}")
    if [*errors] == [TOKENS]:
        print(NO_BLOCKS)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `headlight export`."""
    parser = CommandParser(
        prog="headlight export",
        usage="headlight export MODEL --out DIR [OPTION]...",
        description=(
            "Turn a model into a bundle that `headlight serve` serves, and compare it with PyTorch."
        ),
        epilog=examples_text(EXAMPLES),
    )
    add_model(parser)
    _add_bundle(parser)
    _add_precisions(parser)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a model and its parts; `read_model` reads it."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "model",
        metavar="MODEL",
        help=(
            "folder of a checkpoint of ours, of Hugging Face or of sentence-transformers; or an id "
            "of the Hugging Face Hub, as org/name"
        ),
    )
    group.add_argument(
        "--revision", metavar="NAME", help="branch, tag or commit of a Hub id; default: main"
    )
    group.add_argument(
        "--pooling",
        metavar="NAME",
        help=(
            "for a model that does not name its pooling: mean, cls, max, last, weighted_mean, "
            "mean_sqrt_len"
        ),
    )
    group.add_argument(
        "--task",
        choices=TASKS,
        help="for a model that leaves its task open, or to export another one's vectors: embed",
    )
    group.add_argument(
        "--pair-template",
        type=Path,
        metavar="FILE",
        help=(
            "text around {query} and {document}, or a chat template in Jinja, for a decoder that "
            "reranks; default: the folder's chat template"
        ),
    )
    group.add_argument(
        "--score-tokens",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="TRUE,FALSE",
        help=(
            "tokens of a decoder that reranks: the score is the logit of the first, less that of "
            "the second, if there is one; default: as the folder says, else yes,no"
        ),
    )
    group.add_argument(
        "--max-length",
        type=int,
        metavar="TOKENS",
        help=("tokens of the longest text; default: as the model says, at most its trained length"),
    )
    group.add_argument(
        "--ids-only",
        action="store_true",
        help="for a folder without a tokenizer: the bundle takes token ids alone",
    )


def _add_bundle(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("bundle")
    group.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the bundle; an older bundle there is replaced",
    )
    group.add_argument(
        "--if-missing",
        action="store_true",
        help="do nothing if --out is a bundle; wait for another process that writes it",
    )
    group.add_argument("--name", help="name that clients use; default: the last part of --out")
    group.add_argument(
        "--version",
        help="version that clients see; default: the first 12 digits of the SHA-256 of the weights",
    )
    group.add_argument(
        "--check-against",
        metavar="MODULE:FUNCTION",
        help=(
            "also compare each block with your own model: FUNCTION returns the nn.Module, which "
            "maps ids [B, S] to token vectors; its code is run"
        ),
    )
    group.add_argument("--quiet", action="store_true", help="show only the steps, no report")


def _add_precisions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("precisions and providers")
    group.add_argument(
        "--precision",
        action="append",
        choices=("fp32", *PRECISIONS),
        default=[],
        help=(
            "also write graphs in this precision; may be given several times, fp32 is always there"
        ),
    )
    group.add_argument(
        "--provider",
        action="append",
        default=[],
        help=(
            "also measure on this provider, in each precision that it has here: openvino; with "
            "--precision int8, also write int8 graphs for it; may be given several times"
        ),
    )
    group.add_argument(
        "--texts",
        type=Path,
        metavar="FILE",
        help=(
            "texts to compare precisions and providers on, one a line; default: questions, other "
            "languages than English, and docstrings, comments and code of Python's library"
        ),
    )
    group.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help=(
            "texts whose vectors set the ranges of int8 vectors, and on which int8 for OpenVINO is "
            "calibrated, one a line; default: no ranges, and docstrings of Python's library"
        ),
    )
    group.add_argument(
        "--keep-nearest",
        type=float,
        metavar="SHARE",
        help=(
            "share of the ten nearest texts of fp32 that int8 must keep, as 0.97; the layers that "
            "int8 harms most stay in fp32; default: all layers are in int8"
        ),
    )


def _steps(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the steps of an export with these options."""
    return (
        *steps_of(options.model),
        *((RANGES,) if options.calibration else ()),
        *((VARIANTS,) if options.precision or options.provider else ()),
    )


def steps_of(model: str) -> tuple[str, ...]:
    """Return the steps of every export of a model."""
    return (*((DOWNLOAD,) if _is_on_hub(model) else ()), *STEPS)


def _is_on_hub(model: str) -> bool:
    """Return whether a name is of the Hub. A folder of that name comes before a Hub id."""
    return not Path(model).exists() and is_hub_id(model)


def _export(options: argparse.Namespace) -> Exported:
    owner = None if options.check_against is None else load_owner(options.check_against)
    progress = Lines(_steps(options))
    try:
        origin = read_model(options, progress, options.precision)
        progress.tell(f"task: {origin.task}" + (f" ({origin.why})" if origin.why else ""))
        progress.tell(origin.about)
        check_space(options.out, origin, len({*options.precision}), setting=OUT)
        return export_origin(
            origin,
            options.out,
            name=options.name,
            version=options.version,
            precisions=options.precision,
            providers=options.provider,
            texts=options.texts,
            calibration=options.calibration,
            keep_nearest=options.keep_nearest,
            check_against=owner,
            progress=progress,
        )
    finally:
        progress.close()


def read_model(
    options: argparse.Namespace, progress: Lines, precisions: Sequence[str] = ()
) -> Origin:
    """Return what the folder or the Hub holds. Messages name the Hub id, not where it is kept.

    `precisions` that do not suit the model are refused before a download.
    """

    def check(settings: Path) -> None:
        check_family(
            precisions, check_settings(settings, pooling=options.pooling, task=options.task)
        )

    model, folder, commit = options.model, Path(options.model), ""
    if on_hub := _is_on_hub(model):
        revision = options.revision or DEFAULT_REVISION
        progress(DOWNLOAD)
        progress.tell(f"downloading {model}, revision {revision}")
        folder = download(model, revision, check)
        commit = folder.name
    elif options.revision is not None:
        raise Refused(f"--revision is for a Hub id; {model} is a folder")
    progress(READING)
    try:
        origin = read_origin(
            folder,
            pooling=options.pooling,
            task=options.task,
            max_length=options.max_length,
            ids_only=options.ids_only,
            pair_template=options.pair_template,
            score_tokens=options.score_tokens,
        )
    except ValueError as error:
        raise Refused(str(error).replace(str(folder), model)) from error
    hub = {"model": model, "revision": revision, "commit": commit} if on_hub else {}
    return dataclasses.replace(origin, hub=hub)
