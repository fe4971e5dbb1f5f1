"""A runtime without a model.

Its numbers identify their origin, and its engine can be held, made to fail and watched.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headlight.description import ModelDescription, Parity
from headlight.errors import BundleError, DeviceFull, EngineError, InvalidInput, NotFinite
from headlight.outputs.tokens import rows_of
from headlight.outputs.vector_forms import AvailableForms, unit_length
from headlight.reasons import Reason
from headlight.results import TokenList
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.bundle.prompts import Prompts
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.engine.batches import AS_LONG, BATCH_TOKENS
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.runtime_description import describe
from headlight.runtime.tokenization.input_checks import checked_ids
from headlight.runtime.tokenization.input_roles import NO_RULES
from headlight.runtime.values import Architecture, GraphRole, Tokenized
from headlight.spec import InputRole
from headlight_service.config.options import Config

ARCHITECTURE = Architecture(
    positions="rope", layers=3, heads=2, dim=4, pooled_dim=4, vocab_size=100
)
FULL = "the memory of the GPU is full"
NO_NUMBER = "a result is not finite; see error id 456 in the server's log"
FAILURE = "the model failed; see error id 123 in the server's log"
LAYERS, HEADS, DIM, VOCABULARY = (
    ARCHITECTURE.layers,
    ARCHITECTURE.heads,
    ARCHITECTURE.dim,
    ARCHITECTURE.vocab_size,
)
MAX_LENGTH = 2000


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "name": "fake",
        "version": "1",
        "architecture": ARCHITECTURE,
        "trained_length": 128,
        "max_length": MAX_LENGTH,
        "pooling": "mean",
        "normalize": True,
        "accepts": ("text", "ids"),
        "graphs": (),
        "tolerances": (),
        "parity": (
            Parity(
                output="pooled", provider="cpu", precision="fp32", max_error=1e-7, tolerance=1e-5
            ),
        ),
        "golden": "golden.npz",
        "tokenizer": "tokenizer.json",
        "files": {},
        "source": {},
        "outputs": ("pooled", "tokens", "attention", "hidden", "token_info", "spans"),
    }
    return Manifest(**{**values, **changes})


def result(item: EncodeItem) -> ItemResult:
    """Return numbers that depend on the ids and on their place,
    so that any mix-up shows.
    """
    n, wanted = len(item.ids), item.selection
    base = item.ids.astype(np.float32)

    def fill(*shape: int) -> NDArray[np.float32]:
        places = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        return places + np.float32(base.sum() * 1000)

    def narrow(numbers: NDArray[np.float32], dtype: str) -> NDArray[Any]:
        return (numbers % 251).astype(dtype)  # which every type holds

    result = ItemResult()
    for output, choice in wanted.outputs():
        if output.stacked:
            result[output.name] = fill(choice.width or DIM)
            continue
        for tensor in output.tensors(choice, item.places.get(output.name), n, ARCHITECTURE):
            numbers = fill(*tensor.shape) % 251
            scaled = tensor.name == "attention_scales"
            result[tensor.name] = (
                numbers / np.float32(251 * 255) if scaled else narrow(numbers, tensor.dtype)
            )
    if "tokens" in wanted and wanted["tokens"].normalize:
        rows = rows_of(item)
        count = len(item.ids) if rows is None else len(rows)
        numbers = narrow(fill(count, DIM), "float32")
        result["tokens"] = unit_length(numbers).astype(wanted["tokens"].dtype)
    if "spans" in item.places:
        result["spans"] = item.places["spans"].sums(fill(n, DIM))
    return result


class FakeEngine:
    """Engine that records its batches.

    It blocks while `gate` is clear and fails while `broken` is set.
    """

    def __init__(self) -> None:
        self.batches: list[list[EncodeItem]] = []
        self.wide: list[bool] = []  # one entry for each batch
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.broken: Exception | None = None
        self.poison: int | None = None  # a batch with this id in it fails
        self.head: Any = None  # the layers behind pooling
        self.rounding, self.batch_tokens = AS_LONG, BATCH_TOKENS
        self.overflows: int | None = None  # items with this id in them alone have no results
        self.most_tokens: int | None = None  # padded, in a batch that its memory holds
        self.probes = 0
        self.probe_fails = False
        self.wide_roles: frozenset[GraphRole] = frozenset()
        self.takes: Callable[[int], None] = lambda tokens: None  # called while a batch runs

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        self.batches.append(list(items))
        self.takes(sum(len(each.ids) for each in items))
        self.wide.append(wide)
        self.started.release()
        assert self.gate.wait(30)
        if self.broken is not None:
            raise self.broken
        if (
            self.most_tokens is not None
            and len(items) * max(len(each.ids) for each in items) > self.most_tokens
        ):
            raise DeviceFull(FULL)
        if any(self.poison in each.ids for each in items):
            raise EngineError(FAILURE)
        if any(self.overflows in each.ids for each in items):
            raise NotFinite(
                NO_NUMBER, [None if self.overflows in each.ids else result(each) for each in items]
            )
        return [result(item) for item in items]

    def graph(self, role: GraphRole, *, wide: bool) -> GraphRole:
        return role

    def probe(self) -> None:
        self.probes += 1
        if self.probe_fails:
            raise BundleError("the golden check failed")

    def fail(self) -> None:
        self.broken = EngineError(FAILURE)


class FakeTokenizer:
    """Tokenizer of one token per word: its length modulo the vocabulary.

    Keeps the texts it was given.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def takes_prompt(self, kind: str) -> bool:
        return kind == "text"

    def around_pair(self, prompt: str) -> int:
        return 0

    def encode(
        self,
        text: str,
        second: str | None = None,
        *,
        prompt: str = "",
        truncation: str = "refuse",
        limit: bool = True,
        with_info: bool = False,
        special_tokens: str = "parse",
        empty_texts: str = "refuse",
    ) -> Tokenized:
        text, prompted = prompt + text, len(prompt.split())
        self.texts.append(text)
        if second == "":
            raise InvalidInput("second", Reason.EMPTY_TEXT)
        words = f"{text} {second or ''}".split()
        if not words and empty_texts == "encode":
            words = ["[CLS]"]
        if not words:
            raise InvalidInput("", Reason.EMPTY_TEXT)
        length = len(words)
        if limit and length > MAX_LENGTH:
            if truncation == "refuse":
                raise InvalidInput("", Reason.TOO_LONG, tokens=length, most=MAX_LENGTH)
            words = words[:MAX_LENGTH]
        ids = np.array([len(word) % VOCABULARY for word in words], dtype=np.int64)
        segments = (np.arange(len(ids)) >= len(text.split())).astype(np.int64)
        return Tokenized(
            ids, length, info(ids.tolist()) if with_info else None, segments, prompt_length=prompted
        )

    def encode_each(
        self,
        values: Sequence[Any],
        *,
        prompt: str = "",
        most: int,
        rules: RoleRules,
        **options: Any,
    ) -> Iterator[Tokenized]:
        for value in values:
            parts = (value,) if isinstance(value, str) else value
            yield self.encode(*parts, prompt=prompt if len(parts) == 1 else "", **options)


def info(ids: Sequence[int]) -> TokenList:
    zeros = (0,) * len(ids)
    return TokenList(
        tuple(ids), tuple(f"piece{i}" for i in ids), zeros, zeros, (False,) * len(ids), zeros
    )


@dataclasses.dataclass
class FakeBundle:
    manifest: Manifest
    sha256: str = "ab" * 32


class FakeRuntime:
    """The part of a Runtime that the service uses."""

    def __init__(self, *, attend: bool = True, tokenizer: bool = True, **changes: Any) -> None:
        self.bundle = FakeBundle(manifest(**changes))
        self.provider, self.precision = "cpu", "fp32"
        self.graph_roles = frozenset({"embed", "attend"} if attend else {"embed"})
        self.tokenizer = FakeTokenizer() if tokenizer else None
        self.spelling = None
        self.engine, self.workers = FakeEngine(), Workers(streams=2)
        self.prompts = Prompts(self.bundle.manifest.prompts, self.bundle.manifest.default_prompt)
        self.forms = AvailableForms(DIM, self.bundle.manifest.normalize)

        self._description = describe(
            cast("Bundle", self.bundle),
            self.forms,
            provider=self.provider,
            precision=self.precision,
            graph_roles=self.graph_roles,
            texts=tokenizer,
        )

    select = Runtime.select
    _check_attends = Runtime._check_attends
    _gives_no = Runtime._gives_no
    check_prompt = Runtime.check_prompt
    check_pair_prompt = Runtime.check_pair_prompt

    def model(self) -> ModelDescription:
        return self._description

    def close(self) -> None:
        pass

    def check_ids(
        self,
        ids: Sequence[int],
        segments: Sequence[int] = (),
        *,
        with_info: bool = False,
        rules: RoleRules,
    ) -> Tokenized:
        found, _ = checked_ids(self.bundle.manifest, ids, ())
        if len(segments) and len(segments) != len(ids):
            raise InvalidInput("segments", Reason.SEGMENTS, segments=len(segments), ids=len(ids))
        types = np.array(segments if len(segments) else [0] * len(ids), dtype=np.int64)
        return Tokenized(found, len(found), info(ids) if with_info else None, types)

    def rules(self, role: InputRole | None) -> RoleRules:
        return NO_RULES

    def warm_up(self, lengths: Iterable[int]) -> None:
        self.warmed = tuple(lengths)

    def probe(self) -> None:
        self.engine.probe()


def item(length: int, first: int = 1, **selection: Any) -> EncodeItem:
    """Return an item of `length` tokens."""
    return EncodeItem(np.full(length, first, dtype=np.int64), Selection(**selection))


def fit(runtime: FakeRuntime | Runtime, config: Config) -> FakeRuntime | Runtime:
    """Let one text of the model have no more tokens than a request may have."""
    before = runtime.bundle.manifest
    most = min(before.max_length, config.max_request_tokens)
    runtime.bundle.manifest = dataclasses.replace(before, max_length=most)
    return runtime
