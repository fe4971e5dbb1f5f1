"""Choice of the layers that stay in fp32."""

from __future__ import annotations

import pytest

from headlight_export.precision.layer_search import TargetMissed, search, table
from headlight_export.progress import silent

GROUPS = {name: [f"{name}-1", f"{name}-2"] for name in "abcdef"}
HARM = {"a": 0.01, "b": 0.1, "c": 0.002, "d": 0.05, "e": 0.03, "f": 0.0}
LEAST = 1 - sum(HARM.values())


def share(kept: frozenset[str]) -> float:
    return LEAST + sum(HARM[name] for name in GROUPS if set(GROUPS[name]) <= kept)


def cosine(kept: frozenset[str]) -> float:
    return 0.9 + share(kept) / 10


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
    found = search(GROUPS, target - 1e-9, share, cosine, silent)
    assert found.kept == tuple(kept)
    assert found.reached == pytest.approx(share(frozenset(n for g in kept for n in GROUPS[g])))
    assert found.all_int8 == pytest.approx(LEAST)
    lines = table("cpu/int8", found).splitlines()
    assert [line[2] for line in lines if line.startswith("*")] == sorted(kept)
    if not kept:
        assert lines == [
            "cpu/int8: 80.8% of ten nearest kept with all layers in int8, so all stay in int8 "
            "(--keep-nearest 0.808)"
        ]


def test_a_target_out_of_reach_names_the_reached_share() -> None:
    with pytest.raises(TargetMissed, match=r"80.8% .* in int8, and 90.0% with all layers in fp32"):
        search(GROUPS, 0.95, lambda kept: min(0.9, share(kept)), cosine, silent)


def test_few_measurements_are_made() -> None:
    """A target out of reach is found before the layers are ranked."""
    shares, cosines = list[frozenset[str]](), list[frozenset[str]]()

    def counted_share(kept: frozenset[str]) -> float:
        shares.append(kept)
        return share(kept)

    def counted_cosine(kept: frozenset[str]) -> float:
        cosines.append(kept)
        return cosine(kept)

    search(GROUPS, 0.98, counted_share, counted_cosine, silent)
    assert len(shares) == len(set(shares)) <= 2 + 3
    assert len(cosines) == len(GROUPS)
    with pytest.raises(TargetMissed):
        search(GROUPS, 1.1, counted_share, counted_cosine, silent)
    assert len(cosines) == len(GROUPS)
