"""Tokenisation of a request: from its inputs to tokens and to items for the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headlight.errors import InvalidInput, Phrase, Reason, renamed
from headlight.outputs.spans import SUM_BYTES, check_all_spans
from headlight.refusals import path_of
from headlight.runtime import Runtime
from headlight.runtime.bundle.prompts import Prompt
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.encode_items import EncodeItem, Selection, item_of
from headlight.runtime.spans.span_items import SpanItems, place_all
from headlight.runtime.tokenization.input_checks import (
    Truncation,
    not_taken,
    too_many_tokens,
)
from headlight.runtime.tokenization.input_roles import NO_RULES
from headlight.runtime.values import Floats, Tokenized
from headlight.spec import INPUT_ROLES, EmptyTexts, SpecialTokens
from headlight_service.core.requests.request import Input, Pair, Request, TokenIds

if TYPE_CHECKING:
    from headlight_service.core.models import ServedModel

# Texts of so many characters go to the tokenizer together: it lets other threads run meanwhile.
# Each hand-over costs more than a short text. Tokenised text takes some 350 bytes a character.
TOGETHER_CHARACTERS = 4096


class TokenizationJob(NamedTuple):
    """Inputs to tokenise: texts and pairs of texts, or ids to check.

    Attributes:
        sizes: characters or ids of each input, its prompt included.
        size: characters or ids that may be read of all of them.
        with_info: whether tokens are to be described.
        max_tokens: most tokens of all inputs together, or of a slice of them.
        limit: whether the tokens of one input are limited.
        prompt: prompt before each single text.
        most: characters of one input that may be read if it is truncated.
        rules: of the inputs' role.
        first: prompt and rules of the first input instead; None: the same as of all.
        sliced: whether inputs of more tokens are read and computed in slices.
    """

    inputs: list[Input]
    sizes: list[int]
    size: int
    with_info: bool
    max_tokens: int
    truncation: Truncation
    limit: bool
    prompt: str
    special_tokens: SpecialTokens
    empty_texts: EmptyTexts
    most: int
    rules: RoleRules = NO_RULES
    first: tuple[str, RoleRules] | None = None
    sliced: bool = False


class _Room(NamedTuple):
    """The most characters of one input, None for any, and the remedy for more."""

    characters: int | None
    remedy: Phrase


def encoding_job(request: Request, model: ServedModel, selection: Selection) -> TokenizationJob:
    """Return the job of a request to encode. Raises InvalidInput, naming the field.

    Vectors and scores of texts are small, and have one size for each input: more inputs than the
    queue takes at once are computed in slices.
    """
    with_info = request.outputs.token_info or selection.needs_tokens
    limit = not selection.any_length
    job = _job(request, model, with_info, model.limits.max_request_tokens, limit=limit)
    sliced = bool(selection) and selection.one_size and not with_info
    return job._replace(sliced=sliced)


def tokenizing_job(request: Request, model: ServedModel) -> TokenizationJob:
    """Return the job of a request for only tokens. Raises InvalidInput, naming the field."""
    return _job(request, model, True, model.max_tokenized, limit=False)


def sided_job(
    request: Request,
    model: ServedModel,
    first: Prompt,
    others: Prompt,
    *,
    with_info: bool,
    query_first: bool = True,
) -> TokenizationJob:
    """Return the job of a request whose first input has another prompt and role than the others.

    `query_first`: whether it is a query among documents, or a document among queries.

    Raises:
        InvalidInput: naming the field.
    """
    inputs, room = request.inputs, _room(request, model, limit=True)
    sizes = [
        *_sizes(inputs[:1], model, first, room),
        *_sizes(inputs[1:], model, others, room, first=1),
    ]
    most = model.limits.max_request_tokens
    job = _made(request, model, sizes, others, with_info, most, limit=True)
    sides = [model.runtime.rules(role) for role in INPUT_ROLES]
    of_first, of_others = sides if query_first else reversed(sides)
    return job._replace(first=(first.text, of_first), rules=of_others)


def _job(
    request: Request, model: ServedModel, with_info: bool, max_tokens: int, *, limit: bool
) -> TokenizationJob:
    prompt, most = model.default_prompt, model.limits.max_items
    chosen = request.prompt_name, request.prompt_text, request.role
    if chosen != (None, None, None):
        prompt = model.runtime.prompts.choose(*chosen)
    if not 1 <= len(request.inputs) <= most:
        raise InvalidInput("inputs", Reason.ENTRIES, count=len(request.inputs), most=most)
    sizes = _sizes(request.inputs, model, prompt, _room(request, model, limit=limit))
    return _made(request, model, sizes, prompt, with_info, max_tokens, limit=limit)


def _made(
    request: Request,
    model: ServedModel,
    sizes: list[int],
    prompt: Prompt,
    with_info: bool,
    max_tokens: int,
    *,
    limit: bool,
) -> TokenizationJob:
    return TokenizationJob(
        request.inputs,
        sizes,
        sum([min(size, model.max_characters_read) for size in sizes]),
        with_info,
        max_tokens,
        request.truncation or model.truncation,
        limit,
        prompt.text,
        request.special_tokens or model.special_tokens,
        request.empty_texts or model.empty_texts,
        model.max_characters_read,
        model.runtime.rules(request.role),
    )


def _room(request: Request, model: ServedModel, *, limit: bool) -> _Room:
    """Return the room for each input of a request; `limit`: whether its tokens are limited."""
    if not limit:
        return _Room(model.max_characters, Phrase.SHORTEN_OR_SPLIT)
    if (request.truncation or model.truncation) == "refuse":
        return _Room(model.max_characters, Phrase.SHORTEN_OR_CUT)
    return _Room(None, Phrase.SHORTEN_OR_SPLIT)  # the tokenizer reads only a part


def _sizes(
    inputs: Sequence[Input], model: ServedModel, prompt: Prompt, allowed: _Room, first: int = 0
) -> list[int]:
    """Return the characters or ids of each input. Raises InvalidInput: one is not accepted.

    `first` is the place of the first of them in the request.
    """
    before = len(prompt.text)
    room = model.max_characters - before if "text" in model.accepts else -1
    return [
        before + len(value)
        if isinstance(value, str) and len(value) <= room  # the usual case
        else _checked_size(place, value, model, prompt, allowed)
        for place, value in enumerate(inputs, first)
    ]


def _checked_size(
    place: int, value: Input, model: ServedModel, prompt: Prompt, allowed: _Room
) -> int:
    kind = kind_of(value)
    field = f"inputs[{place}].{kind}"
    if kind not in model.accepts:
        raise not_taken(field, model.accepts)
    if not isinstance(value, str):
        with renamed({(): path_of(field)}):
            model.runtime.check_prompt(prompt, kind)
    if isinstance(value, TokenIds):
        return len(value.ids)
    if isinstance(value, str):
        before, characters = len(prompt.text), len(value)
    else:
        tokenizer = model.runtime.tokenizer
        before = 0 if tokenizer is None else tokenizer.around_pair(prompt.text)
        characters = sum(map(len, value))
    characters += before
    # Tokenising takes some 350 bytes and 2 µs a character: a text that cannot fit is refused
    # unread.
    if allowed.characters is not None and characters > allowed.characters:
        raise InvalidInput(
            field,
            Reason.CHARACTERS_WITH_PROMPT if before else Reason.CHARACTERS,
            characters=characters,
            prompt=before,
            most=allowed.characters,
            remedy=allowed.remedy,
        )
    return characters


def tokenized(
    job: TokenizationJob, runtime: Runtime, cancelled: Callable[[], bool]
) -> Iterator[Tokenized]:
    """Yield each tokenised input in turn, until `cancelled()` is true.

    Raises:
        InvalidInput: naming the input at fault.
    """
    tokens = place = 0
    for together, prompt, rules in _prompted(job):
        if cancelled():
            return
        results = _read(together, prompt, rules, job, runtime)
        for value in together:
            try:
                result = next(results)
            except InvalidInput as error:
                raise error.at(("inputs", place, kind_of(value), *error.refusal.path)) from None
            tokens += len(result.ids)
            if tokens > job.max_tokens and not job.sliced:
                raise too_many_tokens(job.max_tokens)
            yield result
            place += 1


def items_of(
    inputs: Sequence[Tokenized],
    selection: Selection,
    pooling: str,
    head_masks: Sequence[Floats | None] | None,
) -> list[EncodeItem]:
    """Return an item for each input. Raises InvalidInput: it lacks tokens that outputs name."""
    items = []
    for at, each in enumerate(inputs):
        try:
            mask = None if head_masks is None else head_masks[at]
            items.append(item_of(each, selection, pooling, mask))
        except InvalidInput as error:
            path, reason, args = error.refusal[1:]
            where = {} if len(inputs) == 1 else {"input": at}
            raise InvalidInput(path, reason, **args, **where) from None
    return items


def spans_of(
    job: TokenizationJob,
    inputs: Sequence[Tokenized],
    items: Sequence[EncodeItem],
    selection: Selection,
    max_length: int,
) -> list[SpanItems]:
    """Return the spans of each input and the items that compute them.

    Args:
        job: with the inputs as given.
        inputs: the same, tokenised.
        items: the same, without spans.
        selection: the requested outputs, with spans.
        max_length: tokens that the model takes.

    Raises:
        InvalidInput: naming the field; or there are more spans, or windows have more tokens, than
            a request may have tokens.
    """
    works = place_all(selection, job.inputs, inputs, items, max_length, job.max_tokens)
    # Each has a vector of the model's width while it is computed, whatever width is requested.
    check_all_spans(sum(len(work.spans.begins) for work in works), job.max_tokens)
    return works


def span_sizes(spans: Sequence[SpanItems], dim: int) -> tuple[int, int]:
    """Return the number of spans, and the bytes of their sums."""
    sums = sum(len(item.places["spans"].places) for work in spans for item in work.items)
    return sum(len(work.spans.begins) for work in spans), sums * dim * SUM_BYTES


def kind_of(value: Input) -> str:
    """Return "text", "pair" or "ids"."""
    return "text" if isinstance(value, str) else "pair" if isinstance(value, Pair) else "ids"


def _prompted(job: TokenizationJob) -> Iterator[tuple[Sequence[Input], str, RoleRules]]:
    """Yield the inputs in order, in groups that are read together, their prompt and their rules."""
    if job.first is not None:
        yield job.inputs[:1], *job.first
        job = job._replace(inputs=job.inputs[1:], sizes=job.sizes[1:])
    for together in [job.inputs] if len(job.inputs) == 1 else _portions(job):
        yield together, job.prompt, job.rules


def _portions(job: TokenizationJob) -> Iterator[Sequence[Input]]:
    """Yield the inputs in order, in groups of ids or texts: TOGETHER_CHARACTERS at most, or one."""
    together, characters = list[Input](), 0
    for value, size in zip(job.inputs, job.sizes, strict=True):
        alike = not together or isinstance(value, TokenIds) == isinstance(together[0], TokenIds)
        if together and (not alike or characters + size > TOGETHER_CHARACTERS):
            yield together
            together, characters = [], 0
        together.append(value)
        characters += size
    yield together


def _read(
    together: Sequence[Input],
    prompt: str,
    rules: RoleRules,
    job: TokenizationJob,
    runtime: Runtime,
) -> Iterator[Tokenized]:
    """Yield tokenised inputs, all ids or all texts; an invalid one raises at its turn."""
    ids = [value for value in together if isinstance(value, TokenIds)]
    if ids:
        check = functools.partial(runtime.check_ids, with_info=job.with_info, rules=rules)
        return (check(each.ids, each.segments) for each in ids)
    if runtime.tokenizer is None:
        raise RuntimeError("text was accepted without a tokenizer. This is a bug.")
    texts = [value for value in together if not isinstance(value, TokenIds)]
    return runtime.tokenizer.encode_each(
        texts,
        prompt=prompt,
        truncation=job.truncation,
        limit=job.limit,
        with_info=job.with_info,
        special_tokens=job.special_tokens,
        empty_texts=job.empty_texts,
        most=job.most,
        rules=rules,
    )
