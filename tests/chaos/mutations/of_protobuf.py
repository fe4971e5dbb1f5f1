"""Valid messages of every kind, and mutations of their bytes."""

from __future__ import annotations

import random

from headlight.pb import headlight_pb2 as pb
from tests.chaos.findings import SECRET

METHODS = ("Encode", "Encode", "Encode", "Tokenize", "Occlude", "GetModel", "EncodeStream")

REDUCED = pb.AttentionOutput(
    reduce=[pb.REDUCTION_HEAD_MEAN, pb.REDUCTION_POOLING_WEIGHTS],
    unit=pb.UNIT_WORD,
    drop_special=True,
    top_k=2,
)
CHOSEN = pb.AttentionOutput(
    pairs=[pb.LayerHead(layer=-1, head=1)],
    queries=pb.TokenSelector(indices=pb.TokenIndices(indices=[1, -1])),
    keys=pb.TokenSelector(span=pb.TextSpan(start=0, end=4)),
    dtype=pb.DATA_TYPE_UINT8,
    max_bytes=1 << 20,
)
HIDDEN = pb.HiddenOutput(
    layer_runs=[pb.IndexRun(begin=-2)], tokens=pb.TokenSelector(named=pb.NAMED_TOKENS_SPECIAL)
)


def seeds() -> tuple[list[bytes], list[bytes]]:
    """Return valid messages of every kind, for unary methods and for streams.

    Short, so that most of the time is spent on decoding them.
    """
    inputs = [
        pb.Input(text=f"{SECRET} at dawn"),
        pb.Input(ids=pb.TokenIds(ids=[2, 50, 3], segments=[0])),
        pb.Input(pair=pb.TextPair(first="a", second=SECRET)),
    ]
    everything = pb.Outputs(
        pooled=pb.PooledOutput(),
        tokens=pb.TokensOutput(),
        attention=pb.AttentionOutput(layers=[0, -1]),
        hidden=pb.HiddenOutput(layers=[-1]),
        token_info=pb.TokenInfoOutput(),
    )
    requests = [pb.EncodeRequest(inputs=[each]) for each in inputs]
    requests.append(
        pb.EncodeRequest(
            model="docs-rope",
            inputs=inputs[:2],
            outputs=everything,
            truncation=pb.TRUNCATION_CUT_END,
        )
    )
    requests += [
        pb.EncodeRequest(
            inputs=inputs[:1], outputs=pb.Outputs(attention=form, hidden=HIDDEN), dry_run=dry
        )
        for form, dry in ((REDUCED, False), (CHOSEN, False), (CHOSEN, True))
    ]
    vectors = pb.Outputs(
        pooled=pb.PooledOutput(
            dimensions=8, normalize=False, dtypes=[pb.DATA_TYPE_FLOAT16, pb.DATA_TYPE_UBINARY]
        ),
        tokens=pb.TokensOutput(
            skip_special=True, skip_prompt=True, normalize=True, dtype=pb.DATA_TYPE_FLOAT16
        ),
    )
    requests.append(pb.EncodeRequest(inputs=inputs[:1], outputs=vectors, prompt_text=f"{SECRET}: "))
    streamed = [pb.EncodeStreamRequest(id="a", encode=request) for request in requests]
    return [each.SerializeToString() for each in requests], [
        each.SerializeToString() for each in streamed
    ]


def mutated(message: bytes, chance: random.Random) -> bytes:
    """Apply one to four changes: a bit, a byte, a cut, a repeated piece, a piece of noise."""
    data = bytearray(message)
    for _ in range(min(chance.randint(1, 4), chance.randint(1, 4))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(data):
                data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del data[place : place + chance.randint(1, 8)]
            case 3:
                data[place:place] = data[place : place + chance.randint(1, 16)]
            case _:
                data[place:place] = chance.randbytes(chance.randint(1, 6))
    return bytes(data)
