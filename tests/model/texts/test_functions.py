from __future__ import annotations

import pytest

from headlight_model.texts import corpus
from headlight_model.texts.corpus import Source
from headlight_model.texts.functions import (
    document_of_0_1,
    document_text,
    functions,
    functions_of,
    module_words,
    signature_text,
    split_words,
    unique_words,
)

CODE = Source(
    "shop.till",
    '''
class Till:
    """A till."""

    def addItem(self, item_name, *prices, cash=True, **extra):
        """Add an item. Not its tax."""
        total = self.totalSum + cash
        def inner(x): return total
        raise ValueError("no such currency")
        return inner(total)

async def close(): "Close it."
''',
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("readHTTPLine_2", ["read", "http", "line", "2"]),
        ("Path.read_text", ["path", "read", "text"]),
        ("__init__", ["init"]),
        ("HTTP", ["http"]),
        ("_", []),
    ],
)
def test_names_are_split_into_words(name: str, words: list[str]) -> None:
    assert split_words(name) == words


def test_a_function_is_described_in_full() -> None:
    add, inner, close = functions_of(CODE)
    assert add.name == "Till.addItem"
    assert add.module == "shop.till"
    assert add.parameters == ("item_name", "cash", "prices", "extra")
    assert add.summary == "Add an item."
    assert add.docstring == "Add an item. Not its tax."
    assert add.body_words == (
        "total",
        "sum",
        "cash",
        "value",
        "error",
        "no",
        "such",
        "currency",
        "inner",
    )
    assert (add.first_line, add.last_line) == (5, 10)
    assert (inner.name, inner.summary) == ("Till.addItem.inner", "")
    assert (close.name, close.summary, close.body_words) == ("close", "Close it.", ())


def test_a_document_has_module_and_name_and_not_the_docstring() -> None:
    add, _, close = functions_of(CODE)
    name, body = (
        "till add item",
        "( item name cash prices extra ) total sum cash value error no such currency inner",
    )
    assert document_text(add) == f"shop till def {name} {body}"
    assert document_text(add, name_weight=2) == f"shop till def {name} {name} {body}"
    assert document_text(add, module=False) == f"def {name} {body}"
    assert signature_text(add) == body
    assert document_text(close) == "shop till def close ( )"
    assert signature_text(close) == "( )"


def test_documents_of_earlier_models_keep_their_form() -> None:
    add, _, close = functions_of(CODE)
    body = "item name cash prices extra | total sum cash value error no such currency inner"
    assert document_of_0_1(add) == f"till add item till add item till add item | {body}"
    assert document_of_0_1(close) == "close close close"


def test_a_document_has_first_and_last_part_of_the_module_name() -> None:
    assert module_words("json") == ["json"]
    assert module_words("a_graph.algorithms.shortestPaths") == ["a", "graph", "shortest", "paths"]


def test_words_are_deduplicated_in_order() -> None:
    assert unique_words(["readLine self x", "line_of args text"]) == ("read", "line", "of", "text")


def test_functions_of_chosen_modules() -> None:
    found = functions(["json", "textwrap"])
    assert {function.module for function in found} >= {"json", "json.decoder", "textwrap"}
    assert {corpus.top_level(function.module) for function in found} == {"json", "textwrap"}
    assert any(function.name == "dedent" and function.summary for function in found)
    assert found == functions(["textwrap", "json"])


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(ValueError, match=r"module 'js' is not in the corpus; name one"):
        functions(["js"])
