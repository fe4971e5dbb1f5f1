"""Choice of the layers that stay in fp32."""

from __future__ import annotations

import pytest

from headlight_export.precision.layer_search import Nearness, TargetMissed, search, table
from headlight_export.progress import silent

GROUPS = {name: [f"{name}-1", f"{name}-2"] for name in "abcdef"}
HARM = {"a": 0.01, "b": 0.1, "c": 0.002, "d": 0.05, "e": 0.03, "f": 0.0}
LEAST = 1 - sum(HARM.values())


def near(kept: frozenset[str]) -> Nearness:
    """Both numbers rise by the harm of what is kept; the share of one group alone is noise."""
    restored = sum(HARM[name] for name in GROUPS if set(GROUPS[name]) <= kept)
    noise = 0.0 if len(kept) != 2 or "b-1" in kept else 0.09
    return Nearness(min(1.0, LEAST + restored + noise), 0.9 + restored / 10)


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (LEAST, ""),
        (LEAST + 0.001, "b"),
        (LEAST + 0.1, "b"),
        (LEAST + 0.101, "bd"),
        (0.98, "bde"),
        (0.99, "bdea"),
        (0.9999, "bdeac"),
    ],
)
def test_the_fewest_groups_of_most_harm_are_kept(target: float, kept: str) -> None:
    found = search(GROUPS, target - 1e-9, near, silent)
    assert found.kept == tuple(kept)
    assert found.reached == pytest.approx(near(frozenset(n for g in kept for n in GROUPS[g])).share)
    assert found.all_int8 == pytest.approx(LEAST)
    lines = table("cpu/int8", found).splitlines()
    assert [line[2] for line in lines[1:] if line.startswith("*")] == sorted(kept)


def test_a_target_out_of_reach_names_the_reached_share() -> None:
    def poor(kept: frozenset[str]) -> Nearness:
        return Nearness(min(0.9, near(kept).share), near(kept).cosine)

    with pytest.raises(TargetMissed, match=r"80.8% .* in int8, and 90.0% with all layers in fp32"):
        search(
            GROUPS,
            0.95,
            lambda kept: Nearness(min(0.9, near(kept).share), near(kept).cosine),
            silent,
        )


def test_few_measurements_are_made() -> None:
    calls = list[frozenset[str]]()

    def counted(kept: frozenset[str]) -> Nearness:
        calls.append(kept)
        return near(kept)

    search(GROUPS, 0.98, counted, silent)
    assert len(calls) == len(set(calls)) <= 1 + len(GROUPS) + 1 + 3
