"""Attention as one self-contained HTML file, which loads nothing."""

from __future__ import annotations

import base64
import html
import json
import string
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.analysis.terminal_view import LONGEST_LABEL, visible
from headlight.results import Attention
from headlight.web.assets import VIEW_SCRIPTS, asset, digest, script_of
from headlight.web.packing import FINE, PackedWeights, pack

MAX_BYTES = 2_000_000  # of the page: it opens at once, and fits into a notebook or a message
FAR = 8  # tokens; links as long as that, or longer, have the same factor
MAX_TEXT = 400  # characters of the text in the heading; all tokens are on the page
BELOW = (
    "weights below {floor:.4f} are left out of this page, {share:.0%} of the sum of all, so that it"
    " stays small; its rows sum to less than 1, and a page of one layer (--layer) leaves out less"
)
JOINERS = "\u200c\u200d"


def attention_page(
    attention: Attention,
    text: str | tuple[str, str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> str:
    """Return a page with head view (token lines), model view (all maps) and matrix view (one map).

    It holds its data, style and script, and forbids itself to load anything. Weights are rounded to
    1/65535. If the page would have more than `MAX_BYTES` bytes, small weights are left out and the
    others rounded to 1/5000; the page states the floor and the share of all weight that is missing.

    It opens at the head with the strongest link, in all layers and heads held: the greatest product
    of a weight and `distance_factor`, between two tokens with letters or digits, or, if there are
    not two of them, between two that are not special; the first if there are several.

    Args:
        attention: float32 [L, H, n, n], each weight from 0 to 1.
        text: the text, or both of a pair, for labels that read as it does.
        layer: the layer open at first: one of those held, or negative from the end of them; None:
            that of the strongest link, or the last if there is a head.
        head: the head open at first, or negative from the last; None: that of the strongest link
            of the layer.

    Returns:
        HTML, to be written as UTF-8.

    Raises:
        ValueError: the layer or the head is not held; there are no weights; a weight is not from 0
            to 1.
    """
    check_weights(attention)
    start = opening(attention, text, layer, head)
    heads = attention.weights.shape[0] * attention.heads
    empty = PackedWeights(b"", (MAX_BYTES,) * heads, FINE, 0.0, 0.0)
    others = len(page_of(attention, text, start, empty).encode()) + len(BELOW)
    # Labels of very long texts may take more than half; weights have half in any case.
    room = max(MAX_BYTES - others, MAX_BYTES // 2)
    return page_of(attention, text, start, pack(attention.weights, room // 4 * 3))


def page_of(
    attention: Attention,
    text: str | tuple[str, str] | None,
    start: Mapping[str, object],
    weights: PackedWeights,
) -> str:
    """Return the page with these weights."""
    style = asset("page.css")
    script = script_of(*VIEW_SCRIPTS, "packed.js")
    model = attention.model
    packed = {
        "steps": weights.steps,
        "floor": weights.floor,
        "leftOut": round(weights.left_out, 4),
        "sizes": weights.sizes,
    }
    half = f"{0.5 / weights.steps:.6f}".rstrip("0")
    sums = "each row of a head sums to 1"
    if weights.floor:
        sums = BELOW.format(floor=weights.floor, share=weights.left_out)
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
            "views": asset("views.html"),
            "sums": sums,
            "rounding": f"1/{weights.steps} (off by at most {half})",
            "style": style,
            "style_hash": digest(style),
            "script": script,
            "script_hash": digest(script),
            "data": block({**described(attention, text), **packed, "start": start}),
            "weights": base64.b64encode(weights.data).decode("ascii"),
        },
    )


def check_weights(attention: Attention) -> None:
    """Raise an error for attention that cannot be shown."""
    weights = attention.weights
    if not weights.size:
        raise ValueError(
            "attention.weights: is empty; give attention of at least one layer and head"
        )
    if not (weights.min() >= 0 and weights.max() <= 1 + 1e-4):  # NaN is neither
        raise ValueError(
            "attention.weights: has entries that are not from 0 to 1; "
            "weights after the softmax are shown"
        )


def opening(
    attention: Attention,
    text: str | tuple[str, str] | None,
    layer: int | None,
    head: int | None,
) -> dict[str, object]:
    """Return layer and head that are open at first, and the link for which they were chosen."""
    if head is not None:
        number = attention.layer_number(-1 if layer is None else layer)
        return {"layer": number, "head": attention.head_number(head)}
    layers = attention.layers if layer is None else (attention.layer_number(layer),)
    best: dict[str, object] = {"layer": layers[0], "head": 0}
    tokens = linked_tokens(attention, text)
    if len(tokens) < 2:
        return best
    factor = distance_factor(np.abs(tokens[:, None] - tokens))
    greatest = -1.0
    for number in layers:
        maps = attention.layer(number)[:, tokens][:, :, tokens] * factor
        head_index, query, key = np.unravel_index(maps.argmax(), maps.shape)
        if maps[head_index, query, key] > greatest:
            greatest = float(maps[head_index, query, key])
            places = int(tokens[query]), int(tokens[key])
            weight = round(float(attention.layer(number)[head_index][places]), 6)
            best = {"layer": number, "head": int(head_index), "link": (*places, weight)}
    return best


def linked_tokens(
    attention: Attention, text: str | tuple[str, str] | None
) -> NDArray[np.signedinteger[Any]]:
    """Return the tokens with letters or digits; all that are not special if there are not two."""
    plain_tokens = ~np.array(attention.tokens.special)
    labels = attention.tokens.labels(text)
    words = plain_tokens & [any(char.isalnum() for char in label) for label in labels]
    return np.flatnonzero(words if words.sum() > 1 else plain_tokens)


def distance_factor(distance: NDArray[np.signedinteger[Any]]) -> NDArray[np.float64]:
    """Return ln(1 + distance) of the distance in tokens, from FAR on that of FAR.

    Each model has heads that give nearly all weight to the previous or the next token. A weaker
    link between distant tokens says more about the text. The same in headlight/web/live.
    """
    factor: NDArray[np.float64] = np.log1p(np.minimum(distance, FAR))
    return factor


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
    cut = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
    return "".join(char if char in JOINERS else visible(char) for char in cut)


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
