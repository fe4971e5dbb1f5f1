"""Requests that are recorded: every method, every kind of input and every form of output."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from headlight.pb import headlight_pb2 as pb
from tests.shipped import DIM, HEADS, LAYERS

TEXT = "open a file, read its lines"
SPAN = pb.TextSpan(start=0, end=6)
ODD = pb.HeadMask(values=[float(at % 2) for at in range(LAYERS * HEADS)])

PASSAGES = ["open a file", "parse a date", "read lines of a file"]

Case = tuple[str, list[Message]]


def encode(*inputs: pb.Input, **fields: Any) -> Case:
    return "Encode", [pb.EncodeRequest(inputs=inputs or [pb.Input(text=TEXT)], **fields)]


def attention(**form: Any) -> Case:
    return encode(outputs=pb.Outputs(attention=pb.AttentionOutput(**form)))


def hidden(**form: Any) -> Case:
    return encode(outputs=pb.Outputs(hidden=pb.HiddenOutput(**form)))


def pooled(*inputs: pb.Input, **form: Any) -> Case:
    return encode(*inputs, outputs=pb.Outputs(pooled=pb.PooledOutput(**form)))


def tokens(**form: Any) -> Case:
    return encode(outputs=pb.Outputs(tokens=pb.TokensOutput(**form)))


def streamed() -> Case:
    """Return a whole answer, some in chunks, and a refusal, by their ids."""
    text = [pb.Input(text=TEXT)]
    maps = pb.Outputs(attention=pb.AttentionOutput(), token_info=pb.TokenInfoOutput())
    vectors = pb.Outputs(pooled=pb.PooledOutput(), hidden=pb.HiddenOutput(layers=[0]))
    packed = pb.Outputs(
        attention=pb.AttentionOutput(top_k=8, dtype=pb.DATA_TYPE_UINT8), tokens=pb.TokensOutput()
    )
    requests = {"whole": pb.Outputs(), "maps": maps, "vectors": vectors, "packed": packed}
    messages: list[Message] = [
        pb.EncodeStreamRequest(id=name, encode=pb.EncodeRequest(inputs=text, outputs=outputs))
        for name, outputs in requests.items()
    ]
    refused = pb.EncodeRequest(inputs=[pb.Input(text="")])
    return "EncodeStream", [*messages, pb.EncodeStreamRequest(id="refused", encode=refused)]


CASES: dict[str, Case] = {
    "pooled": encode(pb.Input(text=TEXT), pb.Input(text="héron Ω")),
    "pooled-ids": encode(pb.Input(ids=pb.TokenIds(ids=[5, 17, 900, 6]))),
    "pooled-masked-heads": encode(pb.Input(text=TEXT, head_mask=ODD)),
    "pooled-cut": encode(pb.Input(text="read " * 3000), truncation=pb.TRUNCATION_CUT_END),
    "pooled-cut-start": encode(pb.Input(text="read " * 3000), truncation=pb.TRUNCATION_CUT_START),
    "pooled-prompt": encode(prompt_text="find: ", priority=pb.PRIORITY_BULK, model="docs-rope"),
    "pooled-short": pooled(dimensions=64, normalize=False, dtypes=[pb.DATA_TYPE_FLOAT16]),
    "pooled-types": pooled(
        dtypes=[pb.DATA_TYPE_FLOAT32, pb.DATA_TYPE_BINARY, pb.DATA_TYPE_UBINARY]
    ),
    "tokens": tokens(skip_special=True, normalize=True),
    "tokens-half": tokens(skip_prompt=True, dtype=pb.DATA_TYPE_FLOAT16),
    "token-info": encode(outputs=pb.Outputs(token_info=pb.TokenInfoOutput())),
    "hidden": hidden(layers=[-1], tokens=pb.TokenSelector(named=pb.NAMED_TOKENS_FIRST)),
    "hidden-half": hidden(
        layer_runs=[pb.IndexRun(begin=0, end=2)],
        tokens=pb.TokenSelector(indices=pb.TokenIndices(indices=[1, -1])),
        dtype=pb.DATA_TYPE_FLOAT16,
    ),
    "attention": attention(),
    "attention-chosen": attention(layers=[-1], heads=[0, 3], dtype=pb.DATA_TYPE_FLOAT16),
    "attention-runs": attention(
        layer_runs=[pb.IndexRun(begin=1)], head_runs=[pb.IndexRun(begin=-2)]
    ),
    "attention-pairs": attention(
        pairs=[pb.LayerHead(layer=0, head=1), pb.LayerHead(layer=2, head=-1)]
    ),
    "attention-top": attention(layers=[0], top_k=3, dtype=pb.DATA_TYPE_UINT8),
    "attention-scores": attention(layers=[0], heads=[0], scores=True),
    "attention-without-special": attention(
        layers=[1], heads=[1], drop_special=True, max_bytes=100_000
    ),
    "attention-words": attention(layers=[2], unit=pb.UNIT_WORD),
    "attention-spans": attention(
        layers=[2], unit=pb.UNIT_SPAN, spans=[SPAN, pb.TextSpan(start=7, end=11)]
    ),
    "attention-places": attention(
        layers=[1],
        queries=pb.TokenSelector(named=pb.NAMED_TOKENS_SPECIAL),
        keys=pb.TokenSelector(span=SPAN),
    ),
    "attention-head-mean": attention(reduce=[pb.REDUCTION_HEAD_MEAN]),
    "attention-head-max": attention(reduce=[pb.REDUCTION_HEAD_MAX, pb.REDUCTION_LAYER_MEAN]),
    "attention-rollout": attention(reduce=[pb.REDUCTION_HEAD_MEAN, pb.REDUCTION_ROLLOUT]),
    "attention-pooling": attention(reduce=[pb.REDUCTION_POOLING_WEIGHTS]),
    "attention-statistics": attention(reduce=[pb.REDUCTION_STATISTICS]),
    "everything": encode(
        outputs=pb.Outputs(
            pooled=pb.PooledOutput(),
            tokens=pb.TokensOutput(),
            attention=pb.AttentionOutput(heads=[0]),
            hidden=pb.HiddenOutput(layers=[1]),
            token_info=pb.TokenInfoOutput(),
        )
    ),
    "dry-run": encode(dry_run=True, outputs=pb.Outputs(attention=pb.AttentionOutput())),
    "tokenize": (
        "Tokenize",
        [pb.TokenizeRequest(inputs=[pb.Input(text=TEXT)], prompt_text="find: ")],
    ),
    "occlude": (
        "Occlude",
        [
            pb.OccludeRequest(
                input=pb.Input(text=TEXT),
                tokens=pb.TokenSelector(span=SPAN),
                priority=pb.PRIORITY_BULK,
            )
        ],
    ),
    "model": ("GetModel", [pb.GetModelRequest(model="docs-rope")]),
    "stream": streamed(),
}


def compare(**fields: Any) -> Case:
    passages = [pb.Input(text=each) for each in PASSAGES]
    return "Compare", [pb.CompareRequest(query=pb.Input(text=TEXT), passages=passages, **fields)]


def by(method: str, **fields: Any) -> pb.EvidenceRequest:
    return pb.EvidenceRequest(method=f"EVIDENCE_METHOD_{method}", unit=pb.UNIT_WORD, **fields)


# Methods and outputs since 0.2.0; a model of each task is served.
SINCE_0_2: dict[str, Case] = {
    "compare": compare(
        late_interaction=pb.LateInteraction(),
        matrix=pb.SimilarityMatrix(dtype=pb.DATA_TYPE_FLOAT16),
        evidence=[by("LATE_INTERACTION"), by("CONTRIBUTIONS", query_units=True)],
        sort=True,
    ),
    "compare-pairs": compare(model="docs-rerank", evidence=[by("ATTENTION", layers=[-1], top_k=2)]),
    "rerank": (
        "Rerank",
        [pb.RerankRequest(query=TEXT, documents=PASSAGES, top_n=2, return_documents=True)],
    ),
    "classify": (
        "Classify",
        [pb.ClassifyRequest(inputs=[pb.Input(pair=pb.TextPair(first=TEXT, second=PASSAGES[0]))])],
    ),
    "scores": encode(
        pb.Input(pair=pb.TextPair(first=TEXT, second=PASSAGES[0])),
        model="docs-rerank",
        outputs=pb.Outputs(scores=pb.ScoresOutput()),
    ),
    "spans-given": encode(
        outputs=pb.Outputs(
            spans=pb.SpansOutput(given=pb.GivenSpans(inputs=[pb.TextSpans(spans=[SPAN])]))
        )
    ),
    "spans-sentences": encode(
        outputs=pb.Outputs(spans=pb.SpansOutput(sentences=pb.SentenceSpans()))
    ),
    "spans-windows": encode(
        outputs=pb.Outputs(spans=pb.SpansOutput(windows=pb.TokenWindows(size=4), dimensions=64))
    ),
    "occlude-target": (
        "Occlude",
        [pb.OccludeRequest(input=pb.Input(text=TEXT), target_text=PASSAGES[0])],
    ),
    "occlude-vector": (
        "Occlude",
        [
            pb.OccludeRequest(
                input=pb.Input(text=TEXT), target_vector=pb.TargetVector(values=[1.0] * DIM)
            )
        ],
    ),
    "models": ("ListModels", [pb.ListModelsRequest()]),
}
