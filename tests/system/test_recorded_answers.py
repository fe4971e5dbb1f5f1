"""Today's answers of every method, path and command are those that were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.system.processes import Service
from tests.wire.today.asking import Door, answers_path, ask
from tests.wire.today.cases import GUARDED, OPEN
from tests.wire.today.record import guarded
from tests.wire.today.sameness import differences

CASES = [(group, name) for group, exchanges in OPEN.items() for name in exchanges]


def recorded(group: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(answers_path(group).read_text(encoding="utf-8"))
    return said


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return {group: recorded(group) for group in OPEN}


@pytest.fixture(scope="module")
def guarded_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with guarded(tmp_path_factory.mktemp("tokens")) as door:
        yield door


@pytest.mark.parametrize(("group", "name"), CASES, ids=[f"{a}-{b}" for a, b in CASES])
def test_an_exchange_has_its_recorded_answer(
    rope: Service, answers: dict[str, dict[str, Any]], group: str, name: str
) -> None:
    now = ask(Door(rope.target, rope.rest), OPEN[group][name])
    assert differences(answers[group][name], now) == []


def test_callers_without_token_or_quota_have_their_recorded_answers(guarded_door: Door) -> None:
    """In one test: each request lessens what is left of the quota."""
    said = recorded("guarded")
    wrong = {
        name: differences(said[name], ask(guarded_door, exchange))
        for name, exchange in GUARDED.items()
    }
    assert {name: each for name, each in wrong.items() if each} == {}


@pytest.mark.parametrize("group", [*OPEN, "guarded"])
def test_every_recorded_answer_is_asked_for(group: str) -> None:
    assert recorded(group).keys() == (OPEN | {"guarded": GUARDED})[group].keys()
