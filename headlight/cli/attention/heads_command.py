"""`headlight heads`: its options, and an analysis of heads as text, JSON or arrays."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.head_analysis import Analysis, analyse
from headlight.analysis.head_kinds import CALLED, FAINT, UNIFORM, Head, Link
from headlight.analysis.terminal_view import LABEL_CELLS, bar, cells, fit, visible
from headlight.archive import to_json
from headlight.cli.input_lines import texts_of
from headlight.cli.output_files import count_text, write_result
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_reading,
    add_texts,
    command,
    connect,
    reading,
)
from headlight.spec import STATISTICS

EXAMPLES = (
    'headlight heads "for line in open(path): print(line)"',
    "headlight heads --file texts.txt --importance",
    "headlight heads --file texts.txt --out heads.npz",
)
SHORT_LABEL_CELLS, BAR_CELLS = 8, 8  # with both, lines have 80 columns


def add_heads(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "heads",
        run_heads,
        "what each attention head does",
        arguments="[TEXT]...",
        examples=EXAMPLES,
    )
    add_texts(made)
    add_reading(made, several=True)
    add_output(made, ("text", "json", "npz"))
    made.add_argument(
        "--importance",
        action="store_true",
        help="also how far vectors move without each head: encodes the texts once more for each",
    )
    add_connection(made)


def run_heads(arguments: argparse.Namespace) -> None:
    """Run `headlight heads`."""
    texts = texts_of(arguments)
    with connect(arguments) as client:
        analysis = analyse(client, texts, ablate=arguments.importance, **reading(arguments))
    write_result(
        arguments,
        what=f"{count_text(len(analysis.heads), 'head')} over {count_text(len(texts), 'text')}",
        text=lambda: heads_text(analysis),
        json=lambda: heads_json(analysis),
        arrays=lambda: heads_arrays(analysis),
    )


def heads_text(analysis: Analysis) -> str:
    """Return a line for each head, of at most 80 columns, and a legend."""
    moved, texts, tokens = (
        analysis.importance,
        len(analysis.token_counts),
        sum(analysis.token_counts),
    )
    title, *links = link_column(analysis.heads, SHORT_LABEL_CELLS if moved else LABEL_CELLS)
    lines = [
        (
            f"{len(analysis.heads)} heads, {texts} {'text' if texts == 1 else 'texts'}, "
            f"{tokens} tokens"
        ),
        f" head  kind       share  spread   dist  {title}{'  moved' if moved else ''}",
    ]
    for head, link in zip(analysis.heads, links, strict=True):
        numbers = f"{head.share:5.2f}  {head.spread:6.2f}  {five(head.statistics['distance'], 1)}"
        line = f"{f'{head.layer}.{head.head}':>5}  {head.kind:9}  {numbers}  {link}"
        if moved:
            distance = float(moved.distance[head.layer, head.head])
            line += f"  {five(distance, 3)} {bar(distance, float(moved.distance.max()), BAR_CELLS)}"
        lines.append(line)
    lines += [
        f"share: of the weight, on tokens of that kind; of other the largest, under {CALLED:.2f}",
        f"spread: 0 looks at one token, 1 everywhere alike (uniform from {UNIFORM:.2f})",
        "dist: in tokens, mean; strongest link: between two tokens that are not special",
        *(
            ["moved: distance of the vectors without the head from those with all, mean"]
            if moved
            else []
        ),
    ]
    return "\n".join(line.rstrip() for line in lines)


def five(number: float, digits: int) -> str:
    """Format a number in five columns: fewer decimals if large, an exponent for the largest."""
    shown = (f"{number:5.{behind}f}" for behind in range(digits, -1, -1))
    return next((text for text in shown if len(text) == 5), f"{number:5.0e}")


def link_column(found: Sequence[Head], label_cells: int) -> list[str]:
    """Return a title and the strongest link of each head, all of one width.

    Labels are cut to `label_cells`.
    """
    links = [head.link for head in found]
    names = [
        (visible(link.query_label), visible(link.key_label)) if link else ("", "") for link in links
    ]
    left, right = (min(label_cells, max(cells(pair[side]) for pair in names)) for side in (0, 1))
    column = [
        f"{fit(query, left)} → {fit(key, right)} {link.weight:.2f}" if link else ""
        for link, (query, key) in zip(links, names, strict=True)
    ]
    column.insert(0, "strongest link")
    return [fit(entry, max(map(cells, column))) for entry in column]


def heads_json(analysis: Analysis) -> dict[str, object]:
    """Return each head with its seven statistics, link and importance, and the weights.

    Unknown statistics are null.
    """
    moved = analysis.importance
    rows = []
    for head in analysis.heads:
        row = {**dataclasses.asdict(head), **head.statistics}
        del row["statistics"]
        if moved:
            at = (head.layer, head.head)
            row["importance"] = {
                "distance": float(moved.distance[at]),
                "cosine": float(moved.cosine[at]),
            }
        rows.append(shortened(row))
    return {
        "model": dataclasses.asdict(analysis.model),
        "token_counts": list(analysis.token_counts),
        "thresholds": {"called": CALLED, "uniform": UNIFORM, "faint": FAINT},
        "heads": rows,
    }


def shortened(value: Any) -> Any:
    """Prepare a value for JSON: null for NaN, else the shortest decimals of the same float32."""
    if isinstance(value, dict):
        return {name: shortened(entry) for name, entry in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else float(str(np.float32(value)))
    return value


def heads_arrays(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """Return arrays [L, H], with statistics [L, H, 7].

    A missing link has weight 0 and indices -1.
    """
    found, moved = analysis.heads, analysis.importance
    shape = (len({head.layer for head in found}), -1)
    nothing = Link(0.0, -1, -1, -1, "", "")
    links = [head.link or nothing for head in found]
    columns: dict[str, NDArray[Any]] = {
        "kinds": np.array([head.kind for head in found]),
        "shares": np.array([head.share for head in found], np.float32),
        "spreads": np.array([head.spread for head in found], np.float32),
        "link_weights": np.array([link.weight for link in links], np.float32),
        **{
            f"link_{name}": np.array([getattr(link, name) for link in links])
            for name in ("text", "query", "key", "query_label", "key_label")
        },
    }
    statistics = np.array(
        [[head.statistics[name] for name in STATISTICS] for head in found], np.float32
    )
    distances: dict[str, NDArray[Any]] = {}
    if moved:
        distances = {
            "importance": moved.distance,
            "importance_cosine": moved.cosine,
            "embeddings": moved.baseline,
        }
    return {
        **{name: column.reshape(shape) for name, column in columns.items()},
        "statistics": statistics.reshape(*shape, len(STATISTICS)),
        **distances,
        "statistic_names": np.array(STATISTICS),
        "token_counts": np.array(analysis.token_counts),
        "model": np.array(to_json(dataclasses.asdict(analysis.model))),
    }
