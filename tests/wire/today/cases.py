"""Exchanges that are recorded: every method, every path, every command that asks a service.

A service that anyone may use answers those of `OPEN`, one with tokens and quotas those of
`GUARDED`, in their order.
"""

from __future__ import annotations

import base64
import itertools
import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format

from tests.wire.cases import CASES as OF_THE_CONTRACT
from tests.wire.cases import ODD, PASSAGES, TEXT
from tests.wire.today.asking import Command, Exchange, Http, Rpc

CONTRACT = "headlight.v1.HeadlightService"
OIP = "inference.GRPCInferenceService"
MODEL = "docs-rope"
OTHER = "close a file"
TOO_LONG = "read " * 3000
TOKEN = "a-token-of-24-characters"


def encode(*inputs: dict[str, Any], method: str = "Encode", **fields: Any) -> Rpc:
    body = {"inputs": inputs or [{"text": TEXT}], **fields}
    return Rpc(f"{CONTRACT}/{method}", (body,))


def encoded(outputs: dict[str, Any], *inputs: dict[str, Any]) -> Rpc:
    return encode(*inputs, outputs=outputs)


def compare(**fields: Any) -> Rpc:
    request = {"query": {"text": OTHER}, "passages": [{"text": each} for each in PASSAGES]}
    return Rpc(f"{CONTRACT}/Compare", (request | fields,))


def occlude(**fields: Any) -> Rpc:
    return Rpc(f"{CONTRACT}/Occlude", ({"input": {"text": TEXT}} | fields,))


def rerank(**fields: Any) -> Rpc:
    return Rpc(f"{CONTRACT}/Rerank", ({"query": OTHER, "documents": PASSAGES} | fields,))


def classify(**fields: Any) -> Rpc:
    return Rpc(f"{CONTRACT}/Classify", ({"inputs": [{"text": TEXT}]} | fields,))


def stream(**requests: dict[str, Any]) -> Rpc:
    return Rpc(
        f"{CONTRACT}/EncodeStream",
        tuple({"id": name} | request for name, request in requests.items()),
    )


def _recorded_before() -> Iterator[tuple[str, Exchange]]:
    """The cases that published versions were recorded with."""
    for name, (method, messages) in OF_THE_CONTRACT.items():
        said = [json_format.MessageToDict(m, preserving_proto_field_name=True) for m in messages]
        yield name, Rpc(f"{CONTRACT}/{method}", tuple(said))


SPANS = {"spans": [{"start": 0, "end": 6}, {"start": 7, "end": 11}]}
EVIDENCE = [
    {"method": f"EVIDENCE_METHOD_{name}", "unit": "UNIT_WORD", "top_k": 2}
    for name in ("LATE_INTERACTION", "OCCLUSION", "ATTENTION")
]
GRPC: dict[str, Exchange] = {
    **dict(_recorded_before()),
    "models": Rpc(f"{CONTRACT}/ListModels", ({},)),
    "spans-given": encoded({"spans": {"given": {"inputs": [SPANS]}, "dtype": "DATA_TYPE_FLOAT16"}}),
    "spans-sentences": encoded(
        {"spans": {"sentences": {}, "include_special": True}, "token_info": {}},
        {"text": "Open a file. Read its lines! Then close it."},
    ),
    "spans-windows": encoded(
        {"spans": {"windows": {"size": 4, "overlap": 1}, "dimensions": 64, "normalize": False}}
    ),
    "spans-beyond": encoded(
        {"spans": {"windows": {"size": 1000}, "beyond_max_length": True}}, {"text": TOO_LONG}
    ),
    "special-tokens-text": encode(
        {"text": "open [SEP] file"},
        special_tokens="SPECIAL_TOKENS_TEXT",
        outputs={"token_info": {}},
    ),
    "compare": compare(),
    "compare-sorted": compare(sort=True, priority="PRIORITY_BULK", query_prompt_text="find: "),
    "compare-evidence": compare(
        late_interaction={}, matrix={"dtype": "DATA_TYPE_FLOAT16"}, evidence=EVIDENCE, sort=True
    ),
    "compare-spans": compare(
        passages=[{"text": TEXT}],
        evidence=[{"unit": "UNIT_SPAN", "spans": [SPANS]}, EVIDENCE[2] | {"layers": [-1]}],
    ),
    "compare-parts": compare(
        evidence=[
            {"method": "EVIDENCE_METHOD_SPAN", "unit": "UNIT_WORD"},
            {
                "method": "EVIDENCE_METHOD_CONTRIBUTIONS",
                "unit": "UNIT_WORD",
                "per_token": True,
                "query_units": True,
            },
            {"method": "EVIDENCE_METHOD_OCCLUSION", "unit": "UNIT_WORD", "max_encodings": 2},
        ],
    ),
    "compare-parts-refused": compare(
        evidence=[{"method": "EVIDENCE_METHOD_SPAN", "per_token": True}]
    ),
    "compare-dry": compare(dry_run=True, late_interaction={}, matrix={}),
    "occlude-target": occlude(target_text=OTHER),
    "stream-compare": stream(one={"compare": compare().requests[0]}),
    "no-inputs": Rpc(f"{CONTRACT}/Encode", ({},)),
    "no-content": encode({}),
    "empty-text": encode({"text": TEXT}, {"text": ""}),
    "empty-text-encoded": encode(
        {"text": ""},
        {"text": OTHER},
        empty_texts="EMPTY_TEXTS_ENCODE",
        outputs={"pooled": {"dimensions": 8}, "token_info": {}},
    ),
    "empty-text-refused": encode({"text": ""}, empty_texts="EMPTY_TEXTS_REFUSE"),
    "too-long": encode({"text": TOO_LONG}),
    "pair-refused": encode({"pair": {"first": TEXT, "second": OTHER}}),
    "id-out-of-range": encode({"ids": {"ids": [5, 1 << 40]}}),
    "ids-negative": encode({"ids": {"ids": [-1]}}),
    "head-mask-short": encode({"text": TEXT, "head_mask": {"values": [1.0]}}),
    "head-mask-range": encode({"text": TEXT, "head_mask": {"values": [2.0] * len(ODD.values)}}),
    "unknown-model": encode(model="nobody"),
    "unknown-prompt": encode(prompt_name="nobody"),
    "dimensions": encoded({"pooled": {"dimensions": 100_000}}),
    "dtype-refused": encoded({"tokens": {"dtype": "DATA_TYPE_INT8"}}),
    "dtype-twice": encoded({"pooled": {"dtypes": ["DATA_TYPE_FLOAT32", "DATA_TYPE_FLOAT32"]}}),
    "int8-refused": encoded({"pooled": {"dtypes": ["DATA_TYPE_INT8"]}}),
    "layer-unknown": encoded({"attention": {"layers": [99]}}),
    "head-twice": encoded({"attention": {"heads": [0, 0]}}),
    "pairs-and-layers": encoded({"attention": {"layers": [0], "pairs": [{"layer": 0}]}}),
    "reduce-twice": encoded({"attention": {"reduce": ["REDUCTION_HEAD_MEAN"] * 2}}),
    "scores-rollout": encoded(
        {"attention": {"scores": True, "reduce": ["REDUCTION_HEAD_MEAN", "REDUCTION_ROLLOUT"]}}
    ),
    "unit-span-without": encoded({"attention": {"unit": "UNIT_SPAN"}}),
    "attention-bytes": encoded({"attention": {"max_bytes": 10}}),
    "hidden-layer": encoded({"hidden": {"layers": [99]}}),
    "spans-kind": encoded({"spans": {}}),
    "spans-count": encoded({"spans": {"given": {"inputs": []}}}),
    "spans-outside": encoded({"spans": {"given": {"inputs": [{"spans": [{"end": 999}]}]}}}),
    "windows-overlap": encoded({"spans": {"windows": {"size": 2, "overlap": 2}}}),
    "answer-too-large": encoded(
        {"hidden": {}, "attention": {}}, *[{"text": "read " * 200} for _ in range(20)]
    ),
    "compare-no-query": Rpc(f"{CONTRACT}/Compare", ({"passages": [{"text": TEXT}]},)),
    "compare-no-passages": compare(passages=[]),
    "compare-empty-passage": compare(passages=[{"text": TEXT}, {"text": ""}]),
    "compare-evidence-twice": compare(evidence=[EVIDENCE[0], EVIDENCE[0]]),
    "compare-overlap": compare(
        passages=[{"text": TEXT}],
        evidence=[{"unit": "UNIT_SPAN", "spans": [{"spans": [{"end": 6}, {"end": 6}]}]}],
    ),
    "compare-matrix-bytes": compare(matrix={"max_bytes": 1}),
    "rerank": rerank(),
    "rerank-unknown": rerank(model="nobody"),
    "classify": classify(),
    "occlude-no-input": Rpc(f"{CONTRACT}/Occlude", ({},)),
    "occlude-empty": occlude(input={"text": ""}),
    "occlude-places": occlude(tokens={"indices": {"indices": [99]}}),
    "tokenize-refused": encode({"text": ""}, method="Tokenize"),
    "model-unknown": Rpc(f"{CONTRACT}/GetModel", ({"model": "nobody"},)),
    "stream-without-id": stream(**{"": {"encode": {"inputs": [{"text": TEXT}]}}}),
    "stream-refused": stream(
        one={}, two={"encode": {"inputs": [{"text": ""}]}}, three={"compare": {}}
    ),
}


def raw(*texts: str) -> str:
    data = b"".join(struct.pack("<I", len(each.encode())) + each.encode() for each in texts)
    return base64.b64encode(data).decode()


def infer(model: str = MODEL, *outputs: str, method: str = "ModelInfer", **options: Any) -> Rpc:
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    request = {
        "model_name": model,
        "id": "one",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [2]}],
        "raw_input_contents": [raw(TEXT, OTHER)],
        "outputs": [{"name": name} for name in outputs],
        "parameters": {name: {kinds[type(value)]: value} for name, value in options.items()},
    }
    return Rpc(f"{OIP}/{method}", (request,))


def changed(rpc: Rpc, **fields: Any) -> Rpc:
    return rpc._replace(requests=(rpc.requests[0] | fields,))


IDS = {
    "inputs": [
        {
            "name": name,
            "datatype": "INT64",
            "shape": [1, 4],
            "contents": {"int64_contents": values},
        }
        for name, values in {"input_ids": [5, 17, 900, 6], "attention_mask": [1, 1, 1, 1]}.items()
    ],
    "raw_input_contents": [],
}
UNSERVED = (
    *("RepositoryModelLoad", "RepositoryModelUnload", "ModelStatistics", "TraceSetting"),
    *("SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
    *("CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"),
    "LogSettings",
)
INFERENCE: dict[str, Exchange] = {
    **{name: Rpc(f"{OIP}/{name}", ({},)) for name in ("ServerLive", "ServerReady")},
    "ServerMetadata": Rpc(f"{OIP}/ServerMetadata", ({},)),
    "RepositoryIndex": Rpc(f"{OIP}/RepositoryIndex", ({},)),
    **{
        f"{method}-{model}": Rpc(f"{OIP}/{method}", ({"name": model},))
        for method, model in itertools.product(
            ("ModelReady", "ModelMetadata", "ModelConfig"),
            (MODEL, f"{MODEL}.tokens", f"{MODEL}.attention", "nobody"),
        )
    },
    **{f"unserved-{name}": Rpc(f"{OIP}/{name}", ({},)) for name in UNSERVED},
    "texts": infer(),
    "texts-options": infer(MODEL, "embedding", dimensions=64, normalize=False, truncate="end"),
    "texts-int8": infer(MODEL, dtype="int8"),
    "texts-prompt": infer(MODEL, dimensions=64, dtype="float16", prompt="find: "),
    "tokens": infer(f"{MODEL}.tokens", skip_special=True, dtype="float16"),
    "attention": infer(f"{MODEL}.attention", "attention.0", "attention.2", dtype="float16"),
    "attention-heads": infer(f"{MODEL}.attention", "attention.0.1", "attention.1.2"),
    "attention-mixed": infer(f"{MODEL}.attention", "attention.0", "attention.1.2"),
    "attention-reduced": infer(
        f"{MODEL}.attention", attention_layers="0,-1", attention_reduce="head_mean"
    ),
    "ids": changed(infer(), **IDS),
    "stream": infer(method="ModelStreamInfer"),
    "stream-refused": infer("nobody", method="ModelStreamInfer"),
    "unknown-model": infer("nobody"),
    "unknown-version": changed(infer(), model_version="nobody's"),
    "unknown-output": infer(MODEL, "nobody"),
    "unknown-option": infer(normalise=True),
    "option-type": infer(normalize="yes"),
    "option-range": infer(dimensions=100_000),
    "prompt-twice": infer(prompt="a", prompt_name="b"),
    "sequence": infer(sequence_id=3),
    "no-tensors": changed(infer(), inputs=[], raw_input_contents=[]),
    "shape": changed(infer(), inputs=[{"name": "text", "datatype": "BYTES", "shape": [3]}]),
    "datatype": changed(infer(), inputs=[{"name": "text", "datatype": "FP32", "shape": [2]}]),
    "empty-text": changed(infer(), raw_input_contents=[raw(TEXT, "")]),
    "too-long": changed(infer(), raw_input_contents=[raw(TEXT, TOO_LONG)]),
}

TEI_TEXT = {"inputs": TEXT}


def tei(method: str, *requests: dict[str, Any]) -> Rpc:
    services = ("Info", "Embed", "Predict", "Rerank", "Tokenize")
    service = next((each for each in services if method.startswith(each)), "Tokenize")
    return Rpc(f"tei.v1.{service}/{method}", requests or (TEI_TEXT,))


TEI: dict[str, Exchange] = {
    "info": tei("Info", {}),
    "embed": tei("Embed"),
    "embed-options": tei("Embed", TEI_TEXT | {"normalize": False, "dimensions": 64}),
    "embed-cut": tei("Embed", {"inputs": TOO_LONG, "truncate": True}),
    "embed-left": tei(
        "Embed",
        {
            "inputs": TOO_LONG,
            "truncate": True,
            "truncation_direction": "TRUNCATION_DIRECTION_LEFT",
        },
    ),
    "embed-too-long": tei("Embed", {"inputs": TOO_LONG}),
    "embed-empty": tei("Embed", {"inputs": ""}),
    "embed-dimensions": tei("Embed", TEI_TEXT | {"dimensions": 100_000}),
    "embed-prompt": tei("Embed", TEI_TEXT | {"prompt_name": "nobody"}),
    "embed-stream": tei("EmbedStream", TEI_TEXT, {"inputs": OTHER}),
    "embed-stream-refused": tei("EmbedStream", {"inputs": ""}),
    "embed-all": tei("EmbedAll", {"inputs": OTHER}),
    "embed-all-stream": tei("EmbedAllStream", {"inputs": OTHER}),
    "tokenize": tei("Tokenize", TEI_TEXT | {"add_special_tokens": True}),
    "tokenize-plain": tei("Tokenize", {"inputs": "héron Ω"}),
    "tokenize-stream": tei("TokenizeStream", TEI_TEXT, {"inputs": OTHER}),
    "sparse": tei("EmbedSparse"),
    "sparse-stream": tei("EmbedSparseStream"),
    "predict-stream": tei("PredictStream"),
    "predict-pair-stream": tei("PredictPairStream", {"inputs": [TEXT, OTHER]}),
    "decode-stream": tei("DecodeStream", {"ids": [5, 17]}),
    "predict": tei("Predict"),
    "predict-pair": tei("PredictPair", {"inputs": [TEXT, OTHER]}),
    "rerank": tei("Rerank", {"query": OTHER, "texts": PASSAGES}),
    "rerank-stream": tei("RerankStream", {"query": OTHER, "text": PASSAGES[0]}),
    "decode": tei("Decode", {"ids": [5, 17]}),
}


def post(path: str, body: Any, **headers: str) -> Http:
    return Http(
        f"POST {path}",
        body,
        tuple((name.replace("_", "-"), value) for name, value in headers.items()),
    )


def get(path: str, *, shown: bool = True) -> Http:
    return Http(f"GET {path}", shown=shown)


OPENAI = {"input": TEXT, "model": MODEL}
RERANK = {"query": OTHER, "documents": PASSAGES}
COHERE = {
    "texts": [TEXT, OTHER],
    "input_type": "search_document",
    "embedding_types": ["float"],
    "output_dimension": 8,
}
HTTP: dict[str, Exchange] = {
    "openai": post("/v1/embeddings", OPENAI),
    "openai-base64": post(
        "/v1/embeddings", {"input": [TEXT, OTHER], "encoding_format": "base64", "dimensions": 64}
    ),
    "openai-models": get("/v1/models"),
    "openai-model": get(f"/v1/models/{MODEL}"),
    "openai-model-unknown": get("/v1/models/nobody"),
    "openai-unknown-model": post("/v1/embeddings", OPENAI | {"model": "nobody"}),
    "openai-truncate-start": post(
        "/v1/embeddings", {"input": OTHER + TOO_LONG, "truncate": "start", "dimensions": 64}
    ),
    "openai-truncate-end": post(
        "/v1/embeddings", {"input": OTHER + TOO_LONG, "truncate": "end", "dimensions": 64}
    ),
    "openai-nested": post("/v1/embeddings", {"input": [["a"]]}),
    "openai-surrogate": Http(
        "POST /v1/embeddings", b'{"input": "\\ud83d"}', (("Content-Type", "application/json"),)
    ),
    "openai-base-url": post("/embeddings", OPENAI),
    "openai-preflight": Http(
        "OPTIONS /v1/embeddings",
        None,
        (("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")),
    ),
    "openai-no-input": post("/v1/embeddings", {"model": MODEL}),
    "openai-empty-list": post("/v1/embeddings", {"input": []}),
    "openai-empty-text": post("/v1/embeddings", {"input": [TEXT, ""]}),
    "openai-ids": post("/v1/embeddings", {"input": [[5, 17]]}),
    "openai-mixed": post("/v1/embeddings", {"input": [TEXT, None]}),
    "openai-too-long": post("/v1/embeddings", {"input": [TEXT, TOO_LONG]}),
    "openai-dimensions": post("/v1/embeddings", OPENAI | {"dimensions": 100_000}),
    "openai-dimensions-type": post("/v1/embeddings", OPENAI | {"dimensions": "64"}),
    "openai-format": post("/v1/embeddings", OPENAI | {"encoding_format": "hex"}),
    "openai-prompt": post("/v1/embeddings", OPENAI | {"prompt_name": "nobody"}),
    "openai-not-json": Http("POST /v1/embeddings", b"{", (("Content-Type", "application/json"),)),
    "openai-not-an-object": post("/v1/embeddings", [1]),
    "openai-deep": Http(
        "POST /v1/embeddings", b"[" * 5000, (("Content-Type", "application/json"),)
    ),
    "openai-type": Http("POST /v1/embeddings", b"x=1", (("Content-Type", "text/plain"),)),
    "openai-encoding": post("/v1/embeddings", OPENAI, Content_Encoding="gzip"),
    "openai-timeout": post("/v1/embeddings", OPENAI, X_Request_Timeout="soon"),
    "openai-priority": post("/v1/embeddings", OPENAI, X_Headlight_Priority="urgent"),
    "openai-bulk": post(
        "/v1/embeddings", {"input": OTHER, "dimensions": 32}, X_Headlight_Priority="bulk"
    ),
    "openai-get": get("/v1/embeddings"),
    "unknown-path": post("/v1/nobody", {}),
    "tei-embed": post("/embed", TEI_TEXT),
    "tei-embed-many": post(
        "/embed", {"inputs": [TEXT, OTHER], "dimensions": 64, "normalize": False}
    ),
    "tei-embed-ids": post("/embed", {"inputs": [[5, 17, 900, 6]], "dimensions": 64}),
    "tei-embed-cut": post("/embed", {"inputs": TOO_LONG, "truncate": True, "dimensions": 64}),
    "tei-embed-left": post(
        "/embed",
        {"inputs": TOO_LONG, "truncate": True, "truncation_direction": "Left", "dimensions": 64},
    ),
    "tei-embed-all": post("/embed_all", {"inputs": OTHER}),
    "tei-similarity": post(
        "/similarity", {"inputs": {"source_sentence": OTHER, "sentences": PASSAGES}}
    ),
    "tei-root": post("/", {"inputs": OTHER, "dimensions": 8}),
    "tei-invocations": post(
        "/invocations", {"inputs": {"source_sentence": OTHER, "sentences": PASSAGES}}
    ),
    "tei-tokenize": post("/tokenize", {"inputs": [TEXT, "héron Ω"]}),
    "tei-tokenize-plain": post("/tokenize", {"inputs": TEXT, "add_special_tokens": False}),
    "tei-info": get("/info"),
    "tei-sparse": post("/embed_sparse", TEI_TEXT),
    "tei-predict": post("/predict", TEI_TEXT),
    "tei-rerank": post("/rerank", {"query": OTHER, "texts": PASSAGES}),
    "tei-rerank-documents": post("/rerank", RERANK),
    **{f"rerank-v{version}": post(f"/v{version}/rerank", RERANK) for version in (1, 2, 3)},
    "vllm-score": post("/score", {"text_1": OTHER, "text_2": PASSAGES}),
    "vllm-v1-score": post("/v1/score", {"queries": OTHER, "documents": PASSAGES}),
    "vllm-classify": post("/classify", {"input": PASSAGES}),
    "vllm-pooling": post("/pooling", {"input": [TEXT, OTHER], "dimensions": 8, "role": "query"}),
    "vllm-pooling-ids": post(
        "/pooling", {"input": [5, 17], "task": "token_embed", "encoding_format": "base64"}
    ),
    "vllm-pooling-classify": post("/pooling", {"input": OTHER, "task": "classify"}),
    "cohere-embed": post("/v2/embed", COHERE),
    "cohere-embed-v1": Http("POST /v1/embed", {"texts": [TEXT]}, shown=False),
    "cohere-embed-int8": post("/v2/embed", COHERE | {"embedding_types": ["int8"]}),
    "cohere-embed-images": post("/v2/embed", {"images": ["data:image/png;base64,AA=="]}),
    "cohere-embed-long": post("/v2/embed", {"texts": [TOO_LONG], "truncate": "NONE"}),
    "jina-multi-vector": post("/v1/multi-vector", {"input": [TEXT], "input_type": "query"}),
    "jina-task": post("/v1/embeddings", OPENAI | {"task": "retrieval.query", "dimensions": 8}),
    "rerank-model": post("/v2/rerank", RERANK | {"model": "rerank-v3.5"}),
    "tei-decode": post("/decode", {"ids": [5]}),
    "tei-empty": post("/embed", {"inputs": ""}),
    "tei-empty-second": post("/embed", {"inputs": [TEXT, ""]}),
    "tei-too-long": post("/embed", {"inputs": TOO_LONG}),
    "tei-no-inputs": post("/embed", {}),
    "tei-type": post("/embed", {"inputs": 3}),
    "tei-id": post("/embed", {"inputs": [[1 << 40]]}),
    "tei-direction": post("/embed", TEI_TEXT | {"truncation_direction": "up"}),
    "tei-format": post("/embed", TEI_TEXT | {"encoding_format": "base64"}),
    "tei-dimensions": post("/embed", TEI_TEXT | {"dimensions": 0}),
    "tei-prompt": post("/embed", TEI_TEXT | {"prompt_name": "nobody"}),
    "tei-similarity-empty": post(
        "/similarity", {"inputs": {"source_sentence": OTHER, "sentences": []}}
    ),
    "tei-similarity-long": post(
        "/similarity", {"inputs": {"source_sentence": OTHER, "sentences": [TOO_LONG]}}
    ),
    "tei-not-json": Http("POST /embed", b"{", (("Content-Type", "application/json"),)),
    "weaviate": post("/vectors", {"text": TEXT}),
    "weaviate-many": post(
        "/vectors", {"texts": [TEXT, OTHER], "config": {"task_type": "query", "dimensions": 64}}
    ),
    "weaviate-meta": get("/meta"),
    "weaviate-live": get("/.well-known/live"),
    "weaviate-ready": get("/.well-known/ready"),
    "weaviate-empty": post("/vectors", {"text": ""}),
    "weaviate-none": post("/vectors", {}),
    "weaviate-pooling": post("/vectors", {"text": TEXT, "config": {"pooling_strategy": "cls"}}),
    "weaviate-too-long": post("/vectors", {"text": TOO_LONG}),
    "json-encode": post(
        "/v1/encode",
        {
            "inputs": [{"text": OTHER}, {"text": TEXT}],
            "outputs": {
                "pooled": {"dimensions": 32},
                "tokens": {"skip_special": True},
                "attention": {"layers": [-1], "heads": [0]},
                "hidden": {"layers": [0], "tokens": {"named": "NAMED_TOKENS_FIRST"}},
                "spans": {"windows": {"size": 2}},
                "token_info": {},
            },
        },
    ),
    "json-encode-base64": post(
        "/v1/encode",
        {
            "inputs": [{"text": OTHER}],
            "encoding": "base64",
            "outputs": {"pooled": {}, "attention": {"top_k": 2}},
        },
    ),
    "json-encode-dry": post(
        "/v1/encode",
        {"inputs": [{"text": OTHER}], "dry_run": True, "outputs": {"attention": {}}},
    ),
    "json-compare": post(
        "/v1/compare",
        {
            "query": {"text": OTHER},
            "passages": [{"text": each} for each in PASSAGES],
            "late_interaction": {},
            "matrix": {},
            "evidence": EVIDENCE,
            "sort": True,
        },
    ),
    "json-compare-parts": post(
        "/v1/compare",
        {
            "query": {"text": OTHER},
            "passages": [{"text": each} for each in PASSAGES],
            "evidence": [
                {"method": "EVIDENCE_METHOD_SPAN", "unit": "UNIT_SENTENCE", "query_units": True},
                {"method": "EVIDENCE_METHOD_CONTRIBUTIONS", "unit": "UNIT_TOKEN"},
            ],
        },
    ),
    "json-occlude": post("/v1/occlude", {"input": {"text": TEXT}, "target_text": OTHER}),
    "json-rank": post("/v1/rank", RERANK | {"top_n": 1, "return_documents": True}),
    "json-rank-unknown-field": post("/v1/rank", RERANK | {"texts": PASSAGES}),
    "json-classify": post("/v1/classify", {"inputs": [{"text": TEXT}], "top_n": 1}),
    "json-model": get("/v1/model"),
    "json-model-unknown": get("/v1/model?model=nobody"),
    "json-openapi": get("/openapi.json", shown=False),
    "json-unknown-field": post("/v1/encode", {"inputs": [{"txt": TEXT}]}),
    "json-unknown-enum": post(
        "/v1/encode", {"inputs": [{"text": TEXT}], "truncation": "TRUNCATION_CUT"}
    ),
    "json-type": post("/v1/encode", {"inputs": [{"text": 3}]}),
    "json-layer": post(
        "/v1/encode", {"inputs": [{"text": TEXT}], "outputs": {"attention": {"layers": [99]}}}
    ),
    "json-encoding": post("/v1/encode", {"inputs": [{"text": TEXT}], "encoding": "hex"}),
    "json-empty-text": post("/v1/encode", {"inputs": [{"text": TEXT}, {"text": ""}]}),
    "json-empty-text-encoded": post(
        "/v1/encode",
        {
            "inputs": [{"text": ""}],
            "empty_texts": "EMPTY_TEXTS_ENCODE",
            "outputs": {"pooled": {"dimensions": 8}},
        },
    ),
    "json-empty-texts": post("/v1/encode", {"inputs": [{"text": ""}], "empty_texts": "keep"}),
    "json-model-refused": post("/v1/encode", {"inputs": [{"text": TEXT}], "model": "nobody"}),
    "json-compare-refused": post("/v1/compare", {"query": {"text": OTHER}, "passages": []}),
    "json-occlude-refused": post("/v1/occlude", {"input": {"text": ""}}),
    "health": get("/health"),
    "ping": get("/ping"),
    "docs-unknown": get("/docs/nobody", shown=False),  # with and without the extra
    "home": get("/", shown=False),
}


def run(*words: str, stdin: str = "") -> Command:
    return Command(words, stdin)


COMMANDS: dict[str, Exchange] = {
    "embed-text": run("embed", OTHER, "--dimensions", "8"),
    "embed-json": run("embed", OTHER, TEXT, "--format", "json", "--dimensions", "8"),
    "embed-jsonl": run(
        *("embed", "--format", "jsonl", "--dimensions", "8", "--dtype", "float32"),
        *("--dtype", "binary"),
        stdin=f"{TEXT}\n{OTHER}\n",
    ),
    "embed-spans": run("embed", "Open it. Close it.", "--spans", "sentences", "--dimensions", "4"),
    "embed-ids": run("embed", "5 17 900 6", "--token-ids", "--dimensions", "8"),
    "embed-bad": run("embed", "--format", "jsonl", "--dimensions", "8", stdin=f"{TEXT}\n\n"),
    "embed-skip": run(
        *("embed", "--format", "jsonl", "--dimensions", "8", "--skip-bad"),
        stdin=f"{TEXT}\n{TOO_LONG}\n",
    ),
    "embed-too-long": run("embed", TOO_LONG),
    "embed-empty": run("embed", ""),
    "embed-empty-encoded": run("embed", "", "--empty-texts", "encode", "--dimensions", "8"),
    "embed-dimensions": run("embed", OTHER, "--dimensions", "100000"),
    "embed-prompt": run("embed", OTHER, "--prompt-name", "nobody"),
    "embed-option": run("embed", OTHER, "--dimension", "eight"),
    "embed-format": run("embed", OTHER, "--format", "xml"),
    "embed-nothing": run("embed", stdin=""),
    "embed-model": run("embed", OTHER, "--model", "nobody"),
    "embed-target": run("embed", OTHER, "--target", "nowhere"),
    "tokens": run("tokens", TEXT),
    "tokens-json": run("tokens", TEXT, "héron Ω", "--format", "json"),
    "attend": run("attend", OTHER),
    "attend-json": run("attend", OTHER, "--format", "json", "--layer", "-1", "--head", "0"),
    "attend-layer": run("attend", OTHER, "--layer", "99"),
    "heads": run("heads", TEXT, OTHER),
    "heads-json": run("heads", TEXT, "--format", "json", "--patterns"),
    "compare": run("compare", OTHER, stdin="\n".join(PASSAGES) + "\n"),
    "compare-json": run(
        *("compare", OTHER, "--format", "json", "--method", "occlusion"),
        *("--method", "attention"),
        stdin="\n".join(PASSAGES) + "\n",
    ),
    "compare-nothing": run("compare", OTHER, stdin=""),
    "rerank": run("rerank", OTHER, stdin="\n".join(PASSAGES) + "\n"),
    "rerank-nothing": run("rerank", OTHER, stdin=""),
    "classify": run("classify", OTHER, TEXT),
    "info": run("info", "--format", "json"),
    "models": run("models"),
    "models-json": run("models", "--format", "json"),
    "unknown-command": run("nobody"),
}
OPEN = {"grpc": GRPC, "oip": INFERENCE, "tei": TEI, "http": HTTP, "commands": COMMANDS}


def with_token(exchange: Any) -> Any:
    if isinstance(exchange, Rpc):
        return exchange._replace(token=TOKEN)
    return exchange._replace(headers=(*exchange.headers, ("Authorization", f"Bearer {TOKEN}")))


DOORS: dict[str, Exchange] = {
    "encode": GRPC["pooled"],
    "infer": INFERENCE["texts"],
    "embed": TEI["embed"],
    "openai": HTTP["openai"],
    "tei": HTTP["tei-embed"],
    "weaviate": HTTP["weaviate"],
    "json": HTTP["json-encode-base64"],
    "json-compare": HTTP["json-compare"],
}
GUARDED: dict[str, Exchange] = {
    **{f"{name}-unknown": each for name, each in DOORS.items()},
    "probe": HTTP["health"],
    "first": with_token(GRPC["pooled-cut"]),  # larger than the burst: half an hour of quota
    **{f"{name}-quota": with_token(each) for name, each in DOORS.items()},
}
