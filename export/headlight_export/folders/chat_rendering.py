"""Rendering of a folder's chat template, in a process of its own with bounded time and memory.

A template is a program. Jinja's sandbox keeps it from files and from Python's internals, but not
from loops that never end or texts that fill the memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

Chat = Sequence[Mapping[str, Any]]  # messages, each with "role" and "content"
SECONDS = 20  # of all chats together; usual templates take some milliseconds
MEMORY = 1 << 30  # bytes
LONGEST_TEXT = 1 << 20  # characters of one rendered chat


class Rendered(NamedTuple):
    """A rendered chat, or the reason why it was not rendered; one of them is None."""

    text: str | None
    error: str | None


class Unbounded(ValueError):
    """A template that takes too long, or too much memory."""


def render(template: str, variables: Mapping[str, Any], chats: Sequence[Chat]) -> list[Rendered]:
    """Return each chat as transformers renders it.

    Args:
        template: Jinja.
        variables: that it may name, besides `messages`; of JSON.
        chats: of JSON.

    Raises:
        Unbounded: it takes too long, or too much memory.
    """
    # -P: the folder of this file is not searched for modules.
    command = [sys.executable, "-P", __file__]
    request = json.dumps([template, variables, chats])
    try:
        child = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unbounded(f"takes more than {SECONDS} seconds to be rendered") from None
    if child.returncode:
        raise Unbounded(f"takes more than {MEMORY >> 20} MiB to be rendered, or ends Python")
    return [Rendered(*each) for each in json.loads(child.stdout)]


def _main() -> None:
    try:
        import resource  # noqa: PLC0415  # Unix has it

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        pass  # time and the length of texts are still bounded
    template, variables, chats = json.loads(sys.stdin.read())
    print(json.dumps([_rendered(template, variables, chat) for chat in chats]))


def _rendered(template: str, variables: Mapping[str, Any], chat: Chat) -> Rendered:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    known = {"add_generation_prompt": False, **variables, "messages": chat}
    pieces, size = list[str](), 0
    try:
        for piece in environment.from_string(template).generate(**known):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_TEXT:
                return Rendered(None, f"a text of more than {LONGEST_TEXT} characters")
    except Exception as error:  # a template raises what any Python may
        return Rendered(None, f"{type(error).__name__}: {error!s:.200}".rstrip(": "))
    return Rendered("".join(pieces), None)


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


if __name__ == "__main__":
    _main()
