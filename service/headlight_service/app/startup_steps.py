"""Steps of a start, counted: in the log, and on /readyz for clients that wait."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

log = logging.getLogger("headlight_service.app.startup_steps")

# Of every start; an export adds its steps before them.
OPENING, SELF_TEST, WARMING_UP = "opening the bundle", "running the self-test", "warming up"
OWN = (OPENING, SELF_TEST, WARMING_UP)
STEP = re.compile(r"\d\d:\d\d:\d\d  step (\d+) of (\d+): (.*)")  # of the exporter


class StartupSteps:
    """The steps of one start.

    Args:
        tell: receives each step; None: the log does.

    Attributes:
        current: the last step, as "step 3 of 9: tracing the graph"; of several models, as
            "model 2 of 3, step 3 of 9: tracing the graph".
    """

    def __init__(self, tell: Callable[[str], object] | None = None) -> None:
        self.current = "preparing the model"  # PyTorch loads for seconds before the first step
        self._tell = tell
        self._exported = 0  # number of the export's steps
        self._model = ""

    def begin(self, number: int, count: int) -> None:
        """Begin with a model: the first has the number 1."""
        self._exported = 0
        self._model = f"model {number} of {count}, " if count > 1 else ""

    def __call__(self, step: str) -> None:
        """Log a step of the service's own."""
        self._log(self._exported + OWN.index(step) + 1, step, "starting")

    def exported(self, line: str) -> None:
        """Log a line of the exporter: a step, a fact, or, indented, a detail of a step."""
        if step := STEP.fullmatch(line):
            self._exported = int(step[2])
            self._log(int(step[1]), step[3], "export_step")
        elif line.strip():
            level = logging.DEBUG if line.startswith(" ") else logging.INFO
            log.log(level, line.strip(), extra={"event": "export_step"})

    def _log(self, number: int, step: str, event: str) -> None:
        self.current = f"{self._model}step {number} of {self._exported + len(OWN)}: {step}"
        if self._tell is None:
            log.info(self.current, extra={"event": event})
        else:
            self._tell(self.current)
