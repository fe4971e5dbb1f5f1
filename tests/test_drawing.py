from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def drawn() -> list[list[int]]:
    """Return the examples of a test."""
    examples: list[list[int]] = []

    @settings(max_examples=50)
    @given(st.lists(st.integers(0, 1000)))
    def test(numbers: list[int]) -> None:
        examples.append(numbers)

    test()
    return examples


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import another module, full of literals."""
    path = tmp_path / "literals.py"
    path.write_text(f"NUMBERS = {list(range(100, 1000))}")
    spec = importlib.util.spec_from_file_location("literals", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "literals", module)


def test_examples_are_the_same_in_every_run(request: pytest.FixtureRequest) -> None:
    """Regardless of which other modules are imported or changed."""
    before = drawn()
    request.getfixturevalue("imported")
    again = drawn() == before
    assert again == settings().derandomize
    assert again or request.config.getoption("--hypothesis-profile")


def test_examples_have_no_time_limit() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
