"""A folder's tokenizer as one tokenizer.json, read or built from a WordPiece vocabulary."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight.runtime.bundle.pair_template import PairTemplate
from headlight.runtime.tokenization.tokenizer import open_tokenizer
from headlight.runtime.tokenization.tokenizer_probe import limit_of
from headlight_export.folders.max_length import TOKENIZER_CONFIG
from headlight_export.folders.model_folder import Refused, read_object
from headlight_export.tokenizers.added_tokens import check_added
from headlight_export.tokenizers.bpe_words import split_before_spaces
from headlight_export.tokenizers.tokenizer_class import BART, GPT2, QWEN2, ROBERTA, class_of
from headlight_export.tokenizers.unigram import parts_of, split_at_white_space
from headlight_export.tokenizers.wordpiece import CONVERT, VOCAB, apply_settings, build
from headlight_model.config import EncoderConfig

CLASSES = {BART, GPT2, QWEN2, ROBERTA}


def begin_as_said(
    tokenizer: tokenizers.Tokenizer, name: str | None, settings: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """Return a tokenizer that puts a space before a text if tokenizer_config.json says so.

    tokenizer.json is overridden. A tokenizer of another class (`name`) is unchanged. So is one that
    splits texts in several ways, unless it is Qwen2's, which always does.
    """
    if name not in CLASSES:
        return tokenizer
    made = json.loads(tokenizer.to_str())
    if name != QWEN2 and (made["pre_tokenizer"] or {}).get("type") == "Sequence":
        return tokenizer
    begins = bool(settings.get("add_prefix_space", False))
    for kind, part in (
        *(("ByteLevel", part) for part in parts_of(made["pre_tokenizer"], "pretokenizers")),
        *(
            ("RobertaProcessing", part) for part in parts_of(made["post_processor"], "processors")
        ),  # trims offsets by it
    ):
        if part["type"] == kind:
            part["add_prefix_space"] = begins
    return tokenizers.Tokenizer.from_str(json.dumps(made))


TOKENIZER, SPECIAL = "tokenizer.json", "special_tokens_map.json"
# Other formats of tokenizers; they are not read here.
OTHER_FILES = ("vocab.json", "merges.txt", "vocab.bpe", "*.model", "*.tiktoken", "tekken.json")


def tokenizer_json(folder: Path, *, lower_case: bool) -> str | None:
    """Return a tokenizer.json with the same ids as transformers, without truncation or padding.

    Args:
        folder: of tokenizer.json, or of vocab.txt and its settings.
        lower_case: lower-case first, as sentence-transformers does for `do_lower_case`.

    Returns:
        The text; None if the folder has no tokenizer at all.

    Raises:
        Refused: the tokenizer is damaged, or of a kind that a tokenizer.json cannot hold or this
            function cannot build.
    """
    settings = read_settings(folder)
    name = class_of(folder, settings)
    if (folder / TOKENIZER).is_file():
        tokenizer = begin_as_said(_read(folder / TOKENIZER), name, settings)
        apply_settings(tokenizer, name, settings)
        split_at_white_space(tokenizer, name, settings)
        split_before_spaces(tokenizer)
        _check_end(tokenizer, folder, settings)
        check_added(tokenizer, folder, settings)
    elif (folder / VOCAB).is_file():
        tokenizer = build(folder, name or "BertTokenizer", settings)
    else:
        others = sorted(path.name for pattern in OTHER_FILES for path in folder.glob(pattern))
        if others:
            raise Refused(
                f"{folder} has no {TOKENIZER}, only {', '.join(others)}, which is not read "
                f"here; {CONVERT}"
            )
        return None
    if lower_case:
        _lower_case_first(tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str())


def check_tokenizer(
    text: str, config: EncoderConfig, pair_template: PairTemplate | None = None
) -> None:
    """Check that a bundle of this encoder can be opened with a tokenizer.json of this text.

    Raises:
        BundleError: it cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TOKENIZER
        path.write_text(text, encoding="utf-8")
        pairs = takes_pairs(config)
        open_tokenizer(
            path,
            config.max_length,
            vocabulary=config.vocab_size,
            segments=config.segments,
            pairs=pairs,
            pair_template=pair_template,
        )


def measure_tokenizer(text: str, max_length: int) -> TokenizerLimit:
    """Return the longest text that a tokenizer.json reads at a bounded cost."""
    return limit_of(tokenizers.Tokenizer.from_str(text), max_length)


def takes_pairs(config: EncoderConfig) -> bool:
    """Return whether the model can distinguish two texts, or was trained to score them."""
    scores = config.score_head is not None and not config.score_head.each_token
    return scores or config.segments > 1


def read_settings(folder: Path) -> dict[str, Any]:
    """Return tokenizer_config.json, overridden by special_tokens_map.json.

    If the former has added_tokens_decoder, it is complete and stays alone.
    """
    files = [
        read_object(folder / name) if (folder / name).is_file() else dict[str, Any]()
        for name in (TOKENIZER_CONFIG, SPECIAL)
    ]
    return files[0] if "added_tokens_decoder" in files[0] else files[0] | files[1]


def _read(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise Refused(
            f"{path} cannot be read by the tokenizers library ({error}); fetch it anew"
        ) from error


def _check_end(tokenizer: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Check that the tokenizer puts a token after each text if the settings request one.

    Decoders often pool that token. transformers ignored tokenizer.json and added it until version
    5; since then it does not.

    Raises:
        Refused: the tokenizer adds none.
    """
    special = tokenizer.encode("a").special_tokens_mask
    if settings.get("add_eos_token") is True and special[-1:] != [1]:
        begins = special[:1] == [1] or settings.get("add_bos_token") is True
        saved = (
            f"AutoTokenizer.from_pretrained(folder, add_bos_token={begins}, "
            "add_eos_token=True).save_pretrained(folder)"
        )
        raise Refused(
            f"{folder}: {TOKENIZER_CONFIG} sets add_eos_token, but {TOKENIZER} adds no token "
            f"after a text; save it with: {saved}, or set add_eos_token to false if the model "
            "was trained without"
        )


def _lower_case_first(tokenizer: tokenizers.Tokenizer) -> None:
    present = tokenizer.normalizer
    parts = [present] if present else []
    if isinstance(present, normalizers.Sequence):
        parts = [present[i] for i in range(len(present))]
    if not any(isinstance(part, normalizers.Lowercase) for part in parts):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])
