"""Options of texts and requests, of the queue and of batches."""

# ruff: noqa: RUF009  # `option` is dataclasses.field

from __future__ import annotations

import dataclasses

from headlight.spec import (
    EMPTY_TEXTS,
    SPECIAL_TOKENS,
    TRUNCATE,
    EmptyTexts,
    SpecialTokens,
    Truncate,
)
from headlight_service.config.option_types import (
    BYTES,
    COUNT,
    MESSAGE_BYTES,
    between,
    choice_option,
    option,
    whole,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are read."""

    truncation: Truncate = choice_option(
        "refuse",
        (
            "what happens to a text that is too long for the model, unless the request says it: "
            "refuse it, or cut off its end or its start; answers report what was cut"
        ),
        *TRUNCATE,
    )
    # Refused by default, as by OpenAI's API and text-embeddings-inference: it is mostly a slip of
    # the caller, and its vector is close to those of many short texts.
    empty_texts: EmptyTexts = choice_option(
        "refuse",
        (
            "what happens to an empty text, unless the request says it: refuse: the request fails "
            "and names it; encode: its prompt and special tokens, as sentence-transformers does"
        ),
        *EMPTY_TEXTS,
    )
    special_tokens: SpecialTokens = choice_option(
        "parse",
        (
            "how special tokens spelled out in a text, as [SEP], are read, unless the request "
            "says it: parse: as special tokens, as Hugging Face does; text: as plain characters, "
            "for texts of strangers"
        ),
        *SPECIAL_TOKENS,
    )
    max_text_characters: int | None = option(
        None,
        COUNT,
        (
            "characters of one text with its prompt (default: 64 per token of the longest text); "
            "the bundle's tokenizer_limit is kept, too; of a text to be truncated, so many are read"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Limits of one request, one answer and one stream."""

    max_items: int = option(
        2048,
        COUNT,
        "texts per request; for vectors, texts of any length the model takes",
    )
    # An eighth of the queue: one stream's requests in flight fill it, and no lone interactive
    # client is shed. Bulk may have an eighth less (RESERVE): one of eight such large requests is
    # shed, and sent again after others are answered.
    max_request_tokens: int = option(
        16384,
        COUNT,
        (
            "tokens of a request in the queue at once; lower it to share the queue more evenly. "
            "A request for vectors may have more, and is computed in parts of so many"
        ),
    )
    max_request_bytes: int = option(
        4 << 20, MESSAGE_BYTES, "bytes of one request message; raise it for long texts"
    )
    max_unary_response_bytes: int = option(
        4 << 20,
        MESSAGE_BYTES,
        "bytes of one unary answer; raise it only if clients raise their own limit",
    )
    max_stream_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of results that one stream may hold (default: all outputs of one longest text, "
            "from 64 MiB to 1 GiB)"
        ),
    )
    max_stream_in_flight: int = option(
        8,
        COUNT,
        "requests of one stream at once; raise it for distant clients",
        metavar="REQUESTS",
    )
    # Less than the grace at shutdown, together with the time that the largest unary answer adds.
    # Zero would time out every answer of a stream.
    stall_seconds: float = option(
        20.0,
        between(0.1, 86400),
        (
            "seconds for a client to send a request or to read an answer, and as many again for "
            "each 16 MiB; then the call is ended; raise it for slow links"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Limits of all requests together."""

    max_queue_tokens: int = option(
        131072, COUNT, "tokens admitted at once; lower it to refuse early instead of answering late"
    )
    max_queue_bytes: int = option(
        64 << 20, BYTES, "bytes of all requests held at once, counted before they are tokenised"
    )
    max_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of all answers held at once, an eighth of it for answers of at most 1 MiB "
            "(default: four times --max-stream-output-bytes, and at least one unary answer); an "
            "answer that is being sent takes twice its size of memory"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Sizes of batches."""

    batch_tokens: int | None = option(
        None,
        COUNT,
        (
            "padded tokens per batch; fewer: shorter waits (default: 512; openvino: the fastest "
            "here, measured at the first start)"
        ),
    )
    bulk_batch_ms: float = option(
        25.0,
        between(1, 60000),
        (
            "milliseconds of computation per bulk batch, during which interactive requests share "
            "the CPUs with it; more is a little faster"
        ),
    )
    attend_batch_cost: int = option(
        1 << 18,
        whole(1),
        "limit of texts × longest length² per batch with attention, which bounds its memory",
    )
    max_padding: float = option(
        0.2,
        between(0, 1),
        "share of a batch that may be padding; 0: only texts of equal length share a batch",
        metavar="SHARE",
    )
    round_lengths: int | None = option(
        None,
        COUNT,
        (
            "pad batches to a multiple of this many tokens (default: 1; openvino: the fastest "
            "here, measured at the first start)"
        ),
        metavar="TOKENS",
    )
