"""Operations and schemas of the OpenAPI document that follow the APIs of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Schema = dict[str, Any]


class Operation(NamedTuple):
    """One method of a path.

    Attributes:
        id: its name, for generated clients.
        summary: one line.
        request: schema of the body; None: it has none.
        answers: schemas of the answers that are no errors, by status; None: without a body.
        always: the status that it always has, in place of an answer.
        public: whether it needs no token.
    """

    id: str
    summary: str
    request: Schema | None = None
    answers: Mapping[int, Schema | None] = {}
    always: int | None = None
    public: bool = False


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _optional(kind: str, description: str, **more: Any) -> Schema:
    """Return the schema of a request's field; null is absence."""
    return {"type": [kind, "null"], "description": description, **more}


def _object(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {"type": "object", "required": [*required], "properties": properties}


def _answer(**properties: Schema) -> Schema:
    """Return the schema of an object that has all of these fields and no others."""
    return {**_object((*properties,), **properties), "additionalProperties": False}


def _only(value: str) -> Schema:
    return {"type": "string", "const": value}


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
COUNT = {"type": "integer", "minimum": 0}
MAYBE_TEXT = {"type": ["string", "null"]}
VECTOR = _list(NUMBER)
BASE64 = {"type": "string", "contentEncoding": "base64"}
FLOAT_OR_BASE64 = {
    "enum": ["float", "base64", None],
    "description": "base64: one string of little-endian float32. Absent: float.",
}
TEXT_OBJECT = _object(("text",), text=TEXT)
DIMENSIONS = _optional(
    "integer", "Entries of each vector to keep, from the first; its length is one again.", minimum=1
)
PROMPT_NAME = _optional("string", "One of the model's prompts, which is put before each text.")
MODEL = _optional("string", "A name of the model. Absent or empty: the default model.")
ROLE = {
    "enum": ["query", "document", None],
    "description": "An extension: what the inputs are to a search, which chooses a prompt, and how "
    "a model of many vectors reads them.",
}
USAGE = _answer(prompt_tokens=COUNT, total_tokens=COUNT)
INPUT_TOKENS = _answer(input_tokens=COUNT)
META = {
    **_object(
        ("api_version", "billed_units", "tokens"),
        api_version=_answer(version=TEXT),
        billed_units=INPUT_TOKENS,
        tokens=INPUT_TOKENS,
        warnings=_list(TEXT),
    ),
    "additionalProperties": False,
}

ERROR = {
    "error": _answer(message=TEXT, type=TEXT, param=MAYBE_TEXT, code=MAYBE_TEXT),
    "message": TEXT,
    "code": WHOLE,
    "type": TEXT,
}
OPENAI = {
    "OpenAIEmbeddingsRequest": _object(
        ("input",),
        input={
            "anyOf": [TEXT, _list(TEXT, minItems=1)],
            "description": "A text, or a list of texts. Token ids are refused.",
        },
        model=MODEL,
        dimensions=DIMENSIONS,
        encoding_format=FLOAT_OR_BASE64,
        user=_optional("string", "Ignored."),
        truncate=_optional(
            "string",
            "An extension: none refuses a text that is too long, start and end cut it there. "
            "Case does not matter. Absent: as the service is configured.",
            pattern="^(?:[Nn][Oo][Nn][Ee]|[Ss][Tt][Aa][Rr][Tt]|[Ee][Nn][Dd])$",
        ),
        prompt_name={**PROMPT_NAME, "description": f"An extension: {PROMPT_NAME['description']}"},
        role=ROLE,
        task=_optional(
            "string",
            "Of Jina: retrieval.query or retrieval.passage, as `role`; or a prompt of the model.",
        ),
    ),
    "OpenAIEmbeddings": {
        **_object(
            ("object", "data", "model", "usage"),
            object=_only("list"),
            data=_list(
                _answer(
                    object=_only("embedding"),
                    index=COUNT,
                    embedding={"anyOf": [VECTOR, BASE64]},
                )
            ),
            model=TEXT,
            usage=USAGE,
            warnings=_list(
                TEXT,
                description="An extension, absent without warnings: the model was not trained for "
                "these dimensions.",
            ),
        ),
        "additionalProperties": False,
    },
    "OpenAIModel": _answer(
        id=TEXT, object=_only("model"), created=WHOLE, owned_by=_only("headlight")
    ),
    "OpenAIModels": _answer(object=_only("list"), data=_list(ref("OpenAIModel"))),
    "OpenAIError": {
        "description": "An error, with the same beside it as some clients read it.",
        **_answer(**ERROR),
    },
}

IDS = _list(COUNT, minItems=1)
INPUTS = {
    "anyOf": [TEXT, COUNT, IDS, _list({"anyOf": [TEXT, IDS]}, minItems=1)],
    "description": "A text or a list of token ids, or a list of both. A list of numbers is one.",
}
PARAMETERS = {
    "truncate": _optional(
        "boolean", "Whether to cut a text that is too long. Absent: as the service is configured."
    ),
    "truncation_direction": {
        "enum": ["Left", "left", "Right", "right", None],
        "description": "The side to cut. Absent: right.",
    },
    "prompt_name": PROMPT_NAME,
}
EMBED = {
    **PARAMETERS,
    "normalize": _optional("boolean", "Whether vectors have length one. Absent: true."),
    "dimensions": DIMENSIONS,
    "encoding_format": {"enum": ["float", None]},
}
SCORING = {
    **{name: PARAMETERS[name] for name in ("truncate", "truncation_direction")},
    "raw_scores": _optional("boolean", "Whether scores are logits. Absent: false."),
}
TOP_N = _optional("integer", "The best that are returned. Absent or 0: all.", minimum=0)
ONE_OR_PAIR = _list(TEXT, minItems=1, maxItems=2)
LABELLED = _list(_answer(score=NUMBER, label=TEXT))
LABELS = _answer(
    id2label={"type": "object", "additionalProperties": TEXT},
    label2id={"type": "object", "additionalProperties": COUNT},
)
SENTENCES = _object(("source_sentence", "sentences"), source_sentence=TEXT, sentences=_list(TEXT))
TEI = {
    "TeiEmbedRequest": _object(("inputs",), inputs=INPUTS, **EMBED),
    "TeiEmbedAllRequest": _object(("inputs",), inputs=INPUTS, **PARAMETERS),
    "TeiSimilarityRequest": _object(
        ("inputs",),
        inputs=SENTENCES,
        parameters={"type": ["object", "null"], "properties": PARAMETERS},
    ),
    "TeiRerankRequest": _object(
        ("query", "texts"),
        query=TEXT,
        texts=_list(TEXT, minItems=1),
        return_text=_optional("boolean", "Absent: false."),
        top_n=TOP_N,
        **SCORING,
    ),
    "TeiRanks": _list(
        {
            **_object(("index", "score"), index=COUNT, score=NUMBER, text=TEXT),
            "additionalProperties": False,
        },
        description="The best first.",
    ),
    "TeiPredictRequest": _object(
        ("inputs",),
        inputs={
            "anyOf": [TEXT, ONE_OR_PAIR, _list(ONE_OR_PAIR, minItems=1)],
            "description": "A text, a list of it, a pair as a list of two, or a list of such.",
        },
        parameters={
            **_optional("object", "Of huggingface_hub: the answer is a list of lists."),
            "properties": {
                "top_k": TOP_N,
                "function_to_apply": _optional(
                    "string", "none: logits. Absent: the activation of the model's folder."
                ),
            },
        },
        **SCORING,
    ),
    "TeiLabels": {
        "anyOf": [LABELLED, _list(LABELLED)],
        "description": "All labels of an input, the likeliest first; of a list of lists, of each. "
        "With `parameters`, a list for each input.",
    },
    "TeiTokenizeRequest": _object(
        ("inputs",),
        inputs={"anyOf": [TEXT, _list(TEXT, minItems=1)]},
        add_special_tokens=_optional("boolean", "Absent: true."),
        prompt_name=PROMPT_NAME,
    ),
    "TeiVectors": _list(VECTOR, description="A vector for each input."),
    "TeiTokenVectors": _list(
        _list(VECTOR),
        description="For each input a vector for each token; of a model whose vectors are matched "
        "one by one, those of a document.",
    ),
    "TeiTerms": _list(
        _list(_answer(index=COUNT, value=NUMBER)),
        description="For each input the terms with a weight, ascending.",
    ),
    "TeiSimilarities": _list(NUMBER, description="Cosine similarity of each sentence."),
    "TeiTokens": _list(
        _list(
            _answer(
                id=COUNT,
                text=TEXT,
                special={"type": "boolean"},
                start={"type": ["integer", "null"], "description": "In bytes of UTF-8."},
                stop={"type": ["integer", "null"]},
            )
        ),
        description="The tokens of each text.",
    ),
    "TeiInfo": _answer(
        model_id=TEXT,
        model_sha=TEXT,
        model_dtype=TEXT,
        model_type={
            "anyOf": [
                _answer(embedding=_answer(pooling=TEXT)),
                _answer(reranker=LABELS),
                _answer(classifier=LABELS),
            ]
        },
        served_model_name=TEXT,
        max_concurrent_requests=COUNT,
        max_input_length=COUNT,
        max_batch_tokens=COUNT,
        max_batch_requests={"type": "null"},
        max_client_batch_size=COUNT,
        auto_truncate={"type": "boolean"},
        tokenization_workers=COUNT,
        version=TEXT,
        sha={"type": "null"},
        docker_label={"type": "null"},
    ),
    "TeiError": _answer(
        error=TEXT,
        error_type={"enum": ["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]},
    ),
}

RERANK = {
    "RankingError": {
        "description": "An error, with the same beside it as the clients of Cohere and Jina "
        "read it.",
        **_answer(**ERROR, detail=TEXT),
    },
    "DocumentsRequest": _object(
        ("query", "documents"),
        query=TEXT,
        documents=_list({"anyOf": [TEXT, TEXT_OBJECT]}, minItems=1),
        model=MODEL,
        top_n=TOP_N,
        return_documents=_optional("boolean", "Absent: false."),
        raw_scores=_optional("boolean", "Whether scores are logits. Absent: false."),
        use_activation=_optional("boolean", "False: the same as raw_scores. Absent: true."),
        relevant_spans=_optional("object", "Of Cohere: refused, unless its mode is disabled."),
        property=_optional("string", "Of Weaviate: the answer has `scores`, too."),
    ),
    "Ranking": {
        **_object(
            ("id", "object", "model", "results", "usage", "meta"),
            id=TEXT,
            object=_only("rerank"),
            model=TEXT,
            results=_list(
                {
                    **_object(
                        ("index", "relevance_score"),
                        index=COUNT,
                        relevance_score=NUMBER,
                        document=_answer(text=TEXT),
                    ),
                    "additionalProperties": False,
                },
                description="The best first.",
            ),
            usage=USAGE,
            meta=_answer(api_version=_answer(version=TEXT), tokens=INPUT_TOKENS),
            scores=_list(
                _answer(document=TEXT, score=NUMBER),
                description="For Weaviate: in the order of the documents.",
            ),
        ),
        "additionalProperties": False,
    },
}
TEXT_OR_TEXTS = {"anyOf": [TEXT, _list(TEXT, minItems=1)]}
VLLM_OPTIONS = {
    "model": MODEL,
    "use_activation": _optional("boolean", "False: scores are logits. Absent: true."),
    "truncate_prompt_tokens": _optional(
        "integer", "-1, or the model's length: long texts are cut to it."
    ),
    "truncation_side": {"enum": ["right", "left", None], "description": "Absent: right."},
}
VLLM = {
    "VllmScoreRequest": {
        "anyOf": [
            _object(
                (first, second), **{first: TEXT_OR_TEXTS, second: TEXT_OR_TEXTS}, **VLLM_OPTIONS
            )
            for first, second in (
                ("queries", "documents"),
                ("queries", "items"),
                ("text_1", "text_2"),
                ("data_1", "data_2"),
            )
        ],
        "description": "One first text and any number of second ones, or as many of both. A model "
        "for vectors gives the cosine of each pair.",
    },
    "VllmScores": _answer(
        id=TEXT,
        object=_only("list"),
        model=TEXT,
        usage=USAGE,
        data=_list(_answer(index=COUNT, object=_only("score"), score=NUMBER)),
    ),
    "VllmClassifyRequest": _object(
        ("input",),
        input=TEXT_OR_TEXTS,
        raw_scores=_optional(
            "boolean", "Of infinity: whether scores are logits. If it is there, so is its answer."
        ),
        **VLLM_OPTIONS,
    ),
    "VllmClasses": {
        "anyOf": [
            _answer(
                id=TEXT,
                object=_only(kind),
                model=TEXT,
                usage=USAGE,
                data=_list(each),
            )
            for kind, each in (
                ("list", _answer(index=COUNT, label=TEXT, probs=VECTOR, num_classes=COUNT)),
                ("classify", LABELLED),
            )
        ],
        "description": "The likeliest label of each text. Of infinity: all, the likeliest first.",
    },
    "VllmPoolingRequest": _object(
        ("input",),
        input=INPUTS,
        task={
            "enum": ["embed", "classify", "token_embed", "token_classify", None],
            "description": "Of texts or of their tokens. Absent: what the model is for.",
        },
        dimensions=DIMENSIONS,
        encoding_format=FLOAT_OR_BASE64,
        role=ROLE,
        **VLLM_OPTIONS,
    ),
    "VllmPooled": _answer(
        id=TEXT,
        object=_only("list"),
        model=TEXT,
        usage=USAGE,
        data=_list(
            _answer(
                index=COUNT,
                object=_only("pooling"),
                data={"anyOf": [VECTOR, _list(VECTOR), BASE64]},
            ),
            description="A vector or scores; of token_embed and token_classify for each token.",
        ),
    ),
}
COHERE = {
    "CohereEmbedRequest": _object(
        (),
        texts={"type": ["array", "null"], "items": TEXT, "minItems": 1},
        inputs={
            "type": ["array", "null"],
            "items": _object(
                ("content",),
                content=_list(
                    _object(("type", "text"), type=_only("text"), text=TEXT), minItems=1, maxItems=1
                ),
            ),
            "description": "Of v2, in place of `texts`. Images are refused.",
        },
        model=MODEL,
        input_type=_optional(
            "string",
            "search_query, search_document, classification or clustering: the model's prompt of "
            "that name, else of the role.",
        ),
        embedding_types={
            "type": ["array", "null"],
            "items": {"enum": ["float", "int8", "uint8", "binary", "ubinary", "base64"]},
            "minItems": 1,
            "description": "Absent: float; in v1 one list of it, without types.",
        },
        output_dimension=DIMENSIONS,
        truncate=_optional("string", "NONE refuses a text that is too long. Absent: END."),
        max_tokens=_optional("integer", "The model's length or more, which changes nothing."),
    ),
    "CohereEmbeddings": {
        "anyOf": [
            _answer(
                response_type=_only(kind), id=TEXT, embeddings=each, texts=_list(TEXT), meta=META
            )
            for kind, each in (
                (
                    "embeddings_by_type",
                    {
                        "type": "object",
                        "properties": {
                            "float": _list(VECTOR),
                            **{
                                name: _list(_list(WHOLE))
                                for name in ("int8", "uint8", "binary", "ubinary")
                            },
                            "base64": _list(BASE64),
                        },
                        "additionalProperties": False,
                    },
                ),
                ("embeddings_floats", _list(VECTOR)),
            )
        ],
        "description": "By type; of v1 without `embedding_types` one list.",
    },
}
JINA = {
    "JinaMultiVectorRequest": _object(
        ("input",),
        input={"anyOf": [TEXT, TEXT_OBJECT, _list({"anyOf": [TEXT, TEXT_OBJECT]}, minItems=1)]},
        model=MODEL,
        input_type=_optional("string", "query or document. Absent: document."),
        embedding_type={
            "enum": ["float", "base64", "binary", "ubinary", None],
            "description": "binary, ubinary: 8 signs a number. Absent: float.",
        },
        dimensions=_optional("integer", "The width of the vectors, which are not cut."),
        truncate=_optional(
            "boolean", "Whether to cut a text that is too long. Absent: as configured."
        ),
    ),
    "JinaMultiVectors": _answer(
        object=_only("list"),
        model=TEXT,
        usage=USAGE,
        data=_list(
            _answer(
                object=_only("embedding"),
                index=COUNT,
                embeddings=_list({"anyOf": [VECTOR, BASE64]}),
            ),
            description="For each input its vectors.",
        ),
    ),
}

WEAVIATE = {
    "WeaviateRequest": _object(
        (),
        text=_optional("string", "One text."),
        texts={"type": ["array", "null"], "items": TEXT, "description": "Several, in its place."},
        config={
            "type": ["object", "null"],
            "properties": {
                "pooling_strategy": _optional("string", "Refused if the model pools otherwise."),
                "task_type": {"enum": ["query", "passage", "", None]},
                "dimensions": DIMENSIONS,
            },
        },
    ),
    "WeaviateVector": {
        "anyOf": [
            _answer(text=TEXT, vector=VECTOR, dim=COUNT, dims=COUNT),
            _answer(vectors=_list(VECTOR), dims=COUNT),
        ],
        "description": "The vector of `text`, or those of `texts`.",
    },
    "WeaviateMeta": _answer(model=TEXT, version=TEXT, sha256=TEXT, max_length=COUNT, pooling=TEXT),
    "WeaviateError": _answer(error=TEXT),
}
SCHEMAS: Mapping[str, Schema] = OPENAI | TEI | RERANK | COHERE | JINA | VLLM | WEAVIATE


RANKED_BY_SHAPE = {"anyOf": [ref("TeiRerankRequest"), ref("DocumentsRequest")]}
RANKS_BY_SHAPE = {"anyOf": [ref("TeiRanks"), ref("Ranking")]}
ASKED_BY_SHAPE = {
    "anyOf": [
        ref("TeiEmbedRequest"),
        ref("TeiSimilarityRequest"),
        *RANKED_BY_SHAPE["anyOf"],
        ref("TeiPredictRequest"),
    ]
}
BY_SHAPE = {
    "anyOf": [
        ref("TeiVectors"),
        ref("TeiSimilarities"),
        *RANKS_BY_SHAPE["anyOf"],
        ref("TeiLabels"),
        ref("TeiTerms"),
        ref("TeiTokenVectors"),
    ]
}
PAGE = {"type": "string", "contentMediaType": "text/html"}
# The tag of the dialect, its schema of errors, and its operations by path and method.
DIALECTS: Mapping[str, tuple[str, Mapping[tuple[str, str], Operation]]] = {
    "OpenAI": (
        "OpenAIError",
        {
            ("/v1/embeddings", "post"): Operation(
                "openaiEmbeddings",
                "Embeddings of texts",
                ref("OpenAIEmbeddingsRequest"),
                {200: ref("OpenAIEmbeddings")},
            ),
            ("/v1/models", "get"): Operation(
                "openaiModels", "All names of the model", answers={200: ref("OpenAIModels")}
            ),
            ("/v1/models/{model}", "get"): Operation(
                "openaiModel", "One name of the model", answers={200: ref("OpenAIModel")}
            ),
        },
    ),
    "text-embeddings-inference": (
        "TeiError",
        {
            ("/embed", "post"): Operation(
                "teiEmbed", "Pooled vectors", ref("TeiEmbedRequest"), {200: ref("TeiVectors")}
            ),
            ("/embed_all", "post"): Operation(
                "teiEmbedAll",
                "Vectors of tokens",
                ref("TeiEmbedAllRequest"),
                {200: ref("TeiTokenVectors")},
            ),
            ("/similarity", "post"): Operation(
                "teiSimilarity",
                "Cosine similarity of sentences",
                ref("TeiSimilarityRequest"),
                {200: ref("TeiSimilarities")},
            ),
            ("/tokenize", "post"): Operation(
                "teiTokenize", "Tokens", ref("TeiTokenizeRequest"), {200: ref("TeiTokens")}
            ),
            ("/", "post"): Operation(
                "teiRoot",
                "Vectors or similarity, ranks or labels, by the model and the body",
                ASKED_BY_SHAPE,
                {200: BY_SHAPE},
            ),
            ("/invocations", "post"): Operation(
                "teiInvocations", "The same as POST /", ASKED_BY_SHAPE, {200: BY_SHAPE}
            ),
            ("/info", "get"): Operation(
                "teiInfo", "The model and its limits", answers={200: ref("TeiInfo")}
            ),
            ("/predict", "post"): Operation(
                "teiPredict",
                "Labels of texts and pairs; 424: the model gives none",
                ref("TeiPredictRequest"),
                {200: ref("TeiLabels")},
            ),
            ("/rerank", "post"): Operation(
                "teiRerank",
                "Texts or documents by their score for a query; 424: the model ranks none",
                RANKED_BY_SHAPE,
                {200: RANKS_BY_SHAPE},
            ),
            ("/embed_sparse", "post"): Operation(
                "teiEmbedSparse",
                "Sparse vectors; 424: the model gives none",
                ref("TeiEmbedAllRequest"),
                {200: ref("TeiTerms")},
            ),
            ("/decode", "post"): Operation(
                "teiDecode", "Refused: ids are not decoded", {}, always=501
            ),
        },
    ),
    "Rerank": (
        "RankingError",
        {
            (f"/v{version}/rerank", "post"): Operation(
                f"rerankV{version}",
                f"Documents by their score for a query, as {who} takes them",
                ref("DocumentsRequest"),
                {200: ref("Ranking")},
            )
            for version, who in (
                (1, "Cohere's v1, Jina or vLLM"),
                (2, "Cohere's v2 or vLLM"),
                (3, "OpenVINO Model Server"),
            )
        },
    ),
    "Cohere": (
        "RankingError",
        {
            (f"/v{version}/embed", "post"): Operation(
                f"cohereEmbedV{version}",
                "Embeddings of texts, in one type or several",
                ref("CohereEmbedRequest"),
                {200: ref("CohereEmbeddings")},
            )
            for version in (1, 2)
        },
    ),
    "Jina": (
        "RankingError",
        {
            ("/v1/multi-vector", "post"): Operation(
                "jinaMultiVector",
                "Vectors of tokens that are matched one by one; 400: the model gives none",
                ref("JinaMultiVectorRequest"),
                {200: ref("JinaMultiVectors")},
            )
        },
    ),
    "vLLM": (
        "OpenAIError",
        {
            ("/pooling", "post"): Operation(
                "vllmPooling",
                "Vectors or scores of texts, or of each of their tokens",
                ref("VllmPoolingRequest"),
                {200: ref("VllmPooled")},
            ),
            **{
                (path, "post"): Operation(
                    name,
                    "Scores of pairs, in their order",
                    ref("VllmScoreRequest"),
                    {200: ref("VllmScores")},
                )
                for path, name in (("/score", "vllmScore"), ("/v1/score", "vllmScoreV1"))
            },
            ("/classify", "post"): Operation(
                "vllmClassify",
                "The likeliest label of each text, and the scores of all",
                ref("VllmClassifyRequest"),
                {200: ref("VllmClasses")},
            ),
        },
    ),
    "Weaviate": (
        "WeaviateError",
        {
            ("/vectors", "post"): Operation(
                "weaviateVectors",
                "A vector, or several",
                ref("WeaviateRequest"),
                {200: ref("WeaviateVector")},
            ),
            ("/meta", "get"): Operation(
                "weaviateMeta", "The model", answers={200: ref("WeaviateMeta")}
            ),
            ("/.well-known/live", "get"): Operation(
                "weaviateLive", "Whether the process runs", answers={204: None}
            ),
            ("/.well-known/ready", "get"): Operation(
                "weaviateReady", "Whether the service answers", answers={204: None, 503: None}
            ),
        },
    ),
    "Service": (
        "OpenAIError",
        {
            ("/", "get"): Operation(
                "home",
                "A page for browsers, by Accept: text/html; for others health",
                answers={200: PAGE, 503: None},
                public=True,
            ),
            ("/health", "get"): Operation(
                "health", "Whether the service answers", answers={200: None, 503: None}, public=True
            ),
            ("/ping", "get"): Operation(
                "ping", "Whether the service answers", answers={200: None, 503: None}, public=True
            ),
            ("/openapi.json", "get"): Operation(
                "openapi", "This document", answers={200: {"type": "object"}}, public=True
            ),
            ("/docs", "get"): Operation(
                "docs", "This document for people", answers={200: PAGE}, public=True
            ),
            ("/docs/{file}", "get"): Operation(
                "docsFile", "A file of that page", answers={200: {"type": "string"}}, public=True
            ),
        },
    ),
}
