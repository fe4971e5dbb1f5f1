"""Special tokens that a text spells out.

Parsed, or read as plain text, with a tokenizer of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, processors

from headlight import AttentionSpec, InvalidInput, Span
from headlight.results import TokenList
from headlight.runtime import Runtime, Tokenizer
from headlight.spec import SpecialTokens, TokensSpec
from tests.factory import declaring
from tests.unigrams import pieces

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*BERT, "a", "b", "##b", "[", "]", "sep", "mask", "SEP", "own"]
AROUND = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
)


def word_piece() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return declared(tokenizer)


def word_piece_of_words() -> tokenizers.Tokenizer:
    """Return a WordPiece that leaves "[SEP]" whole, so that the model itself knows it."""
    tokenizer = word_piece()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def word_level() -> tokenizers.Tokenizer:
    """Return a word-level tokenizer; only template and vocabulary know special tokens."""
    tokenizer = tokenizers.Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = AROUND
    return tokenizer


def characters() -> tokenizers.Tokenizer:
    letters = [*BERT, *"[]SEPMAK</>s ab"]
    tokenizer = tokenizers.Tokenizer(
        models.WordLevel({letter: at for at, letter in enumerate(letters)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return declared(tokenizer)


def byte_level(*, whole_words: bool = False) -> tokenizers.Tokenizer:
    """Return a BPE tokenizer.

    `whole_words`: known words are not merged, as in Llama 3.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: at for at, letter in enumerate([*BERT, *letters, "ab"])}
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocabulary, [("a", "b")], ignore_merges=whole_words)
    )
    split = pre_tokenizers.WhitespaceSplit() if whole_words else None
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not whole_words)
    tokenizer.pre_tokenizer = (
        bytes_alone if split is None else pre_tokenizers.Sequence([split, bytes_alone])
    )
    return declared(tokenizer)


def declared(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    tokenizer.post_processor = AROUND
    tokenizer.add_special_tokens([*BERT[:4], AddedToken("[MASK]", lstrip=True)])
    tokenizer.add_tokens(["own"])
    return tokenizer


KINDS: dict[str, Callable[[], tokenizers.Tokenizer]] = {
    "WordPiece": word_piece,
    "WordPiece of whole words": word_piece_of_words,
    "WordLevel": word_level,
    "characters": characters,
    "byte-level BPE": byte_level,
    "byte-level BPE of whole words": lambda: byte_level(whole_words=True),
    "Unigram": pieces,
    "Unigram without white space": lambda: pieces(pre_tokenizers.WhitespaceSplit(), None),
}


@pytest.fixture(params=KINDS)
def raw(request: pytest.FixtureRequest) -> tokenizers.Tokenizer:
    return KINDS[request.param]()


@pytest.fixture
def tokenizer(raw: tokenizers.Tokenizer, tmp_path: Path) -> Tokenizer:
    raw.save(str(tmp_path / "tokenizer.json"))
    return Tokenizer(tmp_path / "tokenizer.json", max_length=64)


def separator(raw: tokenizers.Tokenizer) -> str:
    return "[SEP]" if raw.token_to_id("[SEP]") is not None else "</s>"


def read(
    tokenizer: Tokenizer, text: str | tuple[str, str], special_tokens: SpecialTokens = "parse"
) -> TokenList:
    [found] = tokenizer.encode_each([text], with_info=True, special_tokens=special_tokens)
    [bare] = tokenizer.encode_each([text], special_tokens=special_tokens)
    assert found.info is not None
    assert bare.ids.tolist() == list(found.info.ids), (
        "read alike, whether its tokens are asked for or not"
    )
    return found.info


def spelled(info: TokenList) -> list[tuple[int, int]]:
    """Return the nonempty offsets of special tokens."""
    return [
        (start, end)
        for special, start, end in zip(info.special, info.starts, info.ends, strict=True)
        if special and end
    ]


def test_a_spelled_out_special_token_is_parsed_as_special(
    raw: tokenizers.Tokenizer, tokenizer: Tokenizer
) -> None:
    written = separator(raw)
    info = read(tokenizer, f"a {written} b")
    assert list(info.ids) == raw.encode(f"a {written} b").ids, "as Hugging Face reads it"
    assert spelled(info) == [(2, 2 + len(written))]
    assert info.ids[info.starts.index(2)] == raw.token_to_id(written)
    pair = read(tokenizer, (f"a {written} b", f"{written} a"))
    assert spelled(pair) == [(2, 2 + len(written)), (0, len(written))]


def test_special_tokens_read_as_text_are_plain_characters(
    raw: tokenizers.Tokenizer, tokenizer: Tokenizer
) -> None:
    written = separator(raw)
    for text in (f"a {written} b", f"{written}{written}", f"a{written}", ("a", f"{written} b")):
        info, separators = read(tokenizer, text, "text"), raw.token_to_id(written)
        around = raw.encode("a") if isinstance(text, str) else raw.encode("a", "b")
        assert separators is not None
        assert info.ids.count(separators) == around.ids.count(separators)
        assert spelled(info) == []
        assert sum(info.special) == sum(around.special_tokens_mask)
    info = read(tokenizer, f"a {written} b", "text")
    covered = {
        at for start, end in zip(info.starts, info.ends, strict=True) for at in range(start, end)
    }
    assert covered.issuperset(range(2, 2 + len(written))), "each character has a token"


def test_ordinary_texts_are_unchanged_by_reading_special_tokens_as_text(
    raw: tokenizers.Tokenizer, tokenizer: Tokenizer
) -> None:
    for text in ("a ab own b [x]", ("own a", "b"), "hello world <x> zzz"):
        assert read(tokenizer, text, "text") == read(tokenizer, text)


@pytest.mark.parametrize("kind", ["WordPiece", "characters", "byte-level BPE"])
def test_ids_read_as_text_match_a_library_tokenizer_without_special_tokens(
    kind: str, tmp_path: Path
) -> None:
    raw = KINDS[kind]()
    raw.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=64)
    raw.encode_special_tokens = True
    for text in ("a [SEP] b", "[MASK][CLS]ab", "own [UNK] [PAD] a"):
        assert list(read(tokenizer, text, "text").ids) == raw.encode(text).ids


def test_an_unknown_word_is_not_special_but_a_spelled_out_unk_token_is(tmp_path: Path) -> None:
    for kind, unknown in (("WordPiece", "[UNK]"), ("characters", "[UNK]"), ("Unigram", "<unk>")):
        raw = KINDS[kind]()
        raw.save(str(tmp_path / "tokenizer.json"))
        tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=64)
        info = read(tokenizer, f"日 {unknown}")
        assert info.ids.count(raw.token_to_id(unknown)) == 2
        assert spelled(info) == [(2, 2 + len(unknown))]


def test_parsing_and_reading_as_text_do_not_interfere(
    raw: tokenizers.Tokenizer, tokenizer: Tokenizer
) -> None:
    text = f"a {separator(raw)} b"
    first = [read(tokenizer, text, way) for way in ("parse", "text")]
    assert first[0].ids != first[1].ids
    assert [read(tokenizer, text, way) for way in ("parse", "text")] == first


def test_truncation_does_not_protect_spelled_out_special_tokens(tmp_path: Path) -> None:
    word_piece().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=4)
    info = tokenizer.encode("a b [SEP] [SEP] [SEP]", truncation="cut_end", with_info=True).info
    assert info is not None
    assert info.pieces == ("[CLS]", "a", "b", "[SEP]")
    assert info.special == (True, False, False, True)


def test_a_prompt_is_read_in_the_same_way_as_its_text(tmp_path: Path) -> None:
    word_piece().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=32, include_prompt=False)
    parsed = tokenizer.encode("a [SEP]", prompt="[MASK] ", with_info=True)
    plain = tokenizer.encode("a [SEP]", prompt="[MASK] ", with_info=True, special_tokens="text")
    assert (parsed.prompt_length, plain.prompt_length) == (1, 3)
    assert (parsed.left_out, plain.left_out) == (2, 4)
    assert parsed.info is not None
    assert plain.info is not None
    assert parsed.info.special == (True, True, False, True, True)
    assert spelled(parsed.info) == [(2, 7)], "offsets count the text without its prompt"
    assert sum(plain.info.special) == 2


@pytest.fixture(scope="module")
def runtime(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """Return a runtime whose tokenizer declares its special tokens, as published ones do."""
    return Runtime(
        declaring(bundle_path, tmp_path_factory.mktemp("declaring") / "bundle"), threads=1
    )


def test_attention_without_special_tokens_excludes_spelled_out_ones(runtime: Runtime) -> None:
    [parsed, plain] = (
        runtime.encode_items(
            ["a [SEP] b"], attention=AttentionSpec(drop_special=True), special_tokens=way
        )[0].attention
        for way in ("parse", "text")
    )
    assert parsed is not None
    assert plain is not None
    assert parsed.shape[-2:] == (2, 2), "a, b"
    assert plain.shape[-2:] == (7, 7), "a, [, s, e, p, ], b"


def test_selectors_treat_spelled_out_special_tokens_as_special(
    runtime: Runtime,
) -> None:
    text = ["a [SEP] b"]
    [rows] = runtime.encode_items(text, tokens=TokensSpec(skip_special=True))
    assert rows.tokens is not None
    assert len(rows.tokens) == 2
    [whole] = runtime.encode_items(text, attention=AttentionSpec())
    [chosen] = runtime.encode_items(
        text, attention=AttentionSpec(queries="special", keys=Span(2, 7))
    )
    assert whole.attention is not None
    assert chosen.attention is not None
    assert chosen.attention.shape[-2:] == (3, 1)
    assert (chosen.attention[..., 0] == whole.attention[:, :, [0, 2, 4], 2]).all()
    [statistics] = runtime.encode_items(text, attention=AttentionSpec(reduce=("statistics",)))
    assert statistics.attention is not None
    share = whole.attention[..., [0, 2, 4]].sum(-1).mean(-1)
    assert statistics.attention[..., 1] == pytest.approx(share, abs=1e-5)


def test_an_invalid_special_tokens_option_is_refused(runtime: Runtime) -> None:
    with pytest.raises(
        InvalidInput, match=r"^special_tokens: is 'html'; must be one of parse, text$"
    ):
        runtime.encode_items(["a"], special_tokens="html")  # type: ignore[arg-type]
