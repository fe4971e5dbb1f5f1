from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model.train import corpus
from model.train.corpus import Source

CODE = Source(
    "shop.till",
    '''
class Till:
    """A till."""

    def addItem(self, item_name, *prices, cash=True, **extra):
        """Add an item. Not its tax."""
        total = self.totalSum + cash
        def inner(x): return total
        return inner(total)

async def close(): "Close it."
''',
)


def test_importing_the_corpus_does_not_import_torch() -> None:
    command = "import sys, model.train.corpus; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", command], cwd=root, check=False).returncode == 0


def test_the_files_are_sorted_and_hold_neither_tests_nor_generated_facts() -> None:
    modules = [module for module, _ in corpus.stdlib_files()]
    assert modules == sorted(modules)
    assert len(modules) == len(set(modules))
    assert {"json", "json.decoder", "textwrap"} <= set(modules)
    parts = {part for module in modules for part in module.split(".")}
    assert parts.isdisjoint({"test", "tests", "idlelib", "site-packages", "encodings", "__init__"})
    assert not any(module.startswith("_sysconfigdata") for module in modules)


def test_no_module_is_on_both_sides_of_the_split() -> None:
    sides: dict[str, set[bool]] = {}
    for source in corpus.sources():
        sides.setdefault(corpus.top_level(source.module), set()).add(corpus.is_held_out(source.module))
    assert all(len(side) == 1 for side in sides.values())
    held_out = sum(len(source.text) for source in corpus.sources() if corpus.is_held_out(source.module))
    assert 0.05 < held_out / sum(len(source.text) for source in corpus.sources()) < 0.15


def test_the_split_is_the_same_everywhere() -> None:
    assert corpus.is_held_out("logging.handlers")
    assert corpus.is_held_out("re")
    assert not corpus.is_held_out("json")
    assert not corpus.is_held_out(corpus.PROSE_MODULE)


def test_the_language_reference_is_prose_a_topic_each() -> None:
    topics = corpus.topics()
    assert len(topics) > 50
    assert all(topic.module.startswith(corpus.PROSE_MODULE) for topic in topics)
    prose = [source.text for source in corpus.sources() if corpus.top_level(source.module) == corpus.PROSE_MODULE]
    assert not any(text.lstrip().startswith(("#", "topics =")) for text in prose)


@pytest.mark.usefixtures("small_library")
def test_the_digest_depends_on_the_texts() -> None:
    before = corpus.corpus_sha256()
    assert before == corpus.corpus_sha256()
    assert len(before) == 64
    corpus.sources.cache_clear()
    corpus.files.cache_clear()
    only_json = [file for file in corpus.stdlib_files() if file[0] == "json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "stdlib_files", lambda: only_json)
        assert corpus.corpus_sha256() != before


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
def test_split_words(name: str, words: list[str]) -> None:
    assert corpus.split_words(name) == words


def test_a_function_is_described_in_full() -> None:
    add, inner, close = corpus.functions_of(CODE)
    assert add.name == "Till.addItem"
    assert add.module == "shop.till"
    assert add.parameters == ("item_name", "cash", "prices", "extra")
    assert add.summary == "Add an item."
    assert add.body_words == ("total", "sum", "cash", "inner")
    assert (add.first_line, add.last_line) == (5, 9)
    assert (inner.name, inner.summary) == ("Till.addItem.inner", "")
    assert (close.name, close.summary, close.body_words) == ("close", "Close it.", ())


def test_the_document_never_holds_the_docstring() -> None:
    add, _, close = corpus.functions_of(CODE)
    assert corpus.document_text(add) == "till add item | item name cash prices extra | total sum cash inner"
    assert corpus.document_text(close) == "close"


def test_functions_of_chosen_modules() -> None:
    found = corpus.functions(["json", "textwrap"])
    assert {function.module for function in found} >= {"json", "json.decoder", "textwrap"}
    assert {corpus.top_level(function.module) for function in found} == {"json", "textwrap"}
    assert any(function.name == "dedent" and function.summary for function in found)
    assert found == corpus.functions(["textwrap", "json"])


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(ValueError, match=r"module 'js' is not in the corpus; name one"):
        corpus.functions(["js"])
