from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headlight.client.calls.list_work import Cost, measure, split
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_model import tokens_of

amounts = st.integers(0, 20)
cost_lists = st.lists(st.builds(Cost, st.just(1), amounts, amounts, amounts), max_size=40)
budgets = st.builds(Cost, st.integers(1, 6), *[st.integers(0, 40)] * 3)


def fits(costs: list[Cost], budget: Cost) -> bool:
    return all(sum(parts) <= most for *parts, most in zip(*costs, budget, strict=True))


@given(cost_lists, budgets)
def test_ranges_cover_everything_once_in_order_and_are_the_longest_that_fit(
    costs: list[Cost], budget: Cost
) -> None:
    parts = list(split(costs, budget))
    assert [index for part in parts for index in part] == list(range(len(costs)))
    for part in parts:
        assert len(part) == 1 or fits(costs[part.start : part.stop], budget)
    for part in parts[:-1]:
        assert not fits(costs[part.start : part.stop + 1], budget)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1)
        | st.lists(st.integers(0, 2**62), min_size=1),
        max_size=8,
    )
)
def test_size_estimates_are_upper_bounds(inputs: list[str | list[int]]) -> None:
    for item, (size, tokens) in zip(inputs, measure(inputs, 2**20), strict=True):
        message = (
            pb.Input(text=item) if isinstance(item, str) else pb.Input(ids=pb.TokenIds(ids=item))
        )
        assert pb.EncodeRequest(inputs=[message]).ByteSize() <= size
        assert len(tokens_of(message).ids) <= tokens
