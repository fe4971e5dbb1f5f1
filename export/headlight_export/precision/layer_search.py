"""Search for the layers that int8 harms most, which then stay in fp32."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from headlight_export.precision.layer_products import Groups
from headlight_export.progress import Progress


class TargetMissed(ValueError):
    """No choice of layers keeps as many neighbours as requested."""


@dataclasses.dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes:
        target: requested share of the ten nearest neighbours of fp32.
        all_int8: share with all products in int8.
        reached: share with the products of `kept` in fp32.
        alone: by group, the share with only this group in fp32; empty if all in int8 is enough.
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
    measure: Callable[[frozenset[str]], float],
    progress: Progress,
    provider: str = "cpu",
) -> Search:
    """Rank the groups by the share that each restores alone, and keep as few as needed.

    Bisection takes the share to grow with the number of groups kept. So it may keep one too many.

    Args:
        groups: names of products, by group.
        target: share of the ten nearest neighbours.
        measure: returns the share with these products in fp32, and the others in int8.
        progress: called with each step.
        provider: whose graphs these are, for messages.

    Raises:
        TargetMissed: even all groups in fp32 do not reach it.
    """

    def share(kept: tuple[str, ...]) -> float:
        return measure(frozenset(name for group in kept for name in groups[group]))

    about = f"searching layers of int8 on {provider} to keep {target:.1%} of neighbours"
    progress(f"{about}: all in int8")
    all_int8 = share(())
    if all_int8 >= target:
        return Search(target, all_int8, all_int8, {}, ())
    alone = dict[str, float]()
    for group in groups:
        progress(f"{about}: {group}")
        alone[group] = share((group,))
    ranked = tuple(sorted(groups, key=lambda group: -alone[group]))
    shares = {0: all_int8, 1: alone[ranked[0]], len(ranked): share(ranked)}
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
        shares[middle] = share(ranked[:middle])
        too_few, enough = (too_few, middle) if shares[middle] >= target else (middle, enough)
    return Search(target, all_int8, shares[enough], alone, ranked[:enough])


def table(name: str, found: Search) -> str:
    """Return a variant's search as text, a line per group of products."""
    shares = f"{found.all_int8:.1%} of ten nearest kept with all layers in int8"
    lines = [f"{name}: {shares}, {found.reached:.1%} with those marked * in fp32"]
    for group, share in found.alone.items():
        mark = "*" if group in found.kept else " "
        lines.append(f"{mark} {group:<34}{share:>7.1%} with this alone in fp32")
    return "\n".join(lines)
