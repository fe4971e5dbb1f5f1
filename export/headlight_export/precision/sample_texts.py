"""Texts to judge reduced precision by.

Random ids would make it look worse, and neighbours among them mean nothing.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable
from pathlib import Path

from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.values import Ids
from headlight_export.parity.reference import random_ids, random_segments
from headlight_model.config import EncoderConfig

COUNT = 400
FEWEST = 20  # enough for ten neighbours that are not all texts
LEAST_WORDS = 8
LONGEST = 256  # tokens; longer texts are cut
SEED = 5


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
    """

    about: str
    real: bool
    items: tuple[Passage, ...]


def passages(config: EncoderConfig, tokenizer: Path | None, file: Path | None) -> Passages:
    """Return the texts to judge by.

    Args:
        config: of the encoder.
        tokenizer: tokenizer.json; None: the texts are random ids.
        file: UTF-8, a text a line; None: docstrings of Python's own library, from modules on which
            no shipped model was trained.

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
    texts, about = (
        (docstrings(), f"docstrings of Python {platform.python_version()}")
        if file is None
        else _of(file)
    )
    reader = Tokenizer(tokenizer, min(config.max_length, LONGEST))
    found: dict[bytes, Passage] = {}
    for text in texts:
        read = reader.encode(text, truncation="cut_end", with_info=False)
        found.setdefault(
            read.ids.tobytes(), Passage(read.ids, read.segments if config.segments else None)
        )
    if len(found) < FEWEST:
        raise ValueError(
            f"{file or 'the library'} holds {len(found)} different texts; "
            f"at least {FEWEST} are needed"
        )
    return Passages(about, True, tuple(found.values()))


def docstrings(count: int = COUNT) -> list[str]:
    """Return at most `count` docstrings of functions, evenly spread over Python's own library.

    Only its part kept for tests is used.
    """
    # Reads the library: some seconds that most exports do without.
    from headlight_model.train.data import corpus, functions  # noqa: PLC0415

    sources = [
        source for source in corpus.files() if corpus.part_of(source.module) is corpus.Part.TEST
    ]
    found = (
        function.docstring for source in sources for function in functions.functions_of(source)
    )
    texts = _different(text for text in found if len(text.split()) >= LEAST_WORDS)
    return [texts[i * len(texts) // count] for i in range(count)] if len(texts) > count else texts


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
