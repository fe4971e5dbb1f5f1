"""Templates of pairs: of chat templates, of files, and those that the guide shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headlight.runtime.bundle.pair_template import PairTemplate
from headlight_export.folders import chat_rendering
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.pair_template import (
    NoPlaces,
    template_from_file,
    template_from_folder,
)

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "rerank.md"
ROLES = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"


def written(folder: Path, text: str, name: str = "template") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q {query} d {document} end\n", PairTemplate(("q ", " d ", " end"))),
        ("{query}{document}", PairTemplate(("", "", ""))),
        (
            "{prompt}: {query} {document}\n\n",
            PairTemplate((": ", " ", "\n"), ("", ": ", " ", "\n")),
        ),
        (
            ROLES,
            PairTemplate(
                ("<query>", "\n<document>", "\n"), ("<system>", "\n<query>", "\n<document>", "\n")
            ),
        ),
        (
            "{{ bos_token }}{{ messages[-2].content[0].text }}|{{ messages[-1].content[0].text }}",
            PairTemplate(("<s>", "|", "")),
        ),
    ],
)
def test_a_file_gives_the_parts_around_the_texts(
    text: str, expected: PairTemplate, tmp_path: Path
) -> None:
    written(tmp_path, json.dumps({"bos_token": {"content": "<s>"}}), "tokenizer_config.json")
    assert template_from_file(written(tmp_path, text), tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q {query}", "must have {query} and {document} once each"),
        ("{document} {query}", "in this order"),
        ("{query} {query} {document}", "once each"),
        ("{query} {document} {prompt}", "before them"),
        ("{{ messages[0].content }}", "has no place for the messages"),
        ("{% if %}", "cannot be rendered"),
        ("{{ raise_exception('no roles') }}", "no roles"),
        ("{{ ''.__class__.__mro__ }}{{ messages }}", "cannot be rendered|has no place"),
        ("x" * (1 << 15) + "{query}{document}", "16384"),
    ],
)
def test_a_file_without_a_place_for_each_text_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=message):
        template_from_file(written(tmp_path, text), tmp_path)


def test_a_folders_chat_template_counts_if_it_carries_the_texts(tmp_path: Path) -> None:
    settings = {"chat_template": [{"name": "default", "template": ROLES}]}
    written(tmp_path, json.dumps(settings), "tokenizer_config.json")
    found = template_from_folder(tmp_path)
    assert found is not None
    assert found[1] == "tokenizer_config.json"
    users = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    written(tmp_path, users, "chat_template.jinja")
    with pytest.raises(NoPlaces, match="--pair-template FILE"):
        template_from_folder(tmp_path)


@pytest.mark.parametrize(
    ("role", "change"),
    [
        *((role, "| trim") for role in ("system", "query", "document")),
        *(("document", f"| {name}") for name in ("upper", "lower", "tojson", "e", "indent")),
        ("document", "| replace('\\n', ' ')"),
        ("document", "| default('nothing', true)"),
        ("document", "[:4000]"),
        ("document", ".split('</think>')[-1]"),
    ],
)
def test_a_template_that_changes_a_text_is_refused(role: str, change: str, tmp_path: Path) -> None:
    text = (
        "{% for m in messages %}<{{ m.role }}>{% if m.role == '" + role + "' %}"
        "{{ m.content " + change + " }}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    with pytest.raises(Refused, match=r"changes the texts.*--pair-template FILE"):
        template_from_folder(written(tmp_path, text, "chat_template.jinja").parent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% for a in range(99999) %}{{ 'many characters' * 9 }}{% endfor %}", "1048576 char"),
        ("{{ 'x' * 99999999999 }}", "MemoryError"),
        ("{{ '%99999999999d' % 1 }}", "MemoryError|OverflowError"),
        ("{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}", "RecursionError|MiB"),
        ("{{ '{a}'.format(1) }}", "KeyError"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)
def test_a_template_has_bounded_memory(text: str, message: str, tmp_path: Path) -> None:
    written(tmp_path, text + ROLES, "chat_template.jinja")
    with pytest.raises(Refused, match=rf"^chat_template.jinja .*({message})"):
        template_from_folder(tmp_path)


def test_a_template_that_loops_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_rendering, "SECONDS", 1)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    written(tmp_path, loop + ROLES, "chat_template.jinja")
    with pytest.raises(Refused, match=r"^chat_template.jinja takes more than 1 seconds"):
        template_from_folder(tmp_path)


def test_the_guides_templates_are_those_of_the_models(tmp_path: Path) -> None:
    page = GUIDE.read_text(encoding="utf-8")
    [qwen] = re.findall(r"^```jinja\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    [mxbai] = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    found = template_from_file(written(tmp_path, qwen), tmp_path)
    end = "<|im_end|>\n<|im_start|>assistant\n"
    assert found.plain[1:] == ("\n<Document>: ", f"{end}<think>\n\n</think>\n\n")
    assert found.plain[0].endswith("that answer the query\n<Query>: ")
    assert found.prompted[0].endswith("<|im_start|>user\n<Instruct>: ")
    found = template_from_file(written(tmp_path, mxbai), tmp_path)
    assert found.plain[1] == "\ndocument: "
    assert found.plain[2].endswith(f"\nRelevance:{end}")
