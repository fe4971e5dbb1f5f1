"""Steps of a start: counted over the export and the service."""

from __future__ import annotations

from headlight.cli.doctor.default_ports import STARTING
from headlight_service.app.startup_steps import OPENING, StartupSteps


def test_steps_of_an_export_count_with_those_of_the_service() -> None:
    steps = StartupSteps()
    steps.exported("12:34:56  step 4 of 6: tracing the graph")
    assert steps.current == "step 4 of 9: tracing the graph"
    steps.exported("          a detail")
    steps.exported("12:34:58  step 6 of 6: comparing the bundle with PyTorch")
    steps(OPENING)
    assert steps.current == "step 7 of 9: opening the bundle"


def test_without_an_export_there_are_three_steps() -> None:
    steps = StartupSteps()
    steps(OPENING)
    assert steps.current == "step 1 of 3: opening the bundle"


def test_a_client_can_read_the_state_before_the_first_step() -> None:
    page = f"starting, gRPC port 50051: {StartupSteps().current}\n"
    assert STARTING.fullmatch(page.strip())
