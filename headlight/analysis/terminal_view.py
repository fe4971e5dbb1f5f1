"""Attention as text for a terminal: one map, its strongest links, a table of all heads."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from headlight.analysis.head_kinds import spread_of
from headlight.printable import shortened
from headlight.results import Attention, Floats

SHADES = " ░▒▓█"
EIGHTHS = " ▏▎▍▌▋▊▉█"
# Dark blue over green to light yellow, from the 256 colours. Brightness rises all the way, so the
# scale can be read without colour vision.
COLOURS = (16, 17, 18, 24, 30, 36, 42, 78, 114, 150, 186, 228)
RESET = "\x1b[0m"
LABEL_CELLS = 14
LONGEST_LABEL = 200  # characters: an unknown word is one token, and may be a whole page of base64
MAX_TOKENS = 40
STAND_INS = str.maketrans({"\n": "↵", "\t": "⇥", " ": "␣"})


def visible(label: str) -> str:
    """Return a label on one line: white space shown, control characters replaced, shortened."""
    shown = shortened(label, LONGEST_LABEL).translate(STAND_INS)
    return "".join(char if char.isprintable() else "�" for char in shown)


def cells(text: str) -> int:
    """Return a text's columns in a terminal: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def fit(text: str, width: int) -> str:
    """Return the text in exactly `width` cells: cut with an ellipsis, or filled with spaces."""
    fitting = list(
        itertools.takewhile(lambda taken: taken <= width, itertools.accumulate(map(cells, text)))
    )
    if len(fitting) < len(text):
        text = f"{text[: sum(taken < width for taken in fitting)]}…"  # room for the ellipsis
    return text + " " * (width - cells(text))


def attention_map(
    weights: Floats, labels: Sequence[str], *, width: int = 80, colour: bool = False
) -> str:
    """Draw one attention matrix as shaded blocks: a larger weight is more solid (or brighter).

    Args:
        weights: float32 [n, n]; rows are queries, columns keys.
        labels: labels of the n tokens.
        width: columns of the terminal. Tokens beyond it are left out, with a note.
        colour: whether to use 256 colours rather than shaded blocks.

    Returns:
        Lines of at most `width` columns (40 at least), without a newline at the end.
    """
    count, names = len(labels), [visible(label) for label in labels]
    index_width, label_width = len(str(count - 1)), min(LABEL_CELLS, max(map(cells, names)))
    margin = index_width + label_width + 3
    room = max(width, 40) - margin - 1
    cell = 2 if 2 * count <= room else 1
    shown = min(count, room // cell, MAX_TOKENS)
    top = float(weights[:shown, :shown].max())
    left_out = [f"the first {shown} of {count} tokens"] if shown < count else []
    blocks = (shade_row(row[:shown], top, cell, colour) for row in weights[:shown])
    rows = (
        f"{at:>{index_width}} {fit(names[at], label_width)} │{row}│"
        for at, row in enumerate(blocks)
    )
    headers = (" " * margin + header for header in column_numbers(shown, cell))
    return "\n".join([*headers, *rows, *legend(top, colour, max(width, 40)), *left_out])


def column_numbers(count: int, cell: int) -> Iterator[str]:
    """Yield the column numbers: a line of tens if there are any, a line of units."""
    if count > 10:
        yield "".join(
            (str(at // 10) if at % 10 == 0 and at else " ").ljust(cell) for at in range(count)
        ).rstrip()
    yield "".join(str(at % 10).ljust(cell) for at in range(count)).rstrip()


def shade_row(row: Floats, top: float, cell: int, colour: bool) -> str:
    """Return the blocks of one row, on a linear scale from 0 to `top`."""
    steps = len(COLOURS if colour else SHADES)
    levels = np.minimum(row / max(top, 1e-30) * steps, steps - 1).astype(int)
    if not colour:
        return "".join(SHADES[level] * cell for level in levels)
    return "".join(f"\x1b[48;5;{COLOURS[level]}m{' ' * cell}" for level in levels) + RESET


def bar(number: float, top: float, width: int) -> str:
    """Return a bar of a number, in eighths of a cell; `top` fills `width` cells."""
    eighths = round(8 * width * number / max(top, 1e-30))
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def legend(top: float, colour: bool, width: int) -> list[str]:
    """Return the legend of the blocks, in lines of at most `width` columns."""
    if colour:
        ramp = "".join(f"\x1b[48;5;{number}m " for number in COLOURS)
        steps, columns = [f"0 {ramp}{RESET} {top:.2f}"], len(COLOURS) + len("0   0.00")
    else:
        steps = [f"{shade} ≥{top * at / len(SHADES):.2f}" for at, shade in enumerate(SHADES) if at]
        columns = len(" ".join(steps))
    title = "rows: queries, columns: keys;"
    together = len(title) + 1 + columns <= width
    shown = " ".join(steps)
    return [f"{title} {shown}"] if together else [title, shown]


def strongest_links(
    weights: Floats, labels: Sequence[str], special: Sequence[bool], *, most: int = MAX_TOKENS
) -> str:
    """Return a line for each token with the key that it attends to most; "" if there is none.

    The token itself and special tokens are left out.

    Args:
        weights: float32 [n, n]; rows are queries, columns keys.
        labels: labels of the n tokens.
        special: whether each token is special.
        most: maximum number of lines; they are those of the first tokens.
    """
    ordinary = np.flatnonzero(~np.asarray(special))
    if len(ordinary) < 2:
        return ""
    among = weights[np.ix_(ordinary, ordinary)].copy()
    np.fill_diagonal(among, -1)
    names = [visible(label) for label in labels]
    label_width = min(LABEL_CELLS, max(map(cells, names)))
    lines = [
        (
            f"{query:>4} {fit(names[query], label_width)} → {key:>4} "
            f"{fit(names[key], label_width)} {weights[query, key]:.3f}"
        )
        for query, key in zip(ordinary, ordinary[among.argmax(axis=1)], strict=True)
    ]
    left_out = [f"and {len(lines) - most} tokens more"] if len(lines) > most else []
    return "\n".join([*lines[:most], *left_out])


def heads_table(attention: Attention) -> str:
    """Return a table of the weight of each head, averaged over the queries.

    Spread is the entropy of a row divided by that of a uniform row: 1 for uniform attention, 0 for
    attention to one token. The other columns are shares of the weight: on the token itself, its
    neighbours, and all special tokens.
    """
    count, special = len(attention.tokens), np.asarray(attention.tokens.special)
    lines = ["layer  head  spread    self  before   after  special"]
    for place, layer in enumerate(attention.layers):
        for head, weights in enumerate(attention.weights[place].astype(np.float64)):
            shares = [np.trace(weights, offset) / count for offset in (0, -1, 1)] + [
                weights[:, special].sum() / count
            ]
            columns = "  ".join(f"{share:6.2f}" for share in shares)
            lines.append(f"{layer:5}  {head:4}  {spread_of(weights):6.2f}  {columns}")
    return "\n".join(lines)
