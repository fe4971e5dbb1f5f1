from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headlight_model.texts import corpus
from headlight_model.texts.corpus import Part


def test_importing_the_corpus_does_not_import_torch() -> None:
    command = "import sys, headlight_model.texts.corpus; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[4]
    assert subprocess.run([sys.executable, "-c", command], cwd=root, check=False).returncode == 0


def test_the_files_are_sorted_without_tests_and_generated_files() -> None:
    modules = [module for module, _ in corpus.stdlib_files()]
    assert modules == sorted(modules)
    assert len(modules) == len(set(modules))
    assert {"json", "json.decoder", "textwrap"} <= set(modules)
    parts = {part for module in modules for part in module.split(".")}
    assert parts.isdisjoint({"test", "tests", "idlelib", "site-packages", "encodings", "__init__"})
    assert not any(module.startswith("_sysconfigdata") for module in modules)


def test_no_module_is_in_two_parts() -> None:
    parts: dict[str, set[Part]] = {}
    for source in corpus.sources():
        parts.setdefault(corpus.top_level(source.module), set()).add(corpus.part_of(source.module))
    assert all(len(part) == 1 for part in parts.values())
    size = {
        part: sum(len(s.text) for s in corpus.sources() if corpus.part_of(s.module) is part)
        for part in Part
    }
    assert 0.1 < size[Part.TEST] / sum(size.values()) < 0.3
    assert 0.02 < size[Part.VALIDATION] / sum(size.values()) < 0.1


def test_the_split_is_the_same_everywhere() -> None:
    assert corpus.part_of("logging.handlers") is Part.TEST
    assert corpus.part_of("re") is Part.TEST
    assert corpus.part_of("base64") is Part.VALIDATION
    assert corpus.part_of("json") is Part.TRAINING
    assert corpus.part_of(corpus.PROSE_MODULE) is Part.TRAINING


def test_each_topic_of_the_language_reference_is_prose() -> None:
    topics = corpus.topics()
    assert len(topics) > 50
    assert all(topic.module.startswith(corpus.PROSE_MODULE) for topic in topics)
    prose = [
        source.text
        for source in corpus.sources()
        if corpus.top_level(source.module) == corpus.PROSE_MODULE
    ]
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
