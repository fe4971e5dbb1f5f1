"""Results of the command line as text or JSON, without service calls or printing."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from headlight.analysis.map_titles import map_title
from headlight.analysis.terminal_view import (
    attention_map,
    cells,
    fit,
    heads_table,
    strongest_links,
    visible,
)
from headlight.archive import chosen_heads
from headlight.description import ListedModel, ModelDescription, Quality
from headlight.printable import escaped
from headlight.results import Attention, TokenList

ESCAPES = re.compile(r"\x1b\[[\d;]*m")  # of colours
PIECE_CELLS = 24
LEAST_CELLS = 20  # of a column that continues below itself
WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}


def numbers(array: NDArray[Any]) -> list[Any]:
    """Return nested lists for JSON, in the shortest decimals of the same float32.

    For example, 0.1 instead of 0.10000000149011612.
    """
    if array.dtype.kind in "iu":
        return array.tolist()  # type: ignore[no-any-return]  # of an array that has an axis
    return [float(str(entry)) if array.ndim == 1 else numbers(entry) for entry in array]


def attention_text(
    attention: Attention, text: str, head: int | None, width: int, colour: bool
) -> str:
    """Draw the last layer of `attention`, one head or the mean of all, and its strongest links.

    If there are several layers, a table of all heads comes first.

    Raises:
        ValueError: `attention` lacks the head.
    """
    labels, layer = attention.tokens.labels(text), attention.layers[-1]
    weights = attention.mean(layer) if head is None else attention.head(layer, head)
    if head is None:
        title = f"Layer {layer}, mean of {attention.heads} heads"
    else:
        number = attention.head_number(head)
        title = map_title(layer, number, weights, attention.tokens.special).capitalize()
    parts = []
    if len(attention.layers) > 1:
        parts.append(
            f"All heads (shares of the weight, averaged over the queries)\n{heads_table(attention)}"
        )
    parts.append(f"{title}\n{attention_map(weights, labels, width=width, colour=colour)}")
    links = strongest_links(weights, labels, attention.tokens.special)
    if links:
        parts.append(f"Strongest link of each token (itself and special tokens left out)\n{links}")
    return "\n\n".join(parts)


def attention_json(attention: Attention, head: int | None) -> dict[str, object]:
    """Return the attention weights [layers, heads, n, n], tokens and model.

    Raises ValueError if `attention` lacks the head.
    """
    heads, weights = chosen_heads(attention, head)
    return {
        "model": dataclasses.asdict(attention.model),
        "layers": list(attention.layers),
        "heads": heads,
        "tokens": dataclasses.asdict(attention.tokens),
        "weights": numbers(weights),
    }


def token_table(tokens: TokenList, text: str) -> str:
    """Return a line for each token: number, id, piece, offsets, covered characters."""
    lines = [
        f"{'token':>5}  {'id':>7}  {fit('piece', PIECE_CELLS)}  {'start':>6}  {'end':>6}  text"
    ]
    for index, piece in enumerate(tokens.pieces):
        start, end = tokens.starts[index], tokens.ends[index]
        covered = visible(text[start:end])
        if tokens.special[index] or tokens.prompt[index]:
            covered = "(special)" if tokens.special[index] else "(prompt)"
        shown = fit(visible(piece), PIECE_CELLS)
        lines.append(f"{index:5}  {tokens.ids[index]:7}  {shown}  {start:6}  {end:6}  {covered}")
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return rows as lines of aligned columns.

    Args:
        rows: of the same number of columns.
        width: of the lines, beyond which the last column continues below itself; None: it does
            not.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)][:-1]
    lines = list[str]()
    for *firsts, last in rows:
        before = "".join(f"{fit(text, cell)}  " for text, cell in zip(firsts, widths, strict=True))
        room = None if width is None else max(width - cells(before), LEAST_CELLS)
        parts = [last] if room is None else textwrap.wrap(last, room, **WHOLE_WORDS) or [""]
        lines.append(f"{before}{parts[0]}".rstrip())
        lines += [" " * cells(before) + part for part in parts[1:]]
    return lines


def wrapped_lines(lines: Iterable[str], width: int | None) -> list[str]:
    """Return lines broken between words at `width` columns; None: as they are.

    Escape sequences of colours take no columns.
    """
    if width is None:
        return list(lines)
    broken = list[str]()
    for line in lines:
        if cells(ESCAPES.sub("", line)) <= width:
            broken.append(line)
            continue
        first, *words = line.split(" ")
        current = first
        for word in words:
            longer = f"{current} {word}"
            fits = cells(ESCAPES.sub("", longer)) <= width
            if not fits:
                broken.append(current)
            current = longer if fits else word
        broken.append(current)
    return broken


def info_text(model: ModelDescription, width: int | None = None) -> str:
    """Return a model, its limits and its parity, as aligned columns; `width` as of `aligned`."""
    limits = dataclasses.asdict(model.limits)
    # An imported model's is no longer than its longest text, and says nothing of its training.
    known = model.trained_length < model.max_length
    trained = f", trained on {model.trained_length}" if known else ""
    rows = [
        ("model", f"{model.name} {model.version}".strip()),
        ("bundle", model.bundle_sha256),
        ("running on", f"{model.provider}, {model.precision}"),
        (
            "could run on",
            ", ".join(f"{provider} {precision}" for provider, precision in model.variants),
        ),
        (
            "architecture",
            (
                f"{model.layers} layers of {model.heads} heads, {model.dim} wide, "
                f"{model.vocab_size} tokens known"
            ),
        ),
        ("positions", model.positions),
        ("length", f"{model.max_length} tokens at most{trained}"),
        ("pooling", model.pooling + (", normalised" if model.normalized else "")),
        ("vectors", vectors_line(model)),
        ("prompts", prompts_line(model)),
        (
            "special tokens",
            "parsed in texts" if model.special_tokens == "parse" else "read as text",
        ),
        (
            "texts too long",
            "refused" if model.truncation == "refuse" else f"cut at the {model.truncation}",
        ),
        ("task", model.task),
        *((("labels", ", ".join(model.labels)),) if model.labels else ()),
        ("accepts", ", ".join(model.accepts)),
        ("gives", ", ".join(model.outputs)),
        *(
            (name.replace("_", " "), f"{value:,}" if value else "not said")
            for name, value in limits.items()
        ),
    ]
    lines = aligned(rows, width)
    if model.parity:
        lines += [
            "",
            "Distance from PyTorch",
            f"{'output':<10} {'on':<14} {'largest':>9} {'allowed':>9}",
        ]
    lines += [
        (
            f"{row.output:<10} {f'{row.provider} {row.precision}':<14} {row.max_error:9.1e} "
            f"{row.tolerance:9.1e}"
        )
        for row in model.parity
    ]
    if model.quality:
        ordered = model.quality[0].kendall_tau is not None
        names = ("tau", "NDCG@10") if ordered else ("cosine", "least", "nearest", "of ten")
        heads = " ".join(f"{name:>9}" for name in names)
        lines += ["", "Precisions beside fp32", f"{'on':<14} {heads}"]
    return "\n".join(map(escaped, [*lines, *map(quality_line, model.quality)]))


def models_table(models: Sequence[ListedModel], width: int | None = None) -> str:
    """Return a line for each model of a service; `width` as of `aligned`."""
    rows = [("model", "version", "task", "running on", "default", "names")]
    for each in models:
        ref = each.model
        runs_on, names = f"{ref.provider}, {ref.precision}", ", ".join(each.names)
        default = "yes" if each.default else ""
        rows.append((ref.name, ref.version, each.task, runs_on, default, names))
    shown = [tuple(map(escaped, row)) for row in rows]
    return "\n".join(aligned(shown, width))


def quality_line(quality: Quality) -> str:
    """Return how near one precision is to fp32: the order of scores, or else the vectors."""
    where = f"{quality.provider} {quality.precision}"
    if quality.kendall_tau is not None and quality.ndcg_at_10 is not None:
        return f"{where:<14} {quality.kendall_tau:9.4f} {quality.ndcg_at_10:9.4f}"
    kept = (
        f"{100 * quality.nearest_kept:8.1f}% {100 * quality.ten_nearest_kept:8.1f}%"
        if quality.real_text
        else "not said"
    )
    return f"{where:<14} {quality.cosine_mean:9.6f} {quality.cosine_min:9.6f} {kept}"


def vectors_line(model: ModelDescription) -> str:
    """Return the widths and types of pooled vectors."""
    cuts, of_int8 = (
        ", ".join(map(str, each)) for each in (model.trained_dimensions, model.int8_dimensions)
    )
    types = [f"{name} of {of_int8}" if name == "int8" else name for name in model.pooled_types]
    parts = [
        f"{model.pooled_dim} wide",
        f"trained to be cut to {cuts}" if cuts else "",
        f"as {', '.join(types)}",
        f"compared by {model.similarity}" if model.similarity else "",
    ]
    return "; ".join(filter(None, parts))


def prompts_line(model: ModelDescription) -> str:
    """Return the model's prompts, with the default marked."""
    named = [
        f"{name} {text!r}{' (default)' if name == model.default_prompt else ''}"
        for name, text in model.prompts.items()
    ]
    return (", ".join(named) or "none") + ("" if model.include_prompt else "; not pooled")
