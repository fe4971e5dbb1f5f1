"""Hypothesis strategy for valid attention specs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headlight.spec import AttentionSpec, Run, Span


@st.composite
def specs(
    draw: st.DrawFn, layers: int, heads: int, length: int, characters: int, pooling: str
) -> AttentionSpec:
    """Return a spec that fits a model, and a text of so many tokens and characters.

    0 characters: an input of ids.
    """
    values: dict[str, Any] = {"drop_special": draw(st.booleans()) and characters > 0}
    kind = draw(st.sampled_from(["maps", "maps", "reduced", "pairs", "scores", "statistics"]))
    if kind == "pairs":
        pair = st.tuples(st.integers(0, layers - 1), st.integers(0, heads - 1))
        values["pairs"] = tuple(draw(st.lists(pair, min_size=1, max_size=4, unique=True)))
    else:
        values["layers"] = draw(some_of(layers))
        values["heads"] = draw(some_of(heads))
    if kind == "reduced":
        over_layers = draw(st.sampled_from([(), ("layer_mean",), ("rollout",)]))
        if "rollout" in over_layers:
            values["layers"] = ()
        over_heads = draw(st.sampled_from([(), ("head_mean",), ("head_max",)]))
        one = pooling in ("cls", "last")  # token is the vector, and may be special
        weighted = pooling != "max" and not (one and values["drop_special"])  # refused otherwise
        rows = [(), *[("pooling_weights",)] * weighted]
        if one and not values["drop_special"]:
            rows.append(("pooled_row",))
        values["reduce"] = (*over_heads, *over_layers, *draw(st.sampled_from(rows)))
    if kind == "scores":
        values |= {"scores": True, "drop_special": False}
    if not any(name.startswith("pool") for name in values.get("reduce", ())):
        values["queries"] = draw(tokens(length, characters))
    if kind == "statistics":
        return AttentionSpec(**values, reduce=("statistics",))
    values["keys"] = draw(tokens(length, characters))
    if kind != "scores":
        values["unit"] = (
            draw(st.sampled_from(["token", "token", "word"])) if characters else "token"
        )
    values["top_k"] = draw(st.none() | st.integers(1, length + 2))
    values["dtype"] = draw(st.sampled_from(["float32", "float16"] + ["uint8"] * (kind != "scores")))
    return AttentionSpec(**values)


def some_of(count: int) -> st.SearchStrategy[tuple[int | Run, ...]]:
    """Return layers or heads, named in every way."""
    singles = st.lists(st.integers(0, count - 1), unique=True, max_size=count)
    negative = singles.map(lambda found: [index - count for index in found])
    begins = st.integers(0, count - 1)
    runs = begins.flatmap(
        lambda begin: st.tuples(st.just(begin), st.none() | st.integers(begin + 1, count))
    )
    return singles.map(tuple) | negative.map(tuple) | runs.map(lambda run: (Run(*run),))


def tokens(length: int, characters: int) -> st.SearchStrategy[Any]:
    """Return a selector that always includes ordinary tokens, so that no request is empty."""
    indices = st.lists(st.integers(1, length - 2), min_size=1, max_size=length, unique=True).map(
        tuple
    )
    named = st.just("all") | indices
    return named | st.just(Span(0, characters)) if characters else named
