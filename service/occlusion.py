"""How far a vector moves when each token is hidden: encodings of one input with holes, run wave by wave among everybody's items."""

from __future__ import annotations

import numpy as np

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.choice import check_tokens, is_one_token
from headlight.runtime.units import pooled_token, select
from headlight.runtime.values import Ids, Tokenized
from headlight.wire import has_unknown, token_choice
from headlight.wire_vectors import prompt_wish, set_prompt
from service import quota
from service.prepared import Prepared
from service.served import ServedModel

WAVES = 8  # one part in so many of a request's tokens is queued at a time: others' items go in between


async def occlude(model: ServedModel, request: pb.OccludeRequest, deadline: float) -> pb.OccludeResponse:
    """Answer one request.

    Args:
        model: to ask.
        request: as it came.
        deadline: on time.monotonic; infinity for none.

    Raises:
        InvalidInput: naming the field.
        HeadlightError: see ServedModel.run.
    """
    _check_counts(request, model.limits.max_request_tokens)
    if has_unknown(request):
        raise InvalidInput("tokens", "asks for something that this server does not know; it is older than the client")
    prepared = await _prepare(model, request)
    [item], [tokenized] = prepared.items, prepared.inputs
    hidden = _hidden(request, model.pooling, tokenized)
    holes = [item._replace(occluded=int(token)) for token in hidden]
    step = max(1, model.limits.max_request_tokens // WAVES // len(item.ids))
    vectors = []
    # All at once: what is begun is not refused half way for want of quota.
    with quota.charge(len(item.ids) * (1 + len(holes))) as charge:
        for wave in ([item], *(holes[begin : begin + step] for begin in range(0, len(holes), step))):
            answer = await model.run(wave, deadline, priority=prepared.priority, paid=True)
            vectors += [result.pooled for result in answer.results if result.pooled is not None]
            if charge is not None:
                charge.done += len(item.ids) * len(wave)
    moved = np.linalg.norm(np.stack(vectors[1:]) - vectors[0], axis=1).astype("<f4")
    tensor = pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=[len(moved)], data=moved.tobytes())
    return pb.OccludeResponse(model=model.ref, item=prepared.header.items[0], tokens=hidden, moved=tensor)


def _check_counts(request: pb.OccludeRequest, most: int) -> None:
    """Refuse lists longer than any input, by their length alone: a message holds millions of entries, and all are copied below."""
    ids, tokens = request.input.ids, request.tokens.indices.indices
    lists = {"input.ids": ids.ids, "input.ids.segments": ids.segments, "tokens": tokens}
    for field, numbers in lists.items():
        if len(numbers) > most:
            raise InvalidInput(field, f"has {len(numbers)} entries; send at most {most}")


async def _prepare(model: ServedModel, request: pb.OccludeRequest) -> Prepared:
    outputs = pb.Outputs(pooled=pb.PooledOutput(), token_info=pb.TokenInfoOutput())
    encode = pb.EncodeRequest(
        inputs=[request.input], truncation=request.truncation, outputs=outputs, priority=request.priority
    )
    set_prompt(encode, prompt_wish(request))
    try:
        return await model.prepare(encode)
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
