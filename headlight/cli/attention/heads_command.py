"""`headlight heads`: its options, its requests, and the heads as text, JSON or arrays."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.head_analysis import Analysis, analyse
from headlight.analysis.head_kinds import (
    ABOVE_BASE,
    CALLED,
    FAINT,
    KINDS,
    PATTERNS,
    UNIFORM,
    Head,
    Link,
)
from headlight.analysis.layer_groups import LayerGroup, by_layer
from headlight.analysis.terminal_view import LABEL_CELLS, bar, cells, fit, visible
from headlight.archive import to_json
from headlight.cli.files import terminal_width
from headlight.cli.input_lines import texts_of
from headlight.cli.output_files import count_text, write_result
from headlight.cli.result_output import wrapped_lines
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

SHORT_LABEL_CELLS, BAR_CELLS = 8, 8  # with both, lines have 80 columns
KIND_CELLS, PATTERN_CELLS = 9, 11


def heads_text(analysis: Analysis, width: int | None = None) -> str:
    """Return a line for each head, of at most 80 columns, and a legend.

    The legend is wrapped at `width`.
    """
    moved, texts, tokens = (
        analysis.importance,
        len(analysis.token_counts),
        sum(analysis.token_counts),
    )
    kind_cells = PATTERN_CELLS if analysis.patterns else KIND_CELLS
    label_cells = SHORT_LABEL_CELLS - (kind_cells - KIND_CELLS) // 2 if moved else LABEL_CELLS
    title, *links = link_column(analysis.heads, label_cells)
    lines = [
        (
            f"{len(analysis.heads)} heads, {texts} {'text' if texts == 1 else 'texts'}, "
            f"{tokens} tokens"
        ),
        f" head  {'kind':{kind_cells}}  share  spread   dist  {title}{'  moved' if moved else ''}",
    ]
    for head, link in zip(analysis.heads, links, strict=True):
        numbers = f"{head.share:5.2f}  {head.spread:6.2f}  {five(head.statistics['distance'], 1)}"
        line = f"{f'{head.layer}.{head.head}':>5}  {head.kind:{kind_cells}}  {numbers}  {link}"
        if moved:
            distance = float(moved.distance[head.layer, head.head])
            line += f"  {five(distance, 3)} {bar(distance, float(moved.distance.max()), BAR_CELLS)}"
        lines.append(line)
    return "\n".join(line.rstrip() for line in [*lines, *wrapped_lines(legend(analysis), width)])


def layers_text(analysis: Analysis) -> str:
    """Return a line for early, middle and deep layers each: the number of heads of each kind."""
    groups, texts = by_layer(analysis.heads), len(analysis.token_counts)
    moved = analysis.importance
    occurring = {kind for group in groups for kind in group.kinds}
    kinds = [kind for kind in (*KINDS, *PATTERNS) if kind in occurring]
    titles = [f"{kind:>{max(5, len(kind))}}" for kind in kinds]
    lines = [
        f"{len(analysis.heads)} heads, {texts} {'text' if texts == 1 else 'texts'}",
        f"layers         heads  {'  '.join(titles)}  spread   dist{'  moved' if moved else ''}",
    ]
    for group in groups:
        counts = (
            f"{group.kinds.get(kind, 0):{len(title)}}"
            for kind, title in zip(kinds, titles, strict=True)
        )
        numbers = f"{group.spread:6.2f}  {five(group.statistics['distance'], 1)}"
        if moved:
            numbers += f"  {five(float(moved.distance[list(group.layers)].mean()), 3)}"
        lines.append(
            f"{group.name:6} {layer_range(group):7} {sum(group.kinds.values()):5}  "
            f"{'  '.join(counts)}  {numbers}"
        )
    return "\n".join(lines)


def layer_range(group: LayerGroup) -> str:
    """Return the layers of a group as text: 0-1."""
    first, last = group.layers[0], group.layers[-1]
    return str(first) if first == last else f"{first}-{last}"


def legend(analysis: Analysis) -> list[str]:
    """Return the lines that explain the columns, and the base rates of patterns."""
    lines = [
        f"share: of the weight, on tokens of that kind; of other the largest, under {CALLED:.2f}",
        f"spread: 0 looks at one token, 1 everywhere alike (uniform from {UNIFORM:.2f})",
        "dist: in tokens, mean; strongest link: between two tokens that are not special",
    ]
    if analysis.importance:
        lines.append("moved: distance of the vectors without the head from those with all, mean")
    if analysis.patterns:
        lines.append(
            f"base rate: share under uniform attention; a kind needs {ABOVE_BASE:g} times as much"
        )
        lines += [
            f"  {name:{PATTERN_CELLS}}  "
            + (f"{pattern.base_rate:5.2f}" if pattern.queries else f"{'–':>5}")
            + f"  over {pattern.queries:,} queries"
            for name, pattern in analysis.patterns.items()
        ]
    return lines


def five(number: float, digits: int) -> str:
    """Format a number in five columns: fewer decimals if large, an exponent for the largest."""
    shown = (f"{number:5.{behind}f}" for behind in range(digits, -1, -1))
    return next((text for text in shown if len(text) == 5), f"{number:5.0e}")


def link_column(heads: Sequence[Head], label_cells: int) -> list[str]:
    """Return a title and the strongest link of each head, all of one width.

    Labels are cut to `label_cells`.
    """
    links = [head.link for head in heads]
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

    Unknown statistics are null. Shares of patterns, and their base rates, stand there if they were
    requested.
    """
    moved = analysis.importance
    rows = []
    for head in analysis.heads:
        row = {**dataclasses.asdict(head), **head.statistics}
        del row["statistics"]
        if not analysis.patterns:
            del row["patterns"]
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
        "thresholds": {
            "called": CALLED,
            "uniform": UNIFORM,
            "faint": FAINT,
            "above_base": ABOVE_BASE,
        },
        "heads": rows,
        **pattern_rates(analysis),
    }


def pattern_rates(analysis: Analysis) -> dict[str, object]:
    """Return base rate and number of queries of each pattern, for JSON; empty if not requested."""
    if not analysis.patterns:
        return {}
    rates = {name: shortened(dataclasses.asdict(each)) for name, each in analysis.patterns.items()}
    return {"patterns": rates}


def shortened(value: Any) -> Any:
    """Prepare a value for JSON: null for NaN, else the shortest decimals of the same float32."""
    if isinstance(value, dict):
        return {name: shortened(entry) for name, entry in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else float(str(np.float32(value)))
    return value


def heads_arrays(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """Return arrays [L, H], with statistics [L, H, 7] and, if requested, patterns [L, H, 4].

    A missing link has weight 0 and indices -1.
    """
    heads, moved = analysis.heads, analysis.importance
    shape = (len({head.layer for head in heads}), -1)
    nothing = Link(0.0, -1, -1, -1, "", "")
    links = [head.link or nothing for head in heads]
    columns: dict[str, NDArray[Any]] = {
        "kinds": np.array([head.kind for head in heads]),
        "shares": np.array([head.share for head in heads], np.float32),
        "spreads": np.array([head.spread for head in heads], np.float32),
        "link_weights": np.array([link.weight for link in links], np.float32),
        **{
            f"link_{name}": np.array([getattr(link, name) for link in links])
            for name in ("text", "query", "key", "query_label", "key_label")
        },
    }
    statistics = np.array(
        [[head.statistics[name] for name in STATISTICS] for head in heads], np.float32
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
        **pattern_arrays(analysis),
        "statistic_names": np.array(STATISTICS),
        "token_counts": np.array(analysis.token_counts),
        "model": np.array(to_json(dataclasses.asdict(analysis.model))),
    }


def pattern_arrays(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """Return shares float32 [L, H, 4] of patterns, names, base rates and queries [4].

    Empty if not requested.
    """
    if not analysis.patterns:
        return {}
    heads = analysis.heads
    shares = np.array([[head.patterns[name] for name in PATTERNS] for head in heads], np.float32)
    return {
        "pattern_shares": shares.reshape(len({head.layer for head in heads}), -1, len(PATTERNS)),
        "pattern_names": np.array(PATTERNS),
        "pattern_base_rates": np.array(
            [analysis.patterns[name].base_rate for name in PATTERNS], np.float32
        ),
        "pattern_queries": np.array([analysis.patterns[name].queries for name in PATTERNS]),
    }


EXAMPLES = (
    'headlight heads "for line in open(path): print(line)"',
    "headlight heads --file texts.txt --importance",
    "headlight heads --file texts.txt --patterns",
    "headlight heads --file texts.txt --by-layer",
    "headlight heads --file texts.txt --out heads.npz",
)


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
    made.add_argument(
        "--by-layer",
        action="store_true",
        help="as text, the number of heads of each kind in early, middle and deep layers",
    )
    made.add_argument(
        "--patterns",
        action="store_true",
        help=(
            "also heads for the same token, matching brackets, punctuation and rare tokens: "
            "requests all weights"
        ),
    )
    add_connection(made)


def run_heads(arguments: argparse.Namespace) -> None:
    """Run `headlight heads`."""
    texts = texts_of(arguments)
    with connect(arguments) as client:
        analysis = analyse(
            client,
            texts,
            ablate=arguments.importance,
            patterns=arguments.patterns,
            **reading(arguments),
        )
    write_result(
        arguments,
        what=f"{count_text(len(analysis.heads), 'head')} over {count_text(len(texts), 'text')}",
        text=lambda: (
            layers_text(analysis)
            if arguments.by_layer
            else heads_text(analysis, terminal_width(arguments.out))
        ),
        json=lambda: heads_json(analysis),
        arrays=lambda: heads_arrays(analysis),
    )
