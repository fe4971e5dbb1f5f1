"""Reference pages of the site: Markdown made from the code, the contract and the notebooks."""

from __future__ import annotations

import argparse
import html
import importlib
import inspect
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from headlight import errors
from headlight.cli.commands import parser
from headlight.cli.main import PARTS
from headlight.reasons import Phrase, Reason
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.frontends.grpc.grpc_status import STATUS_BY_CODE
from headlight_service.telemetry.metrics import GAUGES, Metrics

# Labels whose values are names of the model or of its bundle.
OPEN = {"model", "version", "sha256", "provider", "precision", "positions"}
# A comment and the message, enum or service below it, up to the brace that closes it.
BLOCK = re.compile(r"^(?://.*\n)+(?:message|enum|service) (\w+) \{(?:\}|\n(?:.*\n)*?\})", re.M)


def fragments(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file that a page includes."""
    yield "commands.md", commands()
    yield "contract.md", contract((root / "proto/headlight/v1/headlight.proto").read_text("utf-8"))
    yield "errors.md", error_table()
    yield "reasons.md", "\n".join(f"- `{shortage.value.upper()}`" for shortage in Shortage)
    yield "refusals.md", refusal_table()
    yield "metrics.md", metric_table()
    for path in sorted((root / "docs/notebooks").glob("*.ipynb")):
        yield f"{path.stem}.md", notebook(path)


def commands() -> str:
    """Return the --help of every command."""
    os.environ["COLUMNS"] = "88"  # argparse wraps there
    parts = [
        f"## {made.prog}\n\n```text\n{made.format_help()}```\n"
        for made in command_parsers(parser())
    ]
    return "\n".join(parts)


def command_parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of the commands below a parser, down to those that have none."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                if name in PARTS:
                    yield importlib.import_module(PARTS[name].options).command_parser()
                else:
                    yield from list(command_parsers(below)) or [below]


def contract(proto: str) -> str:
    """Return each service, message and enum of a .proto file below a heading of its own."""
    return "\n".join(f"## {b[1]}\n\n```proto\n{b[0]}\n```\n" for b in BLOCK.finditer(proto))


def error_table() -> str:
    """Return all errors, in the order of their module."""
    return table(
        ("class", "below", "code", "gRPC status", "meaning"),
        [
            (
                f"`{error.__name__}`",
                f"`{error.__bases__[0].__name__}`",
                f"`{error.code.value}`",
                STATUS_BY_CODE[error.code].name,
                cell((inspect.getdoc(error) or "").partition("\n\n")[0]),
            )
            for error in vars(errors).values()
            if isinstance(error, type) and issubclass(error, errors.HeadlightError)
        ],
    )


def refusal_table() -> str:
    """Return all reasons of a refusal in detail, with the words of the contract."""
    return table(
        ("`refusal`", "message"),
        [(f"`{each.name}`", cell(_in_words(each.value))) for each in Reason],
    )


def _in_words(template: str) -> str:
    """Return a template with its remedies."""
    for part in Phrase:
        template = template.replace(f"{{{part.name}}}", part.value)
    return template.replace("{{", "{").replace("}}", "}")


def registry() -> CollectorRegistry:
    """Return a registry with every metric, as of a service with TLS, tokens and one model."""
    metrics = Metrics()
    metrics.define_tls(lambda: 0.0)
    metrics.refused_tls()
    metrics.refused_tokens()
    method = {"grpc_type": "", "grpc_service": "", "grpc_method": ""}
    metrics.grpc_started.labels(**method)
    metrics.grpc_handled.labels(**method, grpc_code="")
    metrics.grpc_seconds.labels(**method)
    metrics.model_loads.labels("", "")
    metrics.of("")
    names = dict.fromkeys(OPEN, "")
    metrics.serve(**names, gauges=dict.fromkeys(GAUGES, lambda: 0.0))
    return metrics.registry


def metric_table() -> str:
    """Return all metrics, those of the service first: type, labels and meaning."""
    metrics = sorted(registry().collect(), key=lambda each: not each.name.startswith("headlight_"))
    rows = [
        (
            f"`{each.name}{'_total' if each.type == 'counter' else ''}`<br>{each.type}",
            labels(each),
            cell(each.documentation),
        )
        for each in metrics
    ]
    return table(("metric", "labels", "meaning"), rows)


def labels(metric: Metric) -> str:
    """Return the labels of a metric, with the values of those that are closed sets."""
    values: dict[str, dict[str, None]] = {}
    for sample in metric.samples:
        for name, value in sample.labels.items():
            values.setdefault(name, {})[value.removesuffix(".0")] = None
    return "<br>".join(
        f"`{name}`" if name in OPEN or list(members) == [""] else f"`{name}`: {', '.join(members)}"
        for name, members in values.items()
    )


def notebook(path: Path) -> str:
    """Return the text and the code of a notebook, and the outputs that it was committed with."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in cell_parts(cell))


def cell_parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the source of a cell and its outputs as Markdown."""
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"````python\n{source}\n````"
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "text/html" in data:  # one line: a blank one would end the HTML
            yield "".join(data["text/html"]).replace("\n", "&#10;")
        else:
            text = "".join(output.get("text") or data["text/plain"]).rstrip()
            yield f"````{{ .text .output }}\n{text}\n````"


def cell(text: str) -> str:
    """Return text as a cell of a table: one line, with no markup but backticks."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("*", "\\*")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
