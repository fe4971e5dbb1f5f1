"""How far a vector moves when each token is hidden: encodings of one input with holes, run wave by wave among everybody's items."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.attention.resolved_spec import check_tokens, is_one_token
from headlight.runtime.attention.token_units import pooled_token, select
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.values import Floats, Ids, Tokenized
from headlight.wire.attention_codec import has_unknown, token_choice
from headlight.wire.priority import Priority
from headlight.wire.vector_codec import prompt_wish, set_prompt
from headlight_service.core.admission import rate_limit
from headlight_service.core.admission.admission_control import Shed
from headlight_service.core.prepared_request import Prepared
from headlight_service.core.requested_outputs import check_count
from headlight_service.core.served_model import ServedModel
from headlight_service.telemetry.request_trace import stage

WAVES = 8  # one part in so many of a request's tokens is queued at a time: others' items go in between
LONGEST_PAUSE = 1.0  # seconds: nothing keeps a wave's place, and what it needs may be free for a moment alone
FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Occlusion:
    """A request that could run.

    Attributes:
        item: the whole input.
        priority: how soon it is wanted.
        response: the answer, as large as it will be, with zeros for the distances.
        read: the tokens read that were charged for.
    """

    item: EncodeItem
    priority: Priority
    response: pb.OccludeResponse
    read: float


async def prepare(model: ServedModel, request: pb.OccludeRequest, deadline: float) -> Occlusion:
    """Check and tokenise a request.

    Args:
        model: to ask.
        request: as it came.
        deadline: on time.monotonic; infinity for none.

    Raises:
        InvalidInput: naming the field.
        HeadlightError: see ServedModel.prepare.
    """
    _check_counts(request, model)
    if has_unknown(request):
        raise InvalidInput("tokens", "asks for something that this server does not know; it is older than the client")
    prepared = await _tokenised(model, request, deadline)
    [item], [tokenized] = prepared.items, prepared.inputs
    hidden = _hidden(request, model.pooling, tokenized)
    moved = pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=[len(hidden)], data=bytes(FLOAT_BYTES * len(hidden)))
    response = pb.OccludeResponse(model=model.ref, item=prepared.header.items[0], tokens=hidden, moved=moved)
    return Occlusion(item, prepared.priority, response, prepared.read)


async def compute(model: ServedModel, occlusion: Occlusion, deadline: float) -> None:
    """Run the whole input and then those with holes, and put the distances into the answer.

    What is begun is not shed half way, which would throw away what was computed: where others fill the queue, its waves wait.

    Raises:
        Shed: before the first hole. There is too little of something, or too little time for so many.
        HeadlightError: see ServedModel.run.
    """
    item, priority, hidden = occlusion.item, occlusion.priority, occlusion.response.tokens
    length, moved = len(item.ids), bytearray()
    step = max(1, model.limits.max_request_tokens // WAVES // length)
    model.look_ahead(length * (1 + len(hidden)), deadline, priority)
    # All at once: nor is it refused half way for want of quota.
    with rate_limit.charge(length * (1 + len(hidden)), read=occlusion.read) as charge:
        [whole] = await _vectors(model, [item], deadline, priority)
        for begin in range(0, len(hidden), step):
            if charge is not None:
                charge.done = length * (1 + begin)
            if not begin:  # nothing is tried at once any more, and by now a rate is known
                model.check_rest(length * len(hidden), deadline)
            wave = [item._replace(occluded=token) for token in hidden[begin : begin + step]]
            vectors = await _patiently(model, wave, deadline, priority)
            moved += np.linalg.norm(np.stack(vectors) - whole, axis=1).astype("<f4").tobytes()
    occlusion.response.moved.data = bytes(moved)


async def _vectors(
    model: ServedModel, items: Sequence[EncodeItem], deadline: float, priority: Priority
) -> list[Floats]:
    answer = await model.run(items, deadline, priority=priority)
    return [result.pooled for result in answer.results if result.pooled is not None]


async def _patiently(
    model: ServedModel, wave: Sequence[EncodeItem], deadline: float, priority: Priority
) -> list[Floats]:
    """The vectors of one wave; for which the queue has no room, again and again, until the deadline."""
    while True:
        try:
            return await _vectors(model, wave, deadline, priority)
        except Shed as shed:
            pause = min(shed.retry_after_seconds or LONGEST_PAUSE, LONGEST_PAUSE)
        stage("queue")
        with model.stage("queue"):
            await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))


def _check_counts(request: pb.OccludeRequest, model: ServedModel) -> None:
    """Refuse lists longer than any input by their number alone: a message holds millions, each an object on the event loop then."""
    check_count("tokens", len(request.tokens.indices.indices), model.max_length)
    ids, most = request.input.ids, model.limits.max_request_tokens
    for field, numbers in (("input.ids", ids.ids), ("input.ids.segments", ids.segments)):
        if len(numbers) > most:
            raise InvalidInput(field, f"has {len(numbers)} entries; send at most {most}")


async def _tokenised(model: ServedModel, request: pb.OccludeRequest, deadline: float) -> Prepared:
    outputs = pb.Outputs(pooled=pb.PooledOutput(), token_info=pb.TokenInfoOutput())
    encode = pb.EncodeRequest(
        inputs=[request.input],
        truncation=request.truncation,
        outputs=outputs,
        priority=request.priority,
        special_tokens=request.special_tokens,
    )
    set_prompt(encode, prompt_wish(request))
    try:
        return await model.prepare(encode, deadline)
    except InvalidInput as error:
        raise InvalidInput(error.field.replace("inputs[0]", "input"), error.problem) from None


def _hidden(request: pb.OccludeRequest, pooling: str, tokenized: Tokenized) -> Ids:
    """The tokens to hide: int64 [m], m >= 1."""
    info, length = tokenized.info, len(tokenized.ids)
    vector = pooled_token(pooling, length, tokenized.left_out)
    if info is None:
        raise RuntimeError("an input was prepared without its tokens. This is a bug.")
    choice = token_choice("tokens", request.tokens) if request.HasField("tokens") else None
    tokens = np.flatnonzero(~np.array(info.special))
    if choice is not None:
        check_tokens("tokens", choice, pooling)
        chosen = select("tokens", choice, length, info, vector)
        tokens = np.arange(length) if chosen is None else chosen
    if is_one_token(pooling):
        if choice not in (None, "all") and vector in tokens:
            raise InvalidInput("tokens", f"token {vector} is the pooled vector; hide others")
        tokens = tokens[tokens != vector]
    if not len(tokens) or length == 1:
        raise InvalidInput("tokens", "of this input there is nothing to hide that would leave something; name others")
    return tokens
