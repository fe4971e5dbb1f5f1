"""Command line that compares a model with PyTorch, transformers and sentence-transformers.

`headlight verify` exports into a temporary folder, and prints the model's row of the page of models
(docs/models.md) with figures.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from headlight.archive import to_json
from headlight.command_parser import CommandParser, examples_text
from headlight.printable import escaped
from headlight.runtime import Runtime
from headlight_export.command import add_model, read_model, reported, steps_of
from headlight_export.parity.sentence_comparison import against_sentence_transformers, differences
from headlight_export.parity.transformers_comparison import Compared
from headlight_export.progress import SENTENCES, Lines
from headlight_export.writer.bundle_writer import Exported, export_origin
from headlight_export.writer.disk_space import check_space

EXAMPLES = (
    "headlight verify sentence-transformers/all-MiniLM-L6-v2",
    "headlight verify ./my-model --pooling mean --format json",
)
CARD, MOST_OF_CARD = "README.md", 65_536  # characters that are read
FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)  # before and after a card's fields
LICENCE = re.compile(r"""^license:[ \t]*(["']?)([\w.-]+)\1[ \t]*(?:#.*)?$""", re.MULTILINE)
PEERS = ("PyTorch", "transformers", "sentence-transformers")


@dataclasses.dataclass(frozen=True)
class Verified:
    """What was compared of a model.

    Attributes:
        model: its Hub id or folder.
        commit: of the Hub; empty: of a folder.
        family, task, outputs: of its bundle.
        licence: as its model card states it; empty: it does not.
        errors: largest distance of each output, by the library.
        versions: of the libraries that were compared.
        not_compared: reason, by the library.
        problem: the first comparison that failed; empty: none.
    """

    model: str
    commit: str
    family: str
    task: str
    outputs: tuple[str, ...]
    licence: str
    errors: Mapping[str, Mapping[str, float]]
    versions: Mapping[str, str]
    not_compared: Mapping[str, str]
    problem: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and return its exit code.

    0: all that is installed agrees. 1: a comparison failed, or the Hub or the disk fails for now.
    2: invalid arguments, or a model that cannot be served.
    """
    options = command_parser().parse_args(arguments)
    return reported("verify", Path(tempfile.gettempdir()), lambda: _run(options))


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `headlight verify`."""
    parser = CommandParser(
        prog="headlight verify",
        usage="headlight verify MODEL [OPTION]...",
        description=(
            "Export a model into a temporary folder, and compare it with PyTorch, and with\n"
            "transformers and sentence-transformers if they are installed."
        ),
        epilog=examples_text(EXAMPLES),
    )
    add_model(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("text", "json"), help="default: text")
    return parser


def _run(options: argparse.Namespace) -> int:
    with (
        contextlib.redirect_stdout(sys.stderr),  # the steps
        tempfile.TemporaryDirectory(prefix="headlight-verify-") as folder,
    ):
        verified = _verify(options, Path(folder) / "bundle")
    if options.format == "json":
        print(to_json(dataclasses.asdict(verified)))
    else:
        print(_table(verified))
    if verified.problem:
        print(f"verify: {verified.problem}", file=sys.stderr)
    return 1 if verified.problem else 0


def _verify(options: argparse.Namespace, bundle: Path) -> Verified:
    """Export a model to `bundle`, compare its answers, and return what was compared."""
    progress = Lines((*steps_of(options.model), SENTENCES))
    try:
        origin = read_model(options, progress)
        check_space(bundle, origin, 0, setting="TMPDIR")
        exported = export_origin(origin, bundle, progress=progress)
        progress(SENTENCES)
        with Runtime(bundle, self_test=False) as runtime:
            sentences = against_sentence_transformers(
                origin, runtime, template=options.pair_template is not None
            )
            outputs = runtime.model().outputs
    finally:
        progress.close()
    compared = {"transformers": exported.transformers, "sentence-transformers": sentences}
    return Verified(
        model=options.model,
        commit=origin.hub.get("commit", ""),
        family=origin.family,
        task=origin.task,
        outputs=tuple(outputs),
        licence=licence_of(origin.folder / CARD),
        errors={"PyTorch": _worst(exported)}
        | {name: dict(each.errors) for name, each in compared.items() if each.errors},
        versions={name: each.version for name, each in compared.items() if each.errors},
        not_compared={name: each.why_not for name, each in compared.items() if each.why_not},
        problem=_problem(sentences, exported),
    )


def _worst(exported: Exported) -> dict[str, float]:
    """Return the largest distance of each output from PyTorch."""
    worst = dict[str, float]()
    for row in exported.rows:
        worst[row.output] = max(worst.get(row.output, 0.0), row.max_error)
    return worst


def _problem(sentences: Compared, exported: Exported) -> str:
    """Return a line on the first output that disagrees; empty: none does."""
    for each in differences(sentences, exported.own_error):
        return (
            f"{each.output} differs by {each.error:.3g} from sentence-transformers "
            f"{sentences.version}, and {each.limit:.3g} is rounding; please report the model"
        )
    return ""


def licence_of(card: Path) -> str:
    """Return the licence in the first lines of a model card; empty: it states none."""
    if not card.is_file():
        return ""
    with card.open(encoding="utf-8", errors="replace") as file:
        before, *parts = FENCE.split(file.read(MOST_OF_CARD), maxsplit=2)
    stated = LICENCE.search(parts[0]) if len(parts) == 2 and not before else None
    return stated[2] if stated else ""


def _table(verified: Verified) -> str:
    """Return the row of a model in Markdown, and what was not compared."""
    cells = {
        "model": escaped(verified.model),
        "family": verified.family,
        "task": verified.task,
        "outputs": ", ".join(verified.outputs),
        **{f"from {name}": _cell(verified, name) for name in PEERS},
        "licence": verified.licence,
    }
    lines = [f"| {' | '.join(row)} |" for row in (cells, cells.values())]
    lines.insert(1, "|---" * len(cells) + "|")
    lines += [
        f"\nnot compared with {name}: {escaped(why)}" for name, why in verified.not_compared.items()
    ]
    return "\n".join(lines)


def _cell(verified: Verified, name: str) -> str:
    errors = verified.errors.get(name, {})
    return ", ".join(f"{output} {error:.1e}" for output, error in errors.items())
