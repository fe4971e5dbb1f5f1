"""Texts to calibrate reduced precision with, to search layers by, and to judge it by.

Random ids would make it look worse, and neighbours among them mean nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from headlight.runtime.bundle.manifest import TextSet
from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.values import Ids
from headlight_export.parity.reference import random_ids, random_segments
from headlight_model.config import EncoderConfig

COUNT = 400
CALIBRATING = 300  # texts; with more, scales hardly change
FEWEST = 20  # enough for ten neighbours that are not all texts
LEAST_WORDS = 8
LONGEST = 256  # tokens; longer texts are cut
CODE_CHARACTERS = 300  # of a function
SEED = 5
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Passage:
    """One text: ids int64 [n]; segments int64 [n], None if the model has none."""

    ids: Ids
    segments: Ids | None


@dataclasses.dataclass(frozen=True)
class Passages:
    """Texts that are all different to the model.

    Attributes:
        about: a description for the report.
        real: False for random ids: then nothing is known of neighbours among texts.
        items: the texts.
        sha256: hex digest of the texts as read, one a line; empty for random ids.
        texts: of the items; empty for random ids.
    """

    about: str
    real: bool
    items: tuple[Passage, ...]
    sha256: str = ""
    texts: tuple[str, ...] = ()

    def described(self, use: str) -> TextSet:
        """Return the manifest's entry of these texts."""
        return TextSet(use=use, texts=self.about, count=len(self.items), sha256=self.sha256)


def passages(
    config: EncoderConfig,
    tokenizer: Path | None,
    file: Path | None,
    library: Callable[[], list[str]] | None = None,
) -> Passages:
    """Return the texts to judge by, or to search by.

    Args:
        config: of the encoder.
        tokenizer: tokenizer.json; None: the texts are random ids.
        file: UTF-8, a text a line.
        library: returns texts for use without a file; None: varied texts.

    Raises:
        ValueError: the file is not text, holds too few texts, or there is no tokenizer to read it
            with.
    """
    if tokenizer is None:
        if file is not None:
            raise ValueError(
                f"{file} cannot be read without a tokenizer.json in the checkpoint; "
                "leave --texts out"
            )
        return _random(config)
    library = library or varied
    texts, about = (library(), _library(library)) if file is None else _of(file)
    return read(config, tokenizer, texts, about)


def read(config: EncoderConfig, tokenizer: Path, texts: Sequence[str], about: str) -> Passages:
    """Tokenise texts, each different one once.

    Raises:
        ValueError: there are fewer than FEWEST.
    """
    reader = Tokenizer(tokenizer, min(config.max_length, LONGEST))
    by_digest: dict[bytes, tuple[Passage, str]] = {}
    for text in texts:
        read = reader.encode(text, truncation="cut_end", with_info=False)
        by_digest.setdefault(
            read.ids.tobytes(),
            (Passage(read.ids, read.segments if config.segments else None), text),
        )
    if len(by_digest) < FEWEST:
        raise ValueError(
            f"{about} are {len(by_digest)} different texts; at least {FEWEST} are needed"
        )
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    items, different = zip(*by_digest.values(), strict=True)
    return Passages(about, True, items, digest, different)


def calibration(config: EncoderConfig, tokenizer: Path, given: Sequence[str] | None) -> Passages:
    """Return CALIBRATING texts of those given, or docstrings that no report uses."""
    texts, about = (
        (training_docstrings(), _library(docstrings))
        if given is None
        else (spread(_different(given), CALIBRATING), "lines of --calibration")
    )
    return read(config, tokenizer, texts, about)


def varied() -> list[str]:
    """Return COUNT texts of five kinds.

    They are docstrings, comments and code of Python's own library, questions, and texts in other
    languages than English.
    """
    of_library = (*docstrings(100), *comments(80), *code(80))
    return [*of_library, *lines("questions"), *lines("other_languages")]


def lines(name: str) -> list[str]:
    """Return the 70 texts of a file beside this module: "questions" or "other_languages"."""
    file = importlib.resources.files("headlight_export.precision") / "texts" / f"{name}.txt"
    return file.read_text(encoding="utf-8").splitlines()


def docstrings(count: int = COUNT) -> list[str]:
    """Return at most `count` docstrings of functions, evenly spread over Python's own library.

    Only its part kept for tests is used: no shipped model was trained on it.
    """
    return _docstrings(count, held_out=True)


def training_docstrings() -> list[str]:
    """Return CALIBRATING docstrings of the library's other parts."""
    return _docstrings(CALIBRATING, held_out=False)


def _docstrings(count: int, *, held_out: bool) -> list[str]:
    # Reads the library: some seconds that most exports do without.
    from headlight_model.texts import corpus, functions  # noqa: PLC0415

    docstrings_ = (
        function.docstring
        for source in corpus.files()
        if (source.part is corpus.Part.TEST) is held_out
        for function in functions.functions_of(source)
    )
    return _enough(docstrings_, count)


def comments(count: int = COUNT) -> list[str]:
    """Return at most `count` comments of code, evenly spread over the same part as `docstrings`."""
    from headlight_model.texts import corpus  # noqa: PLC0415

    blocks: list[list[str]] = [[]]
    for source in corpus.files():
        if source.part is corpus.Part.TEST:
            for line in (*source.text.splitlines(), ""):
                if (text := line.strip()).startswith("#"):
                    blocks[-1].append(text.lstrip("#!: "))
                elif blocks[-1]:
                    blocks.append([])
    return _enough((" ".join(block).strip() for block in blocks), count)


def code(count: int = COUNT) -> list[str]:
    """Return the first lines of at most `count` functions of the same part, evenly spread."""
    from headlight_model.texts import corpus, functions  # noqa: PLC0415

    bodies = (
        "\n".join(rows[each.first_line - 1 : each.last_line])
        for source in corpus.files()
        if source.part is corpus.Part.TEST
        for rows in [source.text.splitlines()]
        for each in functions.functions_of(source)
    )
    return spread(_different(text[:CODE_CHARACTERS] for text in bodies), count)


def language_reference(count: int = COUNT) -> list[str]:
    """Return at most `count` paragraphs of Python's language reference, evenly spread."""
    from headlight_model.texts import corpus  # noqa: PLC0415

    paragraphs = (
        " ".join(paragraph.split())
        for topic in corpus.topics()
        for paragraph in topic.text.split("\n\n")
    )
    return _enough(paragraphs, count)


def _enough(texts: Iterable[str], count: int) -> list[str]:
    return spread(_different(text for text in texts if len(text.split()) >= LEAST_WORDS), count)


def spread(texts: Sequence[T], count: int) -> list[T]:
    """Return at most `count` of the texts, evenly spread."""
    if len(texts) <= count:
        return list(texts)
    return [texts[i * len(texts) // count] for i in range(count)]


def _library(texts: Callable[..., list[str]]) -> str:
    if texts is varied:
        kinds = "questions, other languages; docstrings, comments and code of Python"
        return f"{kinds} {platform.python_version()}"
    return f"{texts.__name__.replace('_', ' ')} of Python {platform.python_version()}"


def _of(file: Path) -> tuple[list[str], str]:
    """Return the lines of a file, and their description for the report."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(
            f"{file} is not UTF-8 text; --texts takes a file of a text a line"
        ) from None
    return _different(line.strip() for line in lines if line.strip()), f"lines of {file.name}"


def _different(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _random(config: EncoderConfig) -> Passages:
    """Return random ids, 2 to 64 for each text."""
    lengths = [min(config.max_length, 2 + i * 7 % 63) for i in range(COUNT // 2)]
    items = tuple(
        Passage(random_ids(config, n, SEED + i), random_segments(config, n, SEED + i))
        for i, n in enumerate(lengths)
    )
    return Passages("random ids", False, items)
