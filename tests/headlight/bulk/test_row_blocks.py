"""Blocks of a list: split around inputs that are refused, overflow, or fill the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from headlight.bulk.row_blocks import BlockSize, JobRetries, blocks_of, encode_blocks
from headlight.errors import DeviceFull, InvalidInput, NotFinite, Unavailable
from headlight.interface.arguments import Input

COUNT = 40
Refuse = Callable[[Sequence[Input]], None]


def run(
    refuse: Refuse, *, skip: bool = True, block: int = 16
) -> tuple[list[Input], dict[int, str]]:
    """Encode texts with an encoder that returns them; return the results and the problems."""
    problems: dict[int, str] = {3: "known"}
    found: list[Input] = []

    def encode(some: Sequence[Input]) -> Sequence[Input]:
        refuse(some)
        return some

    def take(places: range, some: Sequence[Input] | None) -> None:
        found.extend(some or ())

    encode_blocks(
        [f"text {number}" for number in range(COUNT)],
        problems,
        encode,
        take,
        retries=JobRetries(0.0, None, print),
        stop=lambda: None,
        skip=skip,
        block=BlockSize(block),
    )
    return found, problems


def without(*places: int) -> list[str]:
    return [f"text {number}" for number in range(COUNT) if number not in places]


def refusing(bad: str) -> Refuse:
    def refuse(some: Sequence[Input]) -> None:
        if bad in some:
            raise InvalidInput(f"inputs[{list(some).index(bad)}].text", "is too long")

    return refuse


def overflowing(bad: str) -> Refuse:
    def refuse(some: Sequence[Input]) -> None:
        if bad in some:
            raise NotFinite("the numbers are not finite")

    return refuse


@pytest.mark.parametrize("place", [0, 4, 17, COUNT - 1])
def test_a_refused_text_is_left_out_and_the_others_are_in_order(place: int) -> None:
    found, problems = run(refusing(f"text {place}"))
    assert (found, problems) == (without(3, place), {3: "known", place: "is too long"})


@pytest.mark.parametrize("place", [0, 4, 17, COUNT - 1])
def test_a_text_that_overflows_is_found_by_halving(place: int) -> None:
    found, problems = run(overflowing(f"text {place}"))
    assert found == without(3, place)
    assert problems == {3: "known", place: "the numbers are not finite"}


def test_a_text_that_overflows_ends_a_job_that_leaves_nothing_out() -> None:
    with pytest.raises(NotFinite):
        run(overflowing("text 17"), skip=False)


def test_a_block_too_large_for_the_device_is_halved() -> None:
    def refuse(some: Sequence[Input]) -> None:
        if len(some) > 5:
            raise DeviceFull("the memory of the GPU is too small")

    assert run(refuse)[0] == without(3)


def test_a_device_too_small_for_one_text_ends_the_job() -> None:
    def refuse(some: Sequence[Input]) -> None:
        raise DeviceFull("the memory of the GPU is too small")

    with pytest.raises(DeviceFull):
        run(refuse)


def test_no_thread_waits_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    retries, pauses = JobRetries(100.0, None, print), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        retries.end()

    monkeypatch.setattr("headlight.bulk.row_blocks.time.sleep", sleep)

    def refuse(some: Sequence[Input]) -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable, match="the job was ended"):
        encode_blocks(
            ["a"],
            {},
            refuse,
            lambda block, found: None,
            retries=retries,
            stop=lambda: None,
            skip=True,
            block=BlockSize(1),
        )
    assert len(pauses) == 1


def test_blocks_of_long_texts_are_small_so_that_they_end_in_order() -> None:
    texts = ["x" * 40] * 3 + ["x"] * 30 + ["x" * 1000] * 4
    most = BlockSize(16, tokens=100, longest=50)  # of the last texts, 50 tokens are read
    found = list(blocks_of(0, texts, most, at_once=1))
    assert [place for block in found for place in block] == list(range(37))
    assert [len(block) for block in found] == [2, 16, 16, 2, 1]
    assert list(blocks_of(37, texts, most, at_once=1)) == []
