"""Search for the layers that int8 harms most, which then stay in fp32."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from headlight_export.precision.layer_products import Groups
from headlight_export.progress import Progress


class Nearness(NamedTuple):
    """Nearness to fp32: the share of ten nearest texts that stay, and the mean cosine."""

    share: float
    cosine: float


class TargetMissed(ValueError):
    """No choice of layers keeps as many neighbours as requested."""


@dataclasses.dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes:
        target: requested share of the ten nearest neighbours of fp32.
        all_int8: share with all products in int8.
        reached: share with the products of `kept` in fp32.
        alone: by group, the nearness with only this group in fp32; empty if all in int8 is enough.
        kept: groups in fp32, the most harmful first.
    """

    target: float
    all_int8: float
    reached: float
    alone: dict[str, Nearness]
    kept: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry for parity.json."""
        alone = {group: found._asdict() for group, found in self.alone.items()}
        return dataclasses.asdict(self) | {"alone": alone}


def search(
    groups: Groups,
    target: float,
    measure: Callable[[frozenset[str]], Nearness],
    progress: Progress,
    provider: str = "cpu",
) -> Search:
    """Rank the groups by the cosine that each restores alone, and keep as few as needed.

    One group changes the share of neighbours by little more than noise; cosines are exact.
    Bisection takes the share to grow with the number of groups kept, so it may keep some too many.

    Args:
        groups: names of products, by group.
        target: share of the ten nearest neighbours.
        measure: returns the nearness with these products in fp32, and the others in int8.
        progress: called with each step.
        provider: whose graphs these are, for messages.

    Raises:
        TargetMissed: even all groups in fp32 do not reach it.
    """

    def near(kept: tuple[str, ...]) -> Nearness:
        return measure(frozenset(name for group in kept for name in groups[group]))

    about = f"searching layers of int8 on {provider} to keep {target:.1%} of neighbours"
    progress(f"{about}: all in int8")
    all_int8 = near(()).share
    if all_int8 >= target:
        return Search(target, all_int8, all_int8, {}, ())
    alone = dict[str, Nearness]()
    for group in groups:
        progress(f"{about}: {group}")
        alone[group] = near((group,))
    ranked = tuple(sorted(groups, key=lambda group: -alone[group].cosine))
    shares = {1: alone[ranked[0]].share, len(ranked): near(ranked).share}
    if (best := shares[len(ranked)]) < target:
        raise TargetMissed(
            f"--keep-nearest {target:g} is out of reach on {provider}: {all_int8:.1%} of the ten "
            f"nearest texts are kept in int8, and {best:.1%} with all layers in fp32; "
            f"give at most {math.floor(best * 1000) / 1000:g}, or leave --precision int8 out"
        )
    too_few, enough = (0, 1) if shares[1] >= target else (1, len(ranked))
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        progress(f"{about}: the worst {middle}")
        shares[middle] = near(ranked[:middle]).share
        too_few, enough = (too_few, middle) if shares[middle] >= target else (middle, enough)
    return Search(target, all_int8, shares[enough], alone, ranked[:enough])


def table(name: str, found: Search) -> str:
    """Return a variant's search as text, a line per group of products."""
    shares = f"{found.all_int8:.1%} of ten nearest kept with all layers in int8"
    lines = [f"{name}: {shares}, {found.reached:.1%} with those marked * in fp32"]
    for group, near in found.alone.items():
        mark = "*" if group in found.kept else " "
        alone = f"{near.share:>7.1%}, cosine {near.cosine:.6f}, with this alone in fp32"
        lines.append(f"{mark} {group:<34}{alone}")
    return "\n".join(lines)
