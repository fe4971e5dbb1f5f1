"""From a request's inputs to tokens and to items for the engine, in one go, on whatever thread that is to happen."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence

from headlight.errors import InvalidInput
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, item_of
from headlight.runtime.values import Tokenized
from headlight_service.frontends.grpc.request_decoding import (
    EncodeInput,
    EncodeJob,
    Pair,
    TokenIds,
    TokenizeJob,
    check_tokens,
)

# Texts of so many characters go to the tokenizer together: it lets other threads run meanwhile, and each hand-over costs more than a
# short text. Not more: what is tokenised takes some 350 bytes a character, and whoever leaves is noticed in between.
TOGETHER_CHARACTERS = 4096
# Tokens that most tokenizers put around a text: most of what a short one has, and next to nothing of a long one.
SPECIAL = 2
MEMORY = 0.95  # weight of the past at each request in what is known of texts


def size_of(job: TokenizeJob) -> int:
    """Characters or ids to go through."""
    return len(job.prompt) * len(job.inputs) + sum(_sizes(job.inputs))


class Density:
    """Tokens in a character of the texts of late: about how many a request will have is known before it is tokenised."""

    def __init__(self) -> None:
        """Nothing is known: texts seem to have no tokens."""
        self._tokens = 0.0
        self._characters = 0.0

    def learn(self, job: TokenizeJob, found: Sequence[Tokenized]) -> None:
        """Note what came of a request."""
        read = [(value, one) for value, one in zip(job.inputs, found, strict=False) if not isinstance(value, TokenIds)]
        if read:
            tokens = sum([one.original_length - SPECIAL for _, one in read if one.original_length > SPECIAL])
            characters = len(job.prompt) * len(read) + sum(_sizes(value for value, _ in read))
            self._tokens = MEMORY * self._tokens + tokens
            self._characters = MEMORY * self._characters + characters

    def tokens(self, job: TokenizeJob, longest: int) -> int:
        """How many a request will have, each input at most `longest`: exact for ids."""
        ratio, more, tokens = self._tokens / self._characters if self._characters else 0.0, len(job.prompt), 0
        for value, size in zip(job.inputs, _sizes(job.inputs), strict=True):
            if isinstance(value, TokenIds):
                tokens += len(value.ids)
            elif self._characters:
                tokens += min(longest, SPECIAL + int((more + size) * ratio))
        return tokens


def tokenized(job: TokenizeJob, runtime: Runtime, left: threading.Event) -> Iterator[Tokenized]:
    """Each input in turn, until the caller has left.

    Raises:
        InvalidInput: naming the input at fault.
    """
    tokens = place = 0
    for together in _portions(job):
        if left.is_set():
            return
        results = _read(together, job, runtime)
        for value in together:
            try:
                result = next(results)
            except InvalidInput as error:
                field = f"inputs[{place}].{_kind(value)}.{error.field}".rstrip(".")
                raise InvalidInput(field, error.problem) from None
            tokens += len(result.ids)
            check_tokens(tokens, job.max_tokens)
            yield result
            place += 1


def items_of(job: EncodeJob, inputs: Sequence[Tokenized], pooling: str) -> Iterator[EncodeItem]:
    """What is to run of each input.

    Raises:
        InvalidInput: an input has not the tokens that the outputs name.
    """
    for at, (each, head_mask) in enumerate(zip(inputs, job.head_masks, strict=False)):
        try:
            yield item_of(each, job.selection, pooling, head_mask)
        except InvalidInput as error:
            where = "" if len(job.head_masks) == 1 else f"inputs[{at}]: "
            raise InvalidInput(error.field, f"{where}{error.problem}") from None


def _portions(job: TokenizeJob) -> Iterator[list[EncodeInput]]:
    """The inputs in order, those together that are of one sort and have at most TOGETHER_CHARACTERS, or alone have more."""
    if len(job.inputs) == 1:
        yield job.inputs
        return
    for _, of_a_sort in itertools.groupby(job.inputs, lambda value: isinstance(value, TokenIds)):
        yield from _cut(of_a_sort, len(job.prompt))


def _cut(inputs: Iterable[EncodeInput], prompt: int) -> Iterator[list[EncodeInput]]:
    together, size = list[EncodeInput](), 0
    values = list(inputs)
    for value, read in zip(values, _sizes(values), strict=True):
        own = prompt + read
        if together and size + own > TOGETHER_CHARACTERS:
            yield together
            together, size = [], 0
        together.append(value)
        size += own
    yield together


def _read(together: Sequence[EncodeInput], job: TokenizeJob, runtime: Runtime) -> Iterator[Tokenized]:
    """Inputs of one sort, one by one; each is refused when its turn comes."""
    ids = [value for value in together if isinstance(value, TokenIds)]
    if ids:
        return (runtime.check_ids(each.ids, each.segments, with_info=job.with_info) for each in ids)
    if runtime.tokenizer is None:
        raise RuntimeError("text was accepted without a tokenizer. This is a bug.")
    texts = [value for value in together if not isinstance(value, TokenIds)]
    return runtime.tokenizer.encode_each(
        texts,
        prompt=job.prompt,
        truncation=job.truncation,
        limit=job.limit,
        with_info=job.with_info,
        special_tokens=job.special_tokens,
    )


def _kind(value: EncodeInput) -> str:
    """The field of pb.Input that it came in."""
    return "text" if isinstance(value, str) else "pair" if isinstance(value, Pair) else "ids"


def _sizes(values: Iterable[EncodeInput]) -> list[int]:
    """Characters or ids to go through, of each."""
    return [len(value) if isinstance(value, str) else sum(map(len, value)) for value in values]
