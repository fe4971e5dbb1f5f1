"""Pairs that a template makes one text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken

from headlight.errors import BundleError, InvalidInput
from headlight.runtime.bundle.pair_template import PairTemplate
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.values import Tokenized
from headlight.spec import SpecialTokens
from tests.tokenizers_of_kinds import QWEN, of_bytes

MARK = "<|im|>"
PLAIN = (f"{MARK}q: ", "\nd: ", f"{MARK}score: ")
TEMPLATE = PairTemplate(PLAIN, (f"{MARK}do: ", "\nq: ", *PLAIN[1:]))
PAIR = ("hello world?", "a word, don't")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = of_bytes(QWEN)
    tokenizer.add_special_tokens([AddedToken(MARK, special=True)])
    path = tmp_path_factory.mktemp("pairs") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def opened(file: Path, most: int = 200, template: PairTemplate | None = TEMPLATE) -> Tokenizer:
    return Tokenizer(file, most, segments=False, pair_template=template)


def whole(file: Path, text: str) -> list[int]:
    """Return the ids of one text, without special tokens around it."""
    plain = Tokenizer(file, 200)._plain
    return list(plain.encode(text, add_special_tokens=False).ids)


def spoken(found: Tokenized, pair: tuple[str, str]) -> list[str]:
    """Return the characters of each token of the texts."""
    info = found.info
    assert info is not None
    tokens = zip(info.special, info.segments, info.starts, info.ends, strict=True)
    return [pair[text][start:end] for special, text, start, end in tokens if not special]


def test_a_pair_has_the_ids_of_the_one_text_and_the_places_of_two(file: Path) -> None:
    tokenizer = opened(file)
    for prompt, parts in (("", PLAIN), ("find!", (f"{MARK}do: find!\nq: ", *PLAIN[1:]))):
        found = tokenizer.encode(*PAIR, prompt=prompt, with_info=True)
        assert found.ids.tolist() == whole(
            file, "".join([*map("".join, zip(parts, PAIR, strict=False)), parts[2]])
        )
        assert "".join(spoken(found, PAIR)) == "".join(PAIR)
        assert found.info is not None
        assert not any(found.info.prompt)
    single = tokenizer.encode("hello", with_info=True)
    assert single.ids.tolist() == [*whole(file, "hello"), 1]


@pytest.mark.parametrize("truncation", ["cut_end", "cut_start", "cut_second"])
def test_only_the_document_is_cut(truncation: Truncation, file: Path) -> None:
    pair = ("a long query, " * 4, "a b c d e f g h")
    found = opened(file).encode(*pair, with_info=True)
    assert found.info is not None
    own = [
        at
        for at, (text, special) in enumerate(
            zip(found.info.segments, found.info.special, strict=True)
        )
        if text and not special
    ]
    lost = own[:6] if truncation == "cut_start" else own[-6:]
    cut = opened(file, len(found.ids) - 6).encode(*pair, truncation=truncation)
    assert cut.ids.tolist() == [each for at, each in enumerate(found.ids) if at not in lost]
    assert cut.original_length == len(found.ids)


def test_a_query_that_leaves_no_room_is_refused_by_name(file: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        opened(file, 40).encode("hello " * 30, "word", truncation="cut_end")
    assert error.value.field == "first"


def test_texts_far_longer_than_the_model_are_cut_as_shorter_ones(file: Path) -> None:
    words = "word 1234 hello, "
    found = [
        opened(file, 60).encode("hello?", words * count, truncation="cut_end", with_info=True)
        for count in (20, 2000)
    ]
    assert found[0].ids.tolist() == found[1].ids.tolist()


def test_special_tokens_of_texts_are_plain_if_asked_and_the_templates_are_not(file: Path) -> None:
    tokenizer, pair = opened(file), (f"hello{MARK}", f"{MARK} word")
    kinds: tuple[SpecialTokens, ...] = ("parse", "text")
    mark = whole(file, MARK)[0]
    counts = {
        kind: tokenizer.encode(*pair, special_tokens=kind).ids.tolist().count(mark)
        for kind in kinds
    }
    assert counts == {"parse": 4, "text": 2}
    found = tokenizer.encode(*pair, special_tokens="text", with_info=True)
    assert "".join(spoken(found, pair)) == "".join(pair)
    for kind in kinds:
        assert tokenizer.encode(*PAIR, special_tokens=kind).ids.tolist() == whole(
            file, "".join([PLAIN[0], PAIR[0], PLAIN[1], PAIR[1], PLAIN[2]])
        )


def test_many_inputs_are_read_as_each_alone(file: Path) -> None:
    tokenizer = opened(file)
    values: list[str | tuple[str, str]] = [PAIR, "hello", ("a", "b"), ("hello", "word"), "1234"]
    found = [each.ids.tolist() for each in tokenizer.encode_each(values)]
    alone = [next(tokenizer.encode_each([value])).ids.tolist() for value in values]
    assert found == alone


def test_a_template_without_room_for_a_document_is_refused(file: Path) -> None:
    with pytest.raises(BundleError, match="pair_template"):
        opened(file, 10)
