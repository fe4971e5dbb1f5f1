"""The manifest's JSON taken apart field by field: types, ranges, and strings fit to be printed, before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from headlight.errors import BundleError

MANIFEST = "manifest.json"
LARGEST = (1 << 63) - 1  # integer; what a file or a tensor may have of anything
LONGEST_TEXT = 256  # characters; names stand in answers, log lines and metrics
T = TypeVar("T", bound=int | float | str | bool | list[Any] | dict[str, Any])


class Fields:
    """A JSON object whose values are taken out by name and type; every failure names the path of the value."""

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, dict):
            raise BundleError(f"{path or 'the whole'} is not a JSON object", MANIFEST)
        self.values: Mapping[str, Any] = values
        self.path = path

    def take(self, name: str, kind: type[T]) -> T:
        """The value of `name`, which must be there and of type `kind`."""
        value = self.values.get(name)
        if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            raise BundleError(f"{self.path}{name} is {value!r:.60}; expected a 64-bit number", MANIFEST)
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BundleError(f"{self.path}{name} is {value!a:.60}; expected {kind.__name__}", MANIFEST)
        if isinstance(value, str):
            self._check_text(name, value)
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.take(name, list)
        for value in values:
            if not isinstance(value, str):
                raise BundleError(f"{self.path}{name} holds something that is not a string", MANIFEST)
            self._check_text(name, value)
        return tuple(values)

    def count(self, name: str, most: int, *, least: int = 1) -> int:
        """An integer of `least` to `most`."""
        value = self.take(name, int)
        if not least <= value <= most:
            raise BundleError(f"{self.path}{name} is {value}; expected {least} to {most}", MANIFEST)
        return value

    def child(self, name: str) -> Fields:
        """A nested object."""
        return Fields(self.take(name, dict), f"{self.path}{name}.")

    def children(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(value, f"{self.path}{name}[{i}].") for i, value in enumerate(self.take(name, list))]

    def _check_text(self, name: str, value: str) -> None:
        if not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            problem = f"{self.path}{name} is {value!a:.60}; expected 1 to {LONGEST_TEXT} printable characters"
            raise BundleError(problem, MANIFEST)
