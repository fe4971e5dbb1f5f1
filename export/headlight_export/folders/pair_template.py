"""Template that a decoder reads a query and a document by: of the folder, or of a file.

A chat template is rendered once, with marks in place of the texts. The bundle has what stands
around the marks. Messages have the roles that sentence-transformers and vLLM give them: "query",
"document", and "system" for a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headlight.runtime.bundle.pair_template import LONGEST_TEMPLATE, PairTemplate
from headlight_export.folders.model_folder import Refused, read_object, unreadable
from headlight_export.tokenizers.tokenizer_file import read_settings

CHAT, CHAT_OBJECT = "chat_template.jinja", "chat_template.json"
PLACES = ("{prompt}", "{query}", "{document}")  # of a file without Jinja
ROLES = ("system", "query", "document")
MARKS = tuple(f"\ue000{role}\ue001" for role in ROLES)
FORMATS = ("flat", "structured")  # content of a message: a text, or a list of one
LONGEST_CHAT = 1 << 17  # characters of Jinja
NEEDED = (
    "give --pair-template FILE, a text with {query} and {document}, or a chat template in Jinja "
    'for messages of the roles "query" and "document"'
)


def of_file(path: Path, folder: Path) -> PairTemplate:
    """Return the template in a file.

    It is a text with {query}, {document} and perhaps {prompt}, or a chat template in Jinja. As in
    Jinja, a line break at the end of the file does not belong to it.

    Args:
        path: UTF-8.
        folder: of the tokenizer, whose special tokens a chat template may name.

    Raises:
        Refused: it cannot be read, or a place is missing or in another order.
    """
    text = _read(path)
    if "{{" in text or "{%" in text:
        return _of_chat(text, str(path), folder, {}, FORMATS)
    text = text.removesuffix("\n")
    plain, prompted = text.replace(PLACES[0], ""), text if PLACES[0] in text else None
    parts = _around(plain, PLACES[1:])
    around_prompt = () if prompted is None else _around(prompted, PLACES)
    if parts is None or around_prompt is None:
        raise Refused(
            f"{path} must have {{query}} and {{document}} once each, in this order, and perhaps "
            "{prompt} before them"
        )
    return _made(str(path), parts, around_prompt)


def of_folder(
    folder: Path, chat: Mapping[str, Any] | None = None
) -> tuple[PairTemplate, str] | None:
    """Return the folder's chat template and its file, if it is one for pairs.

    Args:
        folder: of the Transformer.
        chat: how sentence-transformers makes messages of pairs: "format" and "arguments"; None: the
            folder does not say that it does.

    Raises:
        Refused: the folder says so, and the template has no place for a query or a document.
    """
    found = _chat_of(folder)
    if found is None:
        return None
    text, file = found
    formats = (
        FORMATS if (chat or {}).get("format") not in FORMATS else (str((chat or {})["format"]),)
    )
    try:
        return _of_chat(text, file, folder, (chat or {}).get("arguments") or {}, formats), file
    except Refused:
        if chat is not None:
            raise
        return None  # a chat template as any language model has


def _chat_of(folder: Path) -> tuple[str, str] | None:
    """Return the folder's chat template and the name of its file."""
    if (folder / CHAT).is_file():
        return _read(folder / CHAT), CHAT
    path = folder / CHAT_OBJECT
    found = read_object(path).get("chat_template") if path.is_file() else None
    file = CHAT_OBJECT
    if found is None:
        found, file = read_settings(folder).get("chat_template"), "tokenizer_config.json"
    if isinstance(found, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return (found, file) if isinstance(found, str) else None


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text; correct it") from None
    return text


def _of_chat(
    text: str, file: str, folder: Path, arguments: Mapping[str, Any], formats: Sequence[str]
) -> PairTemplate:
    """Return the template that a chat template is; the first of `formats` that carries the texts.

    Raises:
        Refused: it cannot be rendered, or does not have each text once.
    """
    if len(text) > LONGEST_CHAT:
        raise Refused(f"{file} has more than {LONGEST_CHAT} characters; shorten it")
    known = _special_tokens(folder) | dict(arguments)
    for form in formats:
        plain = _around(_rendered(text, file, known, form, ROLES[1:]), MARKS[1:])
        if plain is not None:
            prompted = _around(_rendered(text, file, known, form, ROLES), MARKS)
            return _made(file, plain, prompted or ())
    raise Refused(
        f'{file} has no place for the messages of the roles "query" and "document", each once and '
        f"in this order; {NEEDED}"
    )


def _made(file: str, plain: tuple[str, ...], prompted: tuple[str, ...]) -> PairTemplate:
    try:
        return PairTemplate(plain, prompted)
    except ValueError as error:
        raise Refused(f"{file}: {error}; shorten it below {LONGEST_TEMPLATE}") from None


def _special_tokens(folder: Path) -> dict[str, Any]:
    """Return the special tokens that a template may name, as bos_token."""
    settings = read_settings(folder)
    found = {key: value for key, value in settings.items() if key.endswith("_token")}
    return {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in found.items()
        if isinstance(value, str | dict)
    }


def _rendered(
    text: str, file: str, known: Mapping[str, Any], form: str, roles: Sequence[str]
) -> str:
    """Return a chat of messages of these roles, each with its mark, as transformers renders it."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    marks = dict(zip(ROLES, MARKS, strict=True))
    messages = [
        {
            "role": role,
            "content": marks[role] if form == "flat" else [{"type": "text", "text": marks[role]}],
        }
        for role in roles
    ]
    try:
        template = environment.from_string(text)
        return template.render(**{"add_generation_prompt": False, **known, "messages": messages})
    except (TemplateError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Refused(f"{file} cannot be rendered ({error!s:.200}); {NEEDED}") from error


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _around(text: str, marks: Sequence[str]) -> tuple[str, ...] | None:
    """Return what stands around marks; None: one is missing, twice there, or in another order."""
    places = [text.find(mark) for mark in marks]
    if places != sorted(places) or any(text.count(mark) != 1 for mark in marks):
        return None
    bounds = [0]
    for place, mark in zip(places, marks, strict=True):
        bounds += [place, place + len(mark)]
    bounds.append(len(text))
    return tuple(text[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
