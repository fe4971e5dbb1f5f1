"""Rules by which a model with a vector for each token reads queries and documents.

sentence-transformers has them in its modules (MultiVectorEncoder), PyLate among the settings of the
whole model, and Stanford's ColBERT in artifact.metadata. They name tokens, which the folder's
tokenizer makes ids of.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from torch import Tensor

from headlight.runtime.bundle.roles import RoleRules
from headlight.spec import INPUT_ROLES, InputRole
from headlight_export.folders.model_folder import CONFIG, Refused, read_object
from headlight_export.folders.sentence_modules import DenseLayer
from headlight_export.tokenizers.special_tokens import special_token
from headlight_export.tokenizers.tokenizer_file import read_settings
from headlight_model.checkpoint import printable

PUNCTUATION = tuple(string.punctuation)
# PyLate's settings, and what it takes without one.
PYLATE: dict[str, Any] = {
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": 32,
    "document_length": 180,
    "do_query_expansion": True,
    "attend_to_expansion_tokens": False,
    "skiplist_words": [*PUNCTUATION],
}
METADATA = "artifact.metadata"
PROJECTION = "linear.weight"  # beside Stanford's encoder, and Voyage's: [n, dim]
EXPANSION = "query_expansion"
EXPANSION_KEYS = {"strategy", "attend", "token", "length"}
USUAL_FILLERS = ("mask_token", "eos_token")  # the first one that the tokenizer has


class SpelledRules(NamedTuple):
    """Rules of one role, with its tokens as they are spelled; see `RoleRules`.

    Attributes:
        max_length: None: as many tokens as the model takes.
        marker: empty: none.
        filler: empty: the first of USUAL_FILLERS.
        filled, attends: as in `RoleRules`.
        skipped: words.
        unknown: whether a word that is no token stands for the unknown token.
    """

    max_length: int | None
    marker: str = ""
    filler: str = ""
    filled: int = 0
    attends: bool = False
    skipped: tuple[str, ...] = ()
    unknown: bool = False


Spelled = Mapping[InputRole, SpelledRules]


def is_pylate(settings: Mapping[str, Any]) -> bool:
    """Return whether settings without a model_type are those of PyLate, which once wrote none."""
    return "query_prefix" in settings and "document_prefix" in settings


def rules_of_modules(
    folder: Path, settings: Mapping[str, Any], mask: Path | None, longest: int | None
) -> Spelled:
    """Return the rules of a MultiVectorEncoder. Its markers are prompts.

    Args:
        folder: of its Transformer.
        settings: of its Transformer.
        mask: folder of its MultiVectorMask; None: it has none.
        longest: tokens of a text without a role; None: no limit.

    Raises:
        Refused: a setting would change vectors in a way that cannot be served.
    """
    lengths = {
        role: _count(folder, settings, f"{role}_length")
        if settings.get(f"{role}_length") is not None
        else longest
        for role in INPUT_ROLES
    }
    skipped = {} if mask is None else _skipped(mask)
    rules = {
        role: SpelledRules(lengths[role], skipped=skipped.get(role, ())) for role in INPUT_ROLES
    }
    expansion = settings.get(EXPANSION)
    if expansion is None:
        return rules
    right = isinstance(expansion, dict) and set(expansion) <= EXPANSION_KEYS
    attends = expansion.get("attend", False) if right else None
    strategy = expansion.get("strategy") if right else None
    if strategy not in ("fixed", "min") or not isinstance(attends, bool):
        raise Refused(f"{folder}: {EXPANSION} {expansion!a:.200} cannot be served; save it anew")
    if mask is None:
        raise Refused(
            f"{folder}: {EXPANSION} needs a MultiVectorMask behind it; add one and save the model"
        )
    filled, most = _count(folder, expansion, "length"), lengths["query"]
    most = filled if strategy == "fixed" else most and max(most, filled)
    rules["query"] = rules["query"]._replace(
        max_length=most,
        filler=_text(folder, expansion, "token"),
        filled=filled,
        attends=attends,
    )
    return rules


def rules_of_pylate(path: Path, stated: Mapping[str, Any]) -> Spelled:
    """Return the rules of PyLate's settings.

    Raises:
        Refused: one is not what PyLate writes.
    """
    settings = PYLATE | {key: value for key, value in stated.items() if value is not None}
    lengths = {role: _count(path, settings, f"{role}_length") for role in INPUT_ROLES}
    markers = {role: _text(path, settings, f"{role}_prefix") for role in INPUT_ROLES}
    fills = bool(settings["do_query_expansion"])
    return {
        "query": SpelledRules(
            lengths["query"],
            markers["query"],
            filled=lengths["query"] if fills else 0,
            attends=fills and bool(settings["attend_to_expansion_tokens"]),
        ),
        "document": SpelledRules(
            lengths["document"],
            markers["document"],
            skipped=_words(path, settings, "skiplist_words"),
            unknown=True,
        ),
    }


def rules_of_stanford(folder: Path) -> Spelled:
    """Return the rules of artifact.metadata.

    Raises:
        Refused: it is missing, or says something that cannot be served.
    """
    path = folder / METADATA
    settings = read_object(path)
    if settings.get("similarity", "cosine") != "cosine":
        raise Refused(f"{path}: similarity {settings['similarity']!a:.60}: only cosine is served")
    length = _count(path, settings, "query_maxlen")
    return {
        "query": SpelledRules(
            length,
            _text(path, settings, "query_token_id") or "[unused0]",
            filled=length,
            attends=bool(settings.get("attend_to_mask_tokens")),
        ),
        "document": SpelledRules(
            _count(path, settings, "doc_maxlen"),
            _text(path, settings, "doc_token_id") or "[unused1]",
            skipped=PUNCTUATION if settings.get("mask_punctuation", True) else (),
        ),
    }


def longest_of(rules: Spelled) -> int | None:
    """Return the tokens of the longest text of a role; None: no limit."""
    lengths = [each.max_length for each in rules.values() if each.max_length is not None]
    return max(lengths) if len(lengths) == len(rules) else None


def take_projection(tensors: dict[str, Tensor]) -> DenseLayer:
    """Take the layer on vectors of tokens out of a folder's tensors.

    Raises:
        Refused: it has none.
    """
    weight = tensors.pop(PROJECTION, None)
    if weight is None or weight.ndim != 2:
        raise Refused(
            f"the weights have no matrix {PROJECTION}, which makes the vectors of tokens; save the "
            "trained model"
        )
    return DenseLayer(weight, None, "identity")


def role_rules(
    spelled: Spelled, folder: Path, tokenizer: str | None, longest: int, requested: int | None
) -> dict[str, RoleRules]:
    """Return the rules with the ids of a tokenizer.

    Args:
        spelled: the rules.
        folder: of the tokenizer's settings.
        tokenizer: text of tokenizer.json; None: none is exported.
        longest: tokens that the exported model takes.
        requested: by --max-length; it is for documents.

    Raises:
        Refused: the tokenizer lacks a token, or the model takes fewer tokens than a query has.
    """
    ids = _Ids(folder, tokenizer)
    rules: dict[str, RoleRules] = {}
    for role, each in spelled.items():
        if each.filled > longest:
            limit = "the model takes" if requested is None else "--max-length is"
            raise Refused(
                f"{limit} {longest} tokens, and a {role} is filled up to {each.filled}; "
                "it needs as many"
            )
        most = each.max_length if requested is None or role == "query" else requested
        filler = ids.filler(each.filler) if each.filled else None
        skipped = ids.of_words(each.skipped, unknown=each.unknown)
        if filler in skipped:
            raise Refused(
                f"{folder}: skiplist_words has the token that fills a {role} up; take it out"
            )
        rules[role] = RoleRules(
            max_length=min(most or longest, longest),
            marker=ids.of(each.marker) if each.marker else None,
            expansion=filler,
            expanded_length=each.filled,
            attend_to_expansion=each.attends,
            skiplist=skipped,
        )
    return rules


class _Ids:
    """Ids of the tokens that rules name."""

    def __init__(self, folder: Path, tokenizer: str | None) -> None:
        self._folder = folder
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer) if tokenizer else None

    def of(self, token: str) -> int:
        """Return the id of a token.

        Raises:
            Refused: it has none. Other libraries would add it, with a random embedding.
        """
        number = self._number(token)
        if number is None:
            raise Refused(
                f"{self._folder}: the tokenizer has no token {printable(token)}, which queries or "
                "documents have; save the trained model with its tokenizer"
            )
        return number

    def of_words(self, words: tuple[str, ...], *, unknown: bool) -> tuple[int, ...]:
        """Return the ids of words; one that is no token has none, or that of the unknown token."""
        if not words:
            return ()
        numbers = [self._number(word) for word in words]
        if unknown and None in numbers and (token := special_token(self._folder, "unk_token")):
            numbers.append(self._number(token))
        return tuple(dict.fromkeys(number for number in numbers if number is not None))

    def filler(self, token: str) -> int:
        """Return the id of a token that fills queries up; empty: the usual one.

        Raises:
            Refused: it has none, or texts are filled in front.
        """
        if read_settings(self._folder).get("padding_side") == "left":
            raise Refused(
                f"{self._folder}: padding_side left cannot be served with query expansion; "
                "save the tokenizer with padding_side right"
            )
        for name in (token, *(special_token(self._folder, key) for key in USUAL_FILLERS)):
            if name:
                return self.of(name)
        raise Refused(
            f"{self._folder}: queries are filled up, and the tokenizer has neither mask_token nor "
            "eos_token; name a token in query_expansion"
        )

    def _number(self, token: str) -> int | None:
        if self._tokenizer is None:
            raise Refused(
                "queries and documents have tokens that a tokenizer knows; leave --ids-only out"
            )
        number: int | None = self._tokenizer.token_to_id(token)
        return number


def _skipped(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the words without vectors of a MultiVectorMask, by role.

    Raises:
        Refused: it has another setting, or one that cannot be served.
    """
    path = folder / CONFIG
    config = read_object(path)
    roles = config.get("skiplist_tasks")
    roles = ["document"] if roles is None else roles
    strange = sorted({key for key in config if config[key]} - {"skiplist_words", "skiplist_tasks"})
    if strange:
        raise Refused(f"{path}: {strange[0]!a:.60} cannot be served; save the model without it")
    if not isinstance(roles, list) or not all(role in INPUT_ROLES for role in roles):
        raise Refused(
            f"{path}: skiplist_tasks {roles!a:.60} cannot be served; choose of {INPUT_ROLES}"
        )
    return dict.fromkeys(roles, _words(path, config, "skiplist_words"))


def _words(path: Path, settings: Mapping[str, Any], key: str) -> tuple[str, ...]:
    words = settings.get(key) or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Refused(f"{path}: {key} is not a list of words; correct it")
    return tuple(words)


def _text(path: Path, settings: Mapping[str, Any], key: str) -> str:
    text = settings.get(key)
    if not isinstance(text, str | None):
        raise Refused(f"{path}: {key} is {text!a:.60}; it must be a token")
    return text or ""


def _count(path: Path, settings: Mapping[str, Any], key: str) -> int:
    count = settings.get(key)
    if type(count) is not int or count < 1:
        raise Refused(f"{path}: {key} is {count!a:.60}; it must be a number of tokens, at least 1")
    return count
