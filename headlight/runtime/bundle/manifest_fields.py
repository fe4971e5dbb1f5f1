"""Typed access to the fields of the manifest's JSON.

It checks types, ranges, and that strings are printable, before any value is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_type_hints

from headlight.errors import BundleError

MANIFEST = "manifest.json"
LARGEST = (1 << 63) - 1  # integer; the limit of any size of a file or a tensor
LONGEST_TEXT = 256  # characters; names appear in responses, log lines and metrics
SURROGATE = re.compile("[\ud800-\udfff]")
NO_COUNTS: Mapping[str, int] = {}
R = TypeVar("R")
T = TypeVar("T", bound=int | float | str | bool | list[Any] | dict[str, Any])


class Fields:
    """A JSON object whose values are read by name and type; every error names the value's path."""

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, dict):
            raise BundleError(f"{path or 'the whole'} is not a JSON object", MANIFEST)
        self.values: Mapping[str, Any] = values
        self.path = path

    def take(self, name: str, kind: type[T]) -> T:
        """Return the value of `name`, which must exist and be of type `kind`."""
        value = self.values.get(name)
        if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            raise self._wrong(name, value, "a 64-bit number")
        if kind is float and type(value) is int:
            value = float(value)
        # In Python a bool is an int, too.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._wrong(name, value, kind.__name__)
        if isinstance(value, str):
            self.check_text(name, value)
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self.take(name, list)
        for value in values:
            if not isinstance(value, str):
                raise BundleError(
                    f"{self.path}{name} holds something that is not a string", MANIFEST
                )
            self.check_text(name, value)
        return tuple(values)

    def count(self, name: str, most: int, *, least: int = 1) -> int:
        """Return an integer from `least` to `most`."""
        value = self.take(name, int)
        if not least <= value <= most:
            raise self._wrong(name, value, f"{least} to {most}")
        return value

    def optional_count(self, name: str, most: int) -> int:
        """Return an integer from 0 to `most`; 0 if the name does not exist."""
        return self.count(name, most, least=0) if name in self.values else 0

    def count_or_null(self, name: str, most: int) -> int | None:
        """Return an integer from 0 to `most`, or None for null. The name must exist."""
        return None if self.values.get(name, 0) is None else self.count(name, most, least=0)

    def number(self, name: str, least: float = 0) -> float:
        """Return a finite number of at least `least`."""
        value: float = self.take(name, float)
        if not least <= value < float("inf"):
            raise self._wrong(name, value, "a number" if least else "at least 0")
        return value

    def counts(self, name: str, most: int, *, least: int = 1) -> tuple[int, ...]:
        """Return a list of different integers from `least` to `most`."""
        values = self.take(name, list)
        right = all(
            isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
            for value in values
        )
        if not right or len(set(values)) != len(values):
            raise self._wrong(name, values, f"different numbers of {least} to {most}")
        return tuple(values)

    def text_or_null(self, name: str) -> str | None:
        """Return a string, or None for null. The name must exist."""
        return None if self.values.get(name, "") is None else self.take(name, str)

    def one_of(self, name: str, choices: Iterable[str]) -> str:
        """Return one of some strings."""
        value: str = self.take(name, str)
        if value not in choices:
            raise self._wrong(name, value, f"one of {', '.join(choices)}")
        return value

    def one_of_or_null(self, name: str, choices: Iterable[str]) -> str | None:
        """Return one of some strings, or None for null. The name must exist."""
        value = self.text_or_null(name)
        if value is not None and value not in choices:
            raise self._wrong(name, value, f"null or one of {', '.join(choices) or 'none':.200}")
        return value

    def prose(self, name: str, most: int) -> str:
        """Return a string of at most `most` characters that UTF-8 can express.

        Line breaks are allowed.
        """
        value = self.values.get(name)
        # JSON can spell half of a surrogate pair, which UTF-8 cannot express.
        if not isinstance(value, str) or len(value) > most or SURROGATE.search(value):
            raise self._wrong(f"{name!a:.60}", value, f"a text of at most {most} characters")
        return value

    def proses(self, name: str, most: int) -> tuple[str, ...]:
        """Return a list of texts, as `prose` returns one."""
        values = self.take(name, list)
        listed = Fields({str(at): value for at, value in enumerate(values)}, f"{self.path}{name}.")
        return tuple(listed.prose(at, most) for at in listed.values)

    def record(self, kind: type[R], counts: Mapping[str, int] = NO_COUNTS, least: float = 0) -> R:
        """Return a dataclass, each value read by the type of its field.

        Args:
            kind: a dataclass of strings, lists of strings, booleans and numbers; a float that may
                be None may be absent or null.
            counts: the largest value by name, for integers from 1.
            least: the least value of every float; floats must be finite.
        """
        values: dict[str, Any] = {}
        for name, hint in get_type_hints(kind).items():
            if name in counts:
                values[name] = self.count(name, counts[name])
            elif hint == tuple[str, ...]:
                values[name] = self.strings(name)
            elif hint is float:
                values[name] = self.number(name, least)
            elif hint == float | None:
                absent = self.values.get(name) is None
                values[name] = None if absent else self.number(name, least)
            else:
                values[name] = self.take(name, hint)
        return kind(**values)

    def child(self, name: str) -> Fields:
        """Return a nested object."""
        return Fields(self.take(name, dict), f"{self.path}{name}.")

    def children(self, name: str) -> list[Fields]:
        """Return a list of objects."""
        return [
            Fields(value, f"{self.path}{name}[{i}].")
            for i, value in enumerate(self.take(name, list))
        ]

    def check_text(self, name: str, value: str) -> None:
        """Check that a value is printable and of a valid length.

        Raises:
            BundleError: it is not.
        """
        if not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            raise self._wrong(name, value, f"1 to {LONGEST_TEXT} printable characters")

    def _wrong(self, name: str, value: object, expected: str) -> BundleError:
        return BundleError(f"{self.path}{name} is {value!a:.60}; expected {expected}", MANIFEST)
