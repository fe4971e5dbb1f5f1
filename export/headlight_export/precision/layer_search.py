"""Search for the layers that int8 harms most, which then stay in fp32."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import onnx

from headlight_export.progress import Progress

Groups = dict[str, list[str]]  # "layer 0: q, k, v" -> names of nodes


def layer_products(graph: onnx.GraphProto) -> Groups:
    """Return the products with weights of each layer, in their order.

    Their node names say nothing of the layer. But a layer has one softmax: products with weights
    before it make queries, keys and values. After it come the output of attention, the first
    products of the feed-forward part (gate and up), and its second.

    Args:
        graph: `embed`, or `attend`, in fp32.
    """
    weights = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    sections: list[list[str]] = [[]]  # after each softmax
    for node in _ancestors(graph, "tokens"):
        if node.op_type == "Softmax":
            sections.append([])
        elif node.op_type == "MatMul" and node.input[1] in weights:
            sections[-1].append(node.name)
    after = len(sections[-1])  # products of a layer after its softmax
    before = len(sections[1]) - after or len(sections[0])  # one layer: all of them
    groups: Groups = {}
    if extra := sections[0][: len(sections[0]) - before]:
        groups["embeddings"] = extra
    for layer in range(len(sections) - 1):
        earlier, later = sections[layer], sections[layer + 1][:after]
        groups[f"layer {layer}: q, k, v"] = earlier[len(earlier) - before :]
        groups[f"layer {layer}: attention output"] = later[:1]
        groups[f"layer {layer}: feed-forward, first"] = later[1:-1]
        groups[f"layer {layer}: feed-forward, second"] = later[-1:]
    return groups


def _ancestors(graph: onnx.GraphProto, output: str) -> list[onnx.NodeProto]:
    """Return the nodes that an output depends on, in their order."""
    names, nodes = {output}, []
    for node in reversed(list(graph.node)):
        if not names.isdisjoint(node.output):
            nodes.append(node)
            names.update(node.input)
    return nodes[::-1]


Measure = Callable[[frozenset[str]], float]  # of the graphs with these products in fp32


class TargetMissed(ValueError):
    """No choice of layers keeps as many neighbours as requested."""


@dataclasses.dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes:
        target: requested share of the ten nearest neighbours of fp32.
        all_int8: share with all products in int8.
        reached: share with the products of `kept` in fp32.
        alone: by group, the mean cosine with fp32 if only this group is in fp32; empty if all in
            int8 is enough.
        kept: groups in fp32, the most harmful first.
    """

    target: float
    all_int8: float
    reached: float
    alone: dict[str, float]
    kept: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry for parity.json."""
        return dataclasses.asdict(self)


def search(
    groups: Groups,
    target: float,
    share: Measure,
    cosine: Measure,
    progress: Progress,
    provider: str = "cpu",
) -> Search:
    """Rank the groups by the cosine that each restores alone, and keep as few as needed.

    One group changes the share of neighbours by little more than noise; cosines are exact.
    Bisection takes the share to grow with the number of groups kept, so it may keep some too many.

    Args:
        groups: names of products, by group.
        target: share of the ten nearest neighbours.
        share: measures the share of neighbours kept, with some products in fp32.
        cosine: measures the mean cosine with fp32; it may use fewer texts.
        progress: called with each step.
        provider: whose graphs these are, for messages.

    Raises:
        TargetMissed: even all groups in fp32 do not reach it.
    """

    def near(measure: Measure, kept: tuple[str, ...]) -> float:
        return measure(frozenset(name for group in kept for name in groups[group]))

    about = f"searching layers of int8 on {provider} to keep {target:.1%} of neighbours"
    progress(f"{about}: all in int8")
    all_int8 = near(share, ())
    if all_int8 >= target:
        return Search(target, all_int8, all_int8, {}, ())
    progress(f"{about}: all in fp32")
    best = near(share, tuple(groups))
    if best < target:
        raise TargetMissed(
            f"--keep-nearest {target:g} is out of reach on {provider}: {all_int8:.1%} of the ten "
            f"nearest texts are kept in int8, and {best:.1%} with all layers in fp32; "
            f"give at most {math.floor(best * 1000) / 1000:g}, or leave --precision int8 out"
        )
    alone = dict[str, float]()
    for number, group in enumerate(groups, 1):
        progress(f"{about}: {group} ({number} of {len(groups)})")
        alone[group] = near(cosine, (group,))
    ranked = tuple(sorted(groups, key=lambda group: -alone[group]))
    too_few, enough, reached = 0, len(ranked), best
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        progress(f"{about}: the worst {middle} in fp32")
        scores = near(share, ranked[:middle])
        if scores >= target:
            enough, reached = middle, scores
        else:
            too_few = middle
    return Search(target, all_int8, reached, alone, ranked[:enough])


def table(name: str, search: Search) -> str:
    """Return a variant's search as text, a line per group of products."""
    before = f"{name}: {search.all_int8:.1%} of ten nearest kept with all layers in int8"
    if not search.kept:
        return f"{before}, so all stay in int8 (--keep-nearest {search.target:g})"
    count = f"{len(search.kept)} of {len(search.alone)} groups"
    lines = [
        f"{before}, {search.reached:.1%} with {count} in fp32, marked *",
        f"{'':<36}cosine with this group alone in fp32",
    ]
    for group, cosine in search.alone.items():
        mark = "*" if group in search.kept else " "
        lines.append(f"{mark} {group:<34}{cosine:.6f}")
    return "\n".join(lines)
