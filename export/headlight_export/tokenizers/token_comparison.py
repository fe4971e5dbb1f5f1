"""Comparison of our token ids with those of transformers, if that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from headlight_export.folders.max_length import TOKENIZER_CONFIG
from headlight_export.folders.model_folder import read_object
from headlight_export.folders.origin import OURS, Origin
from headlight_export.tokenizers.added_tokens import named
from headlight_export.tokenizers.tokenizer_file import read_settings

SINCE = 5  # the version from which transformers makes tokenizers as we do
TEXTS = (
    "",
    "hello world",
    " hello",
    "hello ",
    "  doubled   spaces  ",
    "lines\nof\r\n\r\ntext\n",
    "\ttabs\tand \t more\t",
    " ",
    "Ünïcödé Straße, naïve CAFÉ, İstanbul ﬁne",
    "e\u0301te\u0301 a\u030angstro\u0308m",
    "今天天气非常好。こんにちは 한국어",
    "Привет, мир! मन्त्र مرحبا",
    "🙂🙃 emoji \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "[CLS] [SEP] and [MASK] [UNK][PAD]",
    "<s> </s> and <mask> <unk><pad>",
    "<|endoftext|> <|im_end|> <bos><eos>",
    "don't you're 3.14 e-mail a_b C++ #tag https://a.example/b?c=1",
    "no\u00a0break\u3000wide \u200bzero\ufeffwidth\u2028line",
    "longwordlongwordlongwordlongword" * 8,
    "a text of some length, of WORDS and 1,234 numbers. " * 20,
)
SHOWN = 12  # ids of each, from a few before the first that differs


def tokens_against_transformers(origin: Origin) -> str | None:
    """Compare the ids of another project's folder by `compare_ids`.

    None if the folder is ours or has no tokenizer.
    """
    if origin.tokenizer is None or origin.family == OURS:
        return None
    return compare_ids(
        origin.recipe.transformer, origin.tokenizer, lower_case=origin.recipe.lower_case
    )


def compare_ids(folder: Path, text: str, *, lower_case: bool = False) -> str | None:
    """Compare the ids of TEXTS, and of a text with each of the folder's added tokens.

    Args:
        folder: of the tokenizer's files.
        text: of our tokenizer.json for it.
        lower_case: ours lower-cases first, which a folder's settings may request of the caller.

    Returns:
        A line for the user: that they agree, or the reason that nothing was compared; None:
        transformers is not installed.

    Raises:
        ValueError: the ids of a text differ.
    """
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers  # noqa: PLC0415  (an optional dependency, and seconds to import)

    name, missing = f"transformers {transformers.__version__}", "token ids were not compared with "
    if int(transformers.__version__.split(".")[0]) < SINCE:
        return f"{missing}{name}, which has other tokenizers than version {SINCE}"
    if _has_code(folder):
        return f"{missing}{name}: the tokenizer has code of its own, which is never run"
    transformers.logging.set_verbosity_error()
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as problem:  # transformers raises any type
        return " ".join(
            f"{missing}{name}, which cannot load the tokenizer ({problem!r:.200})".split()
        )
    ours = tokenizers.Tokenizer.from_str(text)
    added = _added(folder, ours)
    texts = (
        *TEXTS,
        *(f"{token} x{token}y {token}" for token in added),
    )  # at both ends, between words and inside one
    for one in (each.lower() if lower_case else each for each in texts):
        expected = list(theirs(one, truncation=False, padding=False)["input_ids"])
        if (ids := ours.encode(one).ids) != expected:
            raise ValueError(
                f"{folder}: {one[:80]!r} has {_difference(ids, expected, name)}; {_remedy(folder)}"
            )
    compared = f"token ids of {len(TEXTS)} texts and {len(added)} special or added tokens"
    return f"{compared} are those of {name} ({type(theirs).__name__})"


def _added(folder: Path, ours: tokenizers.Tokenizer) -> list[str]:
    """Return the tokens that the folder's files name.

    Tokens that only a class defines, such as CamemBERT's <unk>NOTUSED, are left out: no text has
    them.
    """
    contents = [token.content for _, token in sorted(ours.get_added_tokens_decoder().items())]
    return list(
        dict.fromkeys([*contents, *(token for _, token in named(folder, read_settings(folder)))])
    )


def _has_code(folder: Path) -> bool:
    """Return whether tokenizer_config.json names a class outside transformers."""
    path = folder / TOKENIZER_CONFIG
    auto_map = read_object(path).get("auto_map") if path.is_file() else None
    return isinstance(auto_map, list) or (
        isinstance(auto_map, dict) and "AutoTokenizer" in auto_map
    )


def _difference(ours: Sequence[int], theirs: Sequence[int], name: str) -> str:
    pairs = zip(ours, theirs, strict=False)
    at = next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(ours), len(theirs))
    )
    begin = max(0, at - 3)

    def shown(ids: Sequence[int]) -> str:
        inside = ", ".join(map(str, ids[begin : begin + SHOWN]))
        return f"[{'..., ' if begin else ''}{inside}{', ...' if len(ids) > begin + SHOWN else ''}]"

    return f"the ids {shown(ours)} by its files, {shown(theirs)} in {name}"


def _remedy(folder: Path) -> str:
    saved = "save it as it is there: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
    if not (folder / "tokenizer.json").is_file():
        return saved
    return (
        f"{saved}; or, if tokenizer.json is right, name PreTrainedTokenizerFast as "
        f"tokenizer_class in {TOKENIZER_CONFIG}"
    )
