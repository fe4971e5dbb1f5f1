"""Fake model: numbers computed from the ids, and the frames that carry them."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator

import numpy as np

from headlight.outputs.vector_forms import as_type
from headlight.pb import headlight_pb2 as pb
from headlight.results import Floats
from headlight.spec import STATISTICS
from headlight.wire.client_codec import VECTOR_NAMES
from tests.attention_reference import Text, statistics

CLS, SEP = 1, 2
DIM, LAYERS, HEADS = 8, 3, 2
WORD = re.compile(r"\w+|[^\w\s]")
REF = pb.ModelRef(
    name="fake", version="1", bundle_sha256="ab" * 32, provider="cpu", precision="fp32"
)

OTHER_REF = pb.ModelRef(
    name="fake", version="2", bundle_sha256="cd" * 32, provider="cpu", precision="fp32"
)


def tokens_of(item: pb.Input) -> pb.TokenInfo:
    """Return the words between [CLS] and [SEP]; ids unchanged."""
    if item.HasField("ids"):
        ids, zeros = list(item.ids.ids), [0] * len(item.ids.ids)
        return pb.TokenInfo(
            ids=ids, starts=zeros, ends=zeros, special=[False] * len(ids), segments=zeros
        )
    texts = [item.pair.first, item.pair.second] if item.HasField("pair") else [item.text]
    info = pb.TokenInfo()
    rows: list[tuple[int, str, int, int, bool, int]] = [(CLS, "[CLS]", 0, 0, True, 0)]
    for segment, text in enumerate(texts):
        for word in WORD.finditer(text):
            token = 3 + zlib.crc32(word[0].encode()) % 997
            rows.append((token, word[0], word.start(), word.end(), False, segment))
        rows.append((SEP, "[SEP]", 0, 0, True, segment))
    for token, piece, start, end, special, segment in rows:
        info.ids.append(token)
        info.pieces.append(piece)
        info.starts.append(start)
        info.ends.append(end)
        info.special.append(special)
        info.segments.append(segment)
    return info


def numbers(ids: list[int], *shape: int) -> Floats:
    """Return numbers in (0, 1) that depend on the ids and the shape."""
    return np.random.default_rng([*ids, *shape]).random(shape, np.float32)


def attention_of(ids: list[int], layers: list[int]) -> Floats:
    """Return float32 [layers, H, n, n], rows summing to 1."""
    raw = np.stack([numbers([layer, *ids], HEADS, len(ids), len(ids)) for layer in layers])
    weights: Floats = raw / raw.sum(-1, keepdims=True)
    return weights


def pooled_of(ids: list[int], mask: list[float] | None = None) -> Floats:
    """Return float32 [D].

    Without head i, counted over all layers, it is (i + 1) / 100 away.
    """
    vector = numbers(ids, DIM)
    if mask:
        vector[0] += sum((1 - kept) * (at + 1) / 100 for at, kept in enumerate(mask))
    return vector


def hidden_of(ids: list[int], layers: list[int]) -> Floats:
    """Return float32 [layers, n, D]."""
    return np.stack([numbers([100 + layer, *ids], len(ids), DIM) for layer in layers])


def ragged(parts: list[Floats], layers: list[int]) -> pb.RaggedTensor:
    offsets = np.cumsum([0, *(part.size for part in parts)]).tolist()
    data = b"".join(part.astype("<f4").tobytes() for part in parts)
    shapes = [pb.Extents(sizes=part.shape) for part in parts]
    return pb.RaggedTensor(
        dtype=pb.DATA_TYPE_FLOAT32, layers=layers, offsets=offsets, data=data, shapes=shapes
    )


def answer(request: pb.EncodeRequest, max_length: int, ref: pb.ModelRef = REF) -> pb.EncodeResponse:
    """Return the whole answer to a valid request."""
    response = pb.EncodeResponse(model=ref)
    ids_of = []
    for item in request.inputs:
        info = tokens_of(item)
        kept = list(info.ids)[:max_length]
        ids_of.append(kept)
        entry = response.items.add(token_count=len(kept), original_token_count=len(info.ids))
        entry.prompt_token_count = 2 * (request.WhichOneof("prompt") is not None)
        entry.truncated = len(kept) != len(info.ids)
        if request.outputs.HasField("token_info"):
            entry.tokens.CopyFrom(info)
    outputs = request.outputs
    if outputs.HasField("pooled") or not outputs.ListFields():
        masks = [list(item.head_mask.values) for item in request.inputs]
        pooled = np.stack([pooled_of(ids, mask) for ids, mask in zip(ids_of, masks, strict=True)])
        pooled = pooled[:, : outputs.pooled.dimensions or DIM]
        if outputs.pooled.normalize:
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        for dtype in outputs.pooled.dtypes or [pb.DATA_TYPE_FLOAT32]:
            made = as_type(
                pooled,
                VECTOR_NAMES[dtype],
                np.stack([np.zeros(DIM), np.ones(DIM)]).astype(np.float32),
            )
            response.pooled.add(dtype=dtype, shape=made.shape, data=made.tobytes())
    if outputs.HasField("tokens"):
        vectors = [hidden_of(ids, [LAYERS])[0] for ids in ids_of]
        if outputs.tokens.skip_special:
            response.kept_tokens.extend(
                pb.TokenIndices(indices=range(1, len(ids) - 1)) for ids in ids_of
            )
            vectors = [vector[1:-1] for vector in vectors]
        response.tokens.CopyFrom(ragged(vectors, []))
    if outputs.HasField("attention"):
        attend(
            response,
            outputs.attention,
            ids_of,
            [list(tokens_of(item).special) for item in request.inputs],
        )
    if outputs.HasField("hidden"):
        layers = [layer % (LAYERS + 1) for layer in outputs.hidden.layers] or list(
            range(LAYERS + 1)
        )
        states = [hidden_of(ids, layers) for ids in ids_of]
        if rows := list(outputs.hidden.tokens.indices.indices):
            states = [state[:, rows] for state in states]
            response.hidden_tokens.extend(pb.TokenIndices(indices=rows) for _ in ids_of)
        response.hidden.CopyFrom(ragged(states, layers))
    return response


def attend(
    response: pb.EncodeResponse,
    wanted: pb.AttentionOutput,
    ids_of: list[list[int]],
    specials: list[list[bool]],
) -> None:
    """Return attention in the requested form.

    Of some layers, reduced to statistics, the largest weights, or some rows.
    """
    layers = [layer % LAYERS for layer in wanted.layers] or list(range(LAYERS))
    maps = [attention_of(ids, layers) for ids in ids_of]
    if wanted.reduce:
        summarise(response, maps, specials)
    elif wanted.top_k:
        keep_largest(response, maps, wanted.top_k)
    else:
        if rows := list(wanted.queries.indices.indices):
            chosen = [[row % len(ids) for row in rows] for ids in ids_of]
            maps = [weights[:, :, tokens] for weights, tokens in zip(maps, chosen, strict=True)]
            for tokens in chosen:
                response.attention_map.places.add(queries=pb.Units(tokens=tokens))
        response.attention.CopyFrom(ragged(maps, layers))
        response.attention_map.axes.extend(("layer", "head", "query", "key"))
    response.attention_map.heads.extend(range(HEADS))


def summarise(response: pb.EncodeResponse, maps: list[Floats], specials: list[list[bool]]) -> None:
    """Return the statistics of each head of all layers."""
    parts = []
    for weights, special in zip(maps, specials, strict=True):
        text = Text(weights, weights, special, (), (), (), "mean")
        rows = [[token] for token in range(len(special))]
        heads = [
            statistics(head, rows, text)
            for head in weights.astype(np.float64).reshape(-1, len(rows), len(rows))
        ]
        parts.append(np.array(heads, np.float32).reshape(LAYERS, HEADS, -1))
    response.attention.CopyFrom(ragged(parts, list(range(LAYERS))))
    response.attention_map.axes.extend(("layer", "head", "statistic"))
    response.attention_map.statistics.extend(STATISTICS)


def keep_largest(response: pb.EncodeResponse, maps: list[Floats], count: int) -> None:
    """Return the largest weights of each row of all layers."""
    indices = [np.argsort(-weights, axis=-1)[..., :count] for weights in maps]
    kept = [
        np.take_along_axis(weights, at, axis=-1) for weights, at in zip(maps, indices, strict=True)
    ]
    response.attention.CopyFrom(ragged(kept, list(range(LAYERS))))
    response.attention_indices.CopyFrom(response.attention)
    response.attention_indices.dtype = pb.DATA_TYPE_UINT16
    response.attention_indices.data = b"".join(at.astype("<u2").tobytes() for at in indices)
    response.attention_map.axes.extend(("layer", "head", "query", "top"))


def frames_of(
    request_id: str, response: pb.EncodeResponse, rows_per_chunk: int = 3
) -> list[pb.EncodeStreamResponse]:
    """Return header, chunks (the last rows first: no order is promised), end.

    Reduced attention is one frame.
    """
    told = response.attention_map
    if response.HasField("attention") and (list(told.axes[-1:]) != ["key"] or told.places):
        return [pb.EncodeStreamResponse(id=request_id, response=response)]
    header = pb.EncodeResponse()
    header.CopyFrom(response)
    for tensor in header.pooled:
        tensor.ClearField("data")
    for field in ("tokens", "attention", "hidden"):
        if header.HasField(field):
            getattr(header, field).ClearField("data")
    chunks = list(chunks_of(response, rows_per_chunk))[::-1]
    end = pb.StreamEnd(chunks=len(chunks), data_bytes=sum(len(chunk.data) for chunk in chunks))
    return [
        pb.EncodeStreamResponse(id=request_id, header=header),
        *(pb.EncodeStreamResponse(id=request_id, chunk=chunk) for chunk in chunks),
        pb.EncodeStreamResponse(id=request_id, end=end),
    ]


def chunks_of(response: pb.EncodeResponse, rows_per_chunk: int) -> Iterator[pb.Chunk]:
    counts = [item.token_count for item in response.items]
    for at, pooled in enumerate(response.pooled):
        count, dim = pooled.shape
        base = pb.Chunk(output=pb.OUTPUT_KIND_POOLED, item=at, head_end=1)
        yield from matrix_chunks(base, pooled.data, 0, count, dim, rows_per_chunk)
    kinds = {
        "tokens": pb.OUTPUT_KIND_TOKENS,
        "attention": pb.OUTPUT_KIND_ATTENTION,
        "hidden": pb.OUTPUT_KIND_HIDDEN,
    }
    for field, kind in kinds.items():
        if response.HasField(field):
            tensor = getattr(response, field)
            for item, every in enumerate(counts):
                begin, end = tensor.offsets[item : item + 2]
                places = {"tokens": response.kept_tokens, "hidden": response.hidden_tokens}.get(
                    field
                )
                count = len(places[item].indices) if places else every
                heads = HEADS if field == "attention" else 1
                width = count if field == "attention" else tensor.shapes[item].sizes[-1]
                assert end - begin == max(1, len(tensor.layers)) * heads * count * width
                for at, (layer, head) in enumerate(
                    itertools.product(range(len(tensor.layers) or 1), range(heads))
                ):
                    base = pb.Chunk(
                        output=kind, item=item, layer=layer, head_begin=head, head_end=head + 1
                    )
                    offset = 4 * (begin + at * count * width)
                    yield from matrix_chunks(
                        base, tensor.data, offset, count, width, rows_per_chunk
                    )


def matrix_chunks(
    base: pb.Chunk, data: bytes, offset: int, rows: int, width: int, step: int
) -> Iterator[pb.Chunk]:
    for row in range(0, rows, step):
        chunk = pb.Chunk()
        chunk.CopyFrom(base)
        chunk.row_begin, chunk.row_end = row, min(row + step, rows)
        chunk.offset_bytes = offset + 4 * row * width
        chunk.data = data[chunk.offset_bytes : offset + 4 * chunk.row_end * width]
        yield chunk
