"""Errors for unknown keyword arguments, which name the nearest one that there is."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

ClassT = TypeVar("ClassT", bound=type)


def suggest_keywords(kind: ClassT) -> ClassT:
    """Make the public methods of a class name the nearest argument of an unknown one."""
    for name, method in vars(kind).copy().items():
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(kind, name, _suggesting(method))
    return kind


def _suggesting(method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters
    every = [each for each in parameters.values() if each.kind is each.VAR_KEYWORD]
    known = frozenset(parameters) - {each.name for each in every}
    for each in every:  # Unpack[a typed dictionary]
        known |= get_type_hints(get_args(get_type_hints(method)[each.name])[0]).keys()

    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for word in keywords.keys() - known:
            near = difflib.get_close_matches(word, known, n=1)
            remedy = f" (did you mean {near[0]}?)" if near else ""
            raise TypeError(f"{method.__name__}() has no argument {word!r}{remedy}")
        return method(*arguments, **keywords)

    return call
