"""The subword tokenizer of the shipped models: WordPiece, lower-case, trained on the corpus.

Runs of underscores, runs of one punctuation mark, words and line ends are separated before
subwords are learnt, so that no piece mixes them and each is readable in a heat map. A line end is a
piece of its own: it shows where statements begin, at the price of one token a line. Blank lines and
indentation are left out, to save tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordPiece
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordPieceTrainer

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
LINE_END = "⏎"
VOCAB_SIZE = 7168
ALPHABET = 256  # characters that have a piece of their own; rarer ones are unknown
# A line break without another in the white space after it. `\s*` instead of `[^\S\n]*` finds the
# same, but scans all blank lines from each of them: 131,072 line breaks took 25 s.
LAST_BREAK = r"\n(?![^\S\n]*\n)"
PIECES = rf"{LINE_END}|_+|[^\W_]+|([^\w\s])\1*"


def shell(model: WordPiece) -> Tokenizer:
    """Return a tokenizer around `model` that normalises and splits as this module describes."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            # Several line breaks become one, the last.
            normalizers.Replace(Regex(LAST_BREAK), LINE_END),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), behavior="removed", invert=True)
    return tokenizer


def letters(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Return the ALPHABET most frequent characters of the texts, normalised by the tokenizer.

    Ties by code point.
    """
    assert tokenizer.normalizer is not None  # set in `shell`
    counts = Counter(
        char
        for text in texts
        for char in tokenizer.normalizer.normalize_str(text)
        if not char.isspace()
    )
    return sorted(sorted(counts), key=counts.__getitem__, reverse=True)[:ALPHABET]


def train_tokenizer(texts: Iterable[str], vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces.

    The same texts in the same order give the same tokenizer.

    Returns:
        A tokenizer for one text, `[CLS] A [SEP]`, or a pair, `[CLS] A [SEP] B [SEP]` with type ids
        0 and 1. It neither truncates nor pads. Offsets are code points of the text as given.
    """
    texts = list(texts)
    learner = shell(WordPiece(unk_token=UNK))
    # The trainer numbers inner letters in the random order of a hash map, and breaks ties by
    # number. Declared as special they are numbered as listed; the tokenizer that is returned no
    # longer knows them as such.
    inner = [f"##{letter}" for letter in letters(learner, texts)]
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIALS, *inner],
        limit_alphabet=ALPHABET,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    tokenizer = shell(WordPiece(learner.get_vocab(), unk_token=UNK))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.post_processor = TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, CLS_ID), (SEP, SEP_ID)],
    )
    return tokenizer


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces in the order of their ids."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)
