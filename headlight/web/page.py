"""Attention as one self-contained HTML file, which loads nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import string
from collections.abc import Mapping

import numpy as np

from headlight.analysis.terminal_view import visible
from headlight.results import Attention

MAX_BYTES = 64 * 2**20  # of the page: browsers open it within seconds
UNIT = 65535  # the integer for a weight of 1; web/data.js reads it back
MAX_TEXT = 400  # characters of the text in the heading; all tokens are on the page
JOINERS = "\u200c\u200d"
SCRIPTS = ("data", "colour", "state", "head", "model", "matrix", "detail", "start")


class PageTooLarge(ValueError):
    """The page would be too large for a browser; the message has a size that fits."""


def attention_page(
    attention: Attention,
    text: str | tuple[str, str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> str:
    """Return a page with head view (token lines), model view (all maps) and matrix view (one map).

    It holds its data, style and script, and its content policy forbids loading anything. Weights
    are 16-bit integers, off by at most 1/131070 (7.7e-6), and take 2.7 bytes each: 3 layers of 6
    heads over 200 tokens take 2 MB.

    Args:
        attention: float32 [L, H, n, n], each weight from 0 to 1.
        text: the text or the pair, whose own characters then label the tokens; None: the
            vocabulary's pieces.
        layer: the layer open at first: a layer of `attention`, or negative, counted from its last;
            None: the last.
        head: the head open at first, or negative from the last; None: head 0.

    Returns:
        HTML, to be written as UTF-8.

    Raises:
        PageTooLarge: it would have more than `MAX_BYTES`.
        ValueError: `attention` lacks the layer or the head; there are no weights; a weight is not
            from 0 to 1.
    """
    start = {
        "layer": attention.layer_number(-1 if layer is None else layer),
        "head": attention.head_number(0 if head is None else head),
    }
    check_size(attention)
    style = asset("page.css")
    scripts = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{scripts}}})();\n'  # defines no global names
    model = attention.model
    return string.Template(asset("page.html")).substitute(
        {
            "name": plain(model.name),
            "version": plain(model.version),
            "provider": plain(model.provider),
            "precision": plain(model.precision),
            "bundle": plain(model.bundle_sha256),
            "text": plain(heading(text)),
            "extent": plain(
                f"{len(attention.tokens)} tokens; layer{'s' * (len(attention.layers) > 1)}"
                f" {', '.join(map(str, attention.layers))}; {attention.heads} heads each"
            ),
            "style": style,
            "style_hash": digest(style),
            "script": script,
            "script_hash": digest(script),
            "data": block({**described(attention, text), "start": start}),
            "weights": packed(attention),
        },
    )


def check_size(attention: Attention) -> None:
    """Raise an error for attention that cannot be shown, before the page is built."""
    layers, heads, count = attention.weights.shape[:3]
    if not attention.weights.size:
        raise ValueError(
            "attention.weights: is empty; give attention of at least one layer and head"
        )
    each = heads * count * count * 2 * 4 / 3  # two bytes a weight, written as base64
    if layers * each <= MAX_BYTES:
        return
    fits = int(MAX_BYTES // each)
    size = f"the page would have {layers * each / 2**20:.0f} MiB, more than {MAX_BYTES // 2**20}"
    if fits:
        raise PageTooLarge(f"{size}: choose a layer; {fits} of these {layers} layers would fit")
    longest = int((MAX_BYTES / (each / count**2)) ** 0.5)
    raise PageTooLarge(
        f"{size}: shorten the text; one layer of up to {longest} tokens would fit, "
        f"these are {count}"
    )


def packed(attention: Attention) -> str:
    """Return the weights as base64 of little-endian uint16, 65535 for 1.

    Layer by layer, head by head, row by row.
    """
    weights = attention.weights
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.max() <= 1 + 1e-4):
        raise ValueError(
            "attention.weights: has entries that are not from 0 to 1; "
            "weights after the softmax are shown"
        )
    return base64.b64encode(np.rint(weights.clip(0, 1) * UNIT).astype("<u2").tobytes()).decode(
        "ascii"
    )


def described(attention: Attention, text: str | tuple[str, str] | None) -> dict[str, object]:
    """Return the data that the script needs besides the weights."""
    tokens = attention.tokens
    return {
        "layers": list(attention.layers),
        "heads": attention.heads,
        "labels": [shown(label) for label in tokens.labels(text)],
        "pieces": [shown(piece) for piece in tokens.pieces],
        "ids": list(tokens.ids),
        "special": [int(special) for special in tokens.special],
        "segments": list(tokens.segments),
    }


def shown(label: str) -> str:
    """Return a label as for a terminal, but with the joiners of Persian words and emoji."""
    return "".join(char if char in JOINERS else visible(char) for char in label)


def heading(text: str | tuple[str, str] | None) -> str:
    """Return the text on one line, shortened to its beginning."""
    whole = " · ".join((text,) if isinstance(text, str) else text or ())
    line = " ".join(whole[: 4 * MAX_TEXT].split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def plain(text: str) -> str:
    """Escape text for HTML."""
    return html.escape("".join(char if char.isprintable() else "�" for char in text))


def block(value: Mapping[str, object]) -> str:
    """Return JSON that cannot end its HTML element: a token may be `</script>`."""
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encoded.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def asset(name: str) -> str:
    """Return a file of `headlight/web`."""
    return importlib.resources.files("headlight").joinpath("web", name).read_text(encoding="utf-8")


def digest(content: str) -> str:
    """Return the hash of an element for the page's policy: base64 of the SHA-256 of its content."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
