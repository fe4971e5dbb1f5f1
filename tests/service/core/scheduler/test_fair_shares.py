"""Fair shares of several models, on a simulated clock. The rule: docs/serving/several-models.md."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.spec import Priority
from headlight_service.core.scheduler.batch_policy import LaneSet
from headlight_service.core.scheduler.lanes import Batch, BatchLimit, LaneKey
from tests.service.batching import Slots
from tests.service.core.scheduler.test_batch_policy import entry

LIMIT, LENGTH = BatchLimit(64), 16  # four items in a batch
WEIGHTS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0])
SECONDS = st.sampled_from([0.01, 0.1, 0.25, 1.0, 3.0])  # of a batch
FLOODED = st.dictionaries(st.sampled_from("abc"), st.tuples(WEIGHTS, SECONDS), min_size=2)


class Simulation:
    """Models whose batches take a time of their own; those that are flooded always have items.

    Attributes:
        had: slot seconds of the ended batches of each model.
        begun: batches of each model that have begun.
    """

    def __init__(
        self, models: Mapping[str, tuple[float, float]], slots: int, priority: Priority
    ) -> None:
        self.now, self.had, self.begun = 0.0, defaultdict[str, float](float), Counter[str]()
        self._models, self._idle, self._priority = models, slots, priority
        self._lanes: LaneSet[int] = LaneSet()
        for name, (weight, _) in models.items():
            self._lanes.open(LaneKey(name, "embed"), LIMIT, weight)
        self._running: list[tuple[float, int, Batch[int]]] = []
        self._order = itertools.count()

    def add(self, model: str, items: int) -> None:
        lane = LaneKey(model, "embed")
        for _ in range(items):
            self._lanes.add(entry(LENGTH, self.now, math.inf, lane, self._priority))

    def begin(self) -> None:
        """Give the idle slots to batches."""
        while self._idle and (batch := self._lanes.take(self.now, Slots(1))).entries:
            self._idle -= 1
            model = batch.entries[0].lane.model
            self.begun[model] += 1
            took = self._models[model][1] * len(batch.entries) / 4
            heapq.heappush(self._running, (self.now + took, next(self._order), batch))

    def end(self) -> str:
        """End the batch that is done next, and return its model."""
        self.now, _, batch = heapq.heappop(self._running)
        self._idle += 1
        model = batch.entries[0].lane.model
        took = self._models[model][1] * len(batch.entries) / 4
        self.had[model] += took
        self._lanes.ended(batch, took)
        return model


@settings(max_examples=150)
@given(FLOODED, st.integers(1, 3), st.sampled_from(["interactive", "bulk"]), st.integers(1, 150))
def test_flooded_models_have_slot_time_by_their_weights(
    models: dict[str, tuple[float, float]], slots: int, priority: Priority, batches: int
) -> None:
    simulation = Simulation(models, slots, priority)
    for model in models:
        simulation.add(model, 4 * (batches + slots))
    for _ in range(batches):
        simulation.begin()
        simulation.end()
        shares = {name: simulation.had[name] / models[name][0] for name in models}
        for one, other in itertools.combinations(models, 2):
            ahead = sum(models[each][1] / models[each][0] for each in (one, other))
            assert abs(shares[one] - shares[other]) <= slots * ahead + 1e-9


@settings(max_examples=150)
@given(
    FLOODED,
    st.tuples(WEIGHTS, SECONDS),
    st.integers(1, 3),
    st.sampled_from(["interactive", "bulk"]),
    st.integers(0, 60),
)
def test_a_model_with_little_work_waits_for_one_batch_of_each_flooded_one(
    flooded: dict[str, tuple[float, float]],
    light: tuple[float, float],
    slots: int,
    priority: Priority,
    earlier: int,
) -> None:
    simulation = Simulation({**flooded, "light": light}, slots, priority)
    for model in flooded:
        simulation.add(model, 1000)
    ended = Counter[str]()
    while len(ended) < len(flooded) or ended.total() < earlier:  # the time of a batch is known
        simulation.begin()
        ended[simulation.end()] += 1
    simulation.begin()
    before = simulation.begun.copy()
    simulation.add("light", 4)
    while not simulation.begun["light"]:
        simulation.end()
        simulation.begin()
    since = simulation.begun - before
    assert all(since[model] <= 1 for model in flooded)


def test_idle_time_gives_no_credit() -> None:
    simulation = Simulation({"a": (1.0, 1.0), "b": (1.0, 1.0)}, 1, "interactive")
    simulation.add("a", 4 * 40)
    for _ in range(20):
        simulation.begin()
        simulation.end()
    simulation.add("b", 4 * 20)
    for _ in range(10):
        simulation.begin()
        simulation.end()
    assert simulation.had == {"a": 25.0, "b": 5.0}
