"""Template that a decoder reads a query and a document by: of the folder, or of a file.

A chat template is rendered with marks in place of the texts. The bundle has what stands around the
marks, so a template that changes the texts is refused. Messages have the roles that
sentence-transformers and vLLM give them: "query", "document", and "system" for a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headlight.runtime.bundle.pair_template import LONGEST_TEMPLATE, PairTemplate
from headlight_export.folders.chat_rendering import Chat, Rendered, Unbounded, render
from headlight_export.folders.model_folder import Refused, read_object, unreadable
from headlight_export.tokenizers.tokenizer_file import read_settings

CHAT, CHAT_OBJECT = "chat_template.jinja", "chat_template.json"
PLACES = ("{prompt}", "{query}", "{document}")  # of a file without Jinja
ROLES = ("system", "query", "document")
MARKS = tuple(f"\ue000{end}" for end in "\ue001\ue002\ue003")  # letters that no filter changes
# Texts that filters change: `trim`, `tojson`, `lower`, `replace` of line breaks, `escape` and more.
PLAIN = " \t\n Ab  'cD' \"1\"\r\n\n\\n<e> & {x} {{ y }} %s \u00c9\u00df\u3000</think>z \n\t "
PROBES = ((PLAIN,) * 3, (PLAIN * 1000,) * 3, ("a", "", ""))
FORMATS = ("flat", "structured")  # content of a message: a text, or a list of one
LONGEST_CHAT = 1 << 17  # characters of Jinja
NEEDED = (
    "give --pair-template FILE, a text with {query} and {document}, or a chat template in Jinja "
    'for messages of the roles "query" and "document"'
)


class NoPlaces(Refused):
    """A chat template that is not for messages of queries and documents."""


def template_from_file(path: Path, folder: Path) -> PairTemplate:
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


def template_from_folder(
    folder: Path, chat: Mapping[str, Any] | None = None
) -> tuple[PairTemplate, str] | None:
    """Return the folder's chat template for pairs and its file; None: the folder has none.

    Args:
        folder: of the Transformer.
        chat: how sentence-transformers makes messages of pairs: "format" and "arguments"; None: the
            folder does not say that it does.

    Raises:
        NoPlaces: it is one of a language model, without places for a query and a document.
        Refused: it changes them, is too long, or takes too much time or memory.
    """
    chat_template = _chat_of(folder)
    if chat_template is None:
        return None
    text, file = chat_template
    formats = (
        FORMATS if (chat or {}).get("format") not in FORMATS else (str((chat or {})["format"]),)
    )
    return _of_chat(text, file, folder, (chat or {}).get("arguments") or {}, formats), file


def _chat_of(folder: Path) -> tuple[str, str] | None:
    """Return the folder's chat template and the name of its file."""
    if (folder / CHAT).is_file():
        return _read(folder / CHAT), CHAT
    path = folder / CHAT_OBJECT
    template = read_object(path).get("chat_template") if path.is_file() else None
    file = CHAT_OBJECT
    if template is None:
        template, file = read_settings(folder).get("chat_template"), "tokenizer_config.json"
    if isinstance(template, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in template if type(each) is dict}
        template = named.get("default")
    return (template, file) if isinstance(template, str) else None


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
        NoPlaces: it cannot be rendered, or does not have each text once.
        Refused: it changes the texts, is too long, or takes too much time or memory.
    """
    if len(text) > LONGEST_CHAT:
        raise Refused(f"{file} has more than {LONGEST_CHAT} characters; shorten it")
    known = _special_tokens(folder) | dict(arguments)
    for form in formats:
        chats = [
            _chat(texts, form, prompted=prompted)
            for prompted in (False, True)
            for texts in (MARKS, *PROBES)
        ]
        try:
            rendered = render(text, known, chats)
        except Unbounded as error:
            raise Refused(f"{file} {error}; {NEEDED}") from None
        plain, prompted = rendered[: len(chats) // 2], rendered[len(chats) // 2 :]
        if plain[0].text is None:
            raise NoPlaces(f"{file} cannot be rendered ({plain[0].error}); {NEEDED}")
        parts = _around(plain[0].text, MARKS[1:])
        if parts is not None:
            template = _made(file, parts, _around(prompted[0].text or "", MARKS) or ())
            _check_unchanged(template, plain[1:], prompted[1:], file)
            return template
    raise NoPlaces(
        f'{file} has no place for the messages of the roles "query" and "document", each once and '
        f"in this order; {NEEDED}"
    )


def _chat(texts: Sequence[str], form: str, *, prompted: bool) -> Chat:
    messages = zip(ROLES, texts, strict=True)
    return [
        {"role": role, "content": text if form == "flat" else [{"type": "text", "text": text}]}
        for role, text in messages
        if prompted or role != ROLES[0]
    ]


def _check_unchanged(
    template: PairTemplate, plain: Sequence[Rendered], prompted: Sequence[Rendered], file: str
) -> None:
    """Check that chats of PROBES, without and with prompts, have their texts as they are.

    Raises:
        Refused: the chat template changes them, or looks at them.
    """
    chats = [(each, False) for each in plain]
    chats += [(each, True) for each in prompted] if template.prompted else []
    for (rendered, has_prompt), (prompt, *pair) in zip(chats, (*PROBES, *PROBES), strict=False):
        pieces = template.pieces((pair[0], pair[1]), prompt if has_prompt else "")
        if rendered.text != "".join(piece for _, piece in pieces):
            raise Refused(
                f"{file} changes the texts of pairs, as `| trim`, `| tojson` or a condition does: "
                f"they are put in as they are. Take that out of a copy, and {NEEDED}"
            )


def _made(file: str, plain: tuple[str, ...], prompted: tuple[str, ...]) -> PairTemplate:
    try:
        return PairTemplate(plain, prompted)
    except ValueError as error:
        raise Refused(f"{file}: {error}; shorten it below {LONGEST_TEMPLATE}") from None


def _special_tokens(folder: Path) -> dict[str, Any]:
    """Return the special tokens that a template may name, as bos_token."""
    return {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in read_settings(folder).items()
        if key.endswith("_token") and isinstance(value, str | dict)
    }


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
