"""Errors for unknown keyword arguments, which name the nearest one that there is."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

ClassT = TypeVar("ClassT", bound=type)


def suggest_keywords(kind: ClassT) -> ClassT:
    """Make the public methods of a class name the nearest argument of an unknown one."""
    for name, method in vars(kind).copy().items():
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(kind, name, _suggesting(method))
    return kind


def _suggesting(method: Callable[..., Any]) -> Callable[..., Any]:
    known = frozenset(inspect.signature(method).parameters)

    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for word in keywords:
            if word not in known and (near := difflib.get_close_matches(word, known, n=1)):
                raise TypeError(
                    f"{method.__name__}() has no argument {word!r} (did you mean {near[0]}?)"
                )
        return method(*arguments, **keywords)

    return call
