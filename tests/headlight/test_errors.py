"""Requirements for every error class, including those added later."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

# Brings every module of the service, and its errors.
import headlight_service.app.lifecycle  # noqa: F401
from headlight.errors import HeadlightError, InvalidInput
from headlight.reasons import Reason
from headlight_service.core.admission.shed_error import Shortage

# Values for arguments of errors, by annotation. An error with another argument type
# adds it here.
VALUES: dict[str, Any] = {
    "str": "inputs[3].text",
    "str | Path": "inputs[3].text",
    "Reason | str": Reason.TOO_LONG,
    "Path": ("inputs", 3, "text"),
    "Argument": 70,
    "int": 7,
    "float": 1.5,
    "str | None": "model.onnx",
    "float | None": 1.5,
    "Sequence[Any]": [1, None],
    "Shortage": next(iter(Shortage)),
}


def kinds(root: type[HeadlightError] = HeadlightError) -> Iterator[type[HeadlightError]]:
    """Return the error classes of Headlight and of the service."""
    if root.__module__.split(".")[0] in ("headlight", "headlight_service"):
        yield root
    for leaf in root.__subclasses__():
        yield from kinds(leaf)


@pytest.mark.parametrize("kind", sorted(set(kinds()), key=repr))
def test_headlight_errors_survive_pickling(kind: type[HeadlightError]) -> None:
    """multiprocessing waits for ever for an error that cannot be unpickled."""
    parameters = inspect.signature(kind).parameters
    given = {name: VALUES[str(parameter.annotation)] for name, parameter in parameters.items()}
    more = {"tokens": given.pop("args"), "most": 64} if "args" in given else {}
    error = kind(*given.values(), **more)
    error.add_note("in part 3")
    copies = [
        pickle.loads(pickle.dumps(error, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for again in [*copies, copy.copy(error), copy.deepcopy(error)]:
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_derived_errors_survive_pickling() -> None:
    """For any arguments."""
    again = pickle.loads(pickle.dumps(OfSomebody("inputs[0]", why=3)))
    assert (type(again), str(again), again.field, again.why) == (
        OfSomebody,
        "inputs[0]: has 3",
        "inputs[0]",
        3,
    )


class OfSomebody(InvalidInput):
    def __init__(self, field: str, *, why: int) -> None:
        super().__init__(field, f"has {why}")
        self.why = why
