"""Comparison of a bundle's answers to texts with sentence-transformers, if that is installed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from headlight.results import SparseVector
from headlight.runtime import Runtime
from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats
from headlight.spec import INPUT_ROLES, InputRole
from headlight_export.folders.model_folder import read_config
from headlight_export.folders.origin import OURS, Origin
from headlight_export.folders.sentence_folder import MODULES
from headlight_export.folders.sentence_modules import POOLING
from headlight_export.folders.task import CROSS_ENCODER, PYLATE, SENTENCES
from headlight_export.parity.transformers_comparison import (
    FLOOR,
    OWN_SIZES,
    SLACK,
    UNKNOWN,
    Compared,
    config_of,
)

QUERY = "which planet is red?"
# Ragged, in other scripts, code, and one of more tokens than most models take.
TEXTS = (
    "Mars",
    "Mars is often called the Red Planet, for the iron oxide on its surface.",
    "Der Mars ist rot; 火星是红色的。",
    "def red(planets): return [each for each in planets if each.colour == 'red']",
    "Jupiter is the largest planet, and Saturn has rings. " * 60,
)
MOST_PROMPTS = 3
PAIRS = tuple((QUERY, text[:300]) for text in TEXTS)


class Difference(NamedTuple):
    """Answers that disagree: the output, the distance, and the largest allowed one."""

    output: str
    error: float
    limit: float


class _Unread(Exception):
    """The library fails on a folder."""


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Raise any exception of the library as _Unread."""
    try:
        yield
    except Exception as problem:  # the library raises any type
        what = f"{type(problem).__name__}: {problem!s:.200}"
        raise _Unread(f"it cannot read the folder ({what})") from problem


def against_sentence_transformers(
    origin: Origin, runtime: Runtime, *, template: bool = False
) -> Compared:
    """Return the largest distance of a bundle's answers from sentence-transformers, in float32.

    Args:
        origin: of the folder that the bundle was exported from.
        runtime: of the bundle.
        template: whether pairs are read by a template that is not the folder's.
    """
    if why := _why_not(origin, template=template):
        return Compared(why_not=why)
    import sentence_transformers  # noqa: PLC0415  (an optional dependency, and seconds to import)

    options: dict[str, Any] = {
        "device": "cpu",
        "trust_remote_code": False,
        "local_files_only": True,
        "model_kwargs": {"attn_implementation": "eager", "dtype": torch.float32},
    }
    try:
        with _reading():
            causal = getattr(config_of(origin.recipe.transformer), "is_causal", None)
        if causal is False:
            options["config_kwargs"] = {"is_causal": False}
        answers = list(ANSWERS[origin.task](origin, runtime, options))
    except _Unread as problem:
        return Compared(why_not=str(problem))
    worst = dict[str, float]()
    for output, theirs, answer in answers:
        for mine, other in zip(answer(), theirs, strict=True):
            worst[output] = max(worst.get(output, 0.0), _distance(output, mine, other))
    return Compared(worst, sentence_transformers.__version__)


def differences(compared: Compared, own_error: Mapping[str, float]) -> list[Difference]:
    """Return the outputs that are further away than rounding explains.

    `own_error`: PyTorch's distance in float32 from float64, by output.
    """
    limits = {name: max(FLOOR, SLACK * own_error[name]) for name in compared.errors}
    return [
        Difference(name, error, limits[name])
        for name, error in compared.errors.items()
        if not error <= limits[name]
    ]


def _why_not(origin: Origin, *, template: bool) -> str:
    """Return why the library cannot be compared; empty: it can."""
    recipe = origin.recipe
    own_sizes = origin.family == "nomic_bert" and OWN_SIZES in read_config(recipe.transformer)
    own_code = origin.family in UNKNOWN or own_sizes
    reasons = {
        "it is not installed": importlib.util.find_spec("sentence_transformers") is None,
        "it cannot read a checkpoint of ours": origin.family == OURS,
        "without a tokenizer, there are no texts": origin.tokenizer is None,
        "it needs the folder's own code": own_code,
        f"it has no models that {origin.task}; transformers has": origin.task not in ANSWERS,
        "the folder is of PyLate": recipe.kind == PYLATE,
        "it does not read pairs by --pair-template": template,
        "the folder does not name the tokens that score": origin.score_tokens
        and recipe.kind != CROSS_ENCODER,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _distance(output: str, ours: Floats, theirs: Floats) -> float:
    """Return the distance of one answer; that of a pooled vector is over its length."""
    if ours.shape != theirs.shape:
        return float("inf")
    size = float(np.linalg.norm(theirs)) if output == "pooled" else 1.0
    return distance(output, ours / size, theirs / size)


# Output, their answers, and a function that computes ours.
Answers = Iterator[tuple[str, Sequence[Floats], Callable[[], Iterable[Floats]]]]


def _vectors(origin: Origin, runtime: Runtime, options: Mapping[str, Any]) -> Answers:
    """Yield pooled vectors, without a prompt and with some of the folder's."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    recipe, config = origin.recipe, origin.encoder.config
    whole = recipe.kind == SENTENCES and (origin.folder / MODULES).is_file()
    with _reading():
        theirs = SentenceTransformer(str(origin.folder if whole else recipe.transformer), **options)
    if not whole:  # the library adds a mean
        [mode] = [name for name, ours in POOLING.items() if ours == config.pooling]
        with _reading():
            theirs[1] = type(theirs[1])(config.dim, pooling_mode=mode)
    theirs.max_seq_length = config.max_length
    theirs.truncate_dim = None
    for name in (None, *sorted(recipe.prompts)[:MOST_PROMPTS]):
        ours = functools.partial(runtime.encode, TEXTS, prompt_name=name, truncate="end")
        with _reading():
            rows = theirs.encode([*TEXTS], prompt_name=name)
        yield "pooled", rows, ours


def _scores(origin: Origin, runtime: Runtime, options: Mapping[str, Any]) -> Answers:
    """Yield logits of pairs."""
    from sentence_transformers import CrossEncoder  # noqa: PLC0415

    with _reading():
        theirs = CrossEncoder(str(origin.folder), **options)
        theirs.max_seq_length = origin.encoder.config.max_length
        logits = theirs.predict([*PAIRS], activation_fn=torch.nn.Identity())

    def ours() -> list[Floats]:
        return [each.logits for each in runtime.scores(PAIRS, truncate="end")]

    yield "scores", logits.reshape(-1, 1), ours


def _terms(origin: Origin, runtime: Runtime, options: Mapping[str, Any]) -> Answers:
    """Yield weights of all terms, of each role if their weights differ."""
    from sentence_transformers import SparseEncoder  # noqa: PLC0415

    with _reading():
        theirs = SparseEncoder(str(origin.folder), **options)
    theirs.max_seq_length = origin.encoder.config.max_length
    theirs.max_active_dims = None
    encode: dict[InputRole | None, Any] = {None: theirs.encode}
    if origin.query_terms is not None:
        encode = {"query": theirs.encode_query, "document": theirs.encode_document}
    for role, method in encode.items():
        with _reading():
            rows = method([*TEXTS], convert_to_sparse_tensor=False).numpy()

        def ours(role: InputRole | None = role, width: int = rows.shape[1]) -> list[Floats]:
            vectors = runtime.encode_sparse(TEXTS, role=role, truncate="end")
            return [_dense(each, width) for each in vectors]

        yield "sparse", rows, ours


def _dense(vector: SparseVector, width: int) -> Floats:
    """Return float32 [width] of the weights of some terms."""
    row = np.zeros(width, np.float32)
    row[vector.indices] = vector.values
    return row


def _matches(origin: Origin, runtime: Runtime, options: Mapping[str, Any]) -> Answers:
    """Yield vectors of each token, of queries and of documents."""
    with _reading():
        from sentence_transformers import MultiVectorEncoder  # noqa: PLC0415  (since version 6)

        theirs = MultiVectorEncoder(str(origin.folder), **options)
    encode = {"query": theirs.encode_query, "document": theirs.encode_document}
    for role in INPUT_ROLES:
        ours = functools.partial(runtime.encode_multi_vector, TEXTS, role=role, truncate="end")
        with _reading():
            rows = encode[role]([*TEXTS], convert_to_numpy=True)
        yield "multi_vector", rows, ours


# By the task of a bundle.
ANSWERS = {"embed": _vectors, "rerank": _scores, "sparse": _terms, "multi_vector": _matches}
