"""Requests of text-embeddings-inference as requests of the core."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.description import ModelDescription
from headlight.outputs.sparse import INDICES
from headlight.reasons import Phrase, Reason
from headlight.refusals import Code, Edge, Refusal
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.values import Floats
from headlight.spec import InputRole, MultiVectorSpec, PooledSpec, SparseSpec
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import OutputSpec, Request

NO_DECODING = "the service turns no ids into text; decode with the model's tokenizer"
Direction = Literal["right", "left"]
CUTS: dict[Direction, Truncation] = {"right": "cut_end", "left": "cut_start"}
TOKEN_VECTORS = OutputSpec(pooled=False, tokens=True)
MULTI_VECTORS = OutputSpec(pooled=False, multi_vector=MultiVectorSpec())
TERMS = OutputSpec(pooled=False, sparse=SparseSpec())


class Task(NamedTuple):
    """The part of text-embeddings-inference that serves a task.

    Attributes:
        model_type: its name for such a model.
        services: those of tei.v1 that take it.
        method: the method of tei.v1 to call, or several.
        path: the path to post to.
    """

    model_type: str
    services: tuple[str, ...]
    method: str
    path: str


TASKS: Mapping[str, Task] = {
    "embed": Task("embedding", ("tei.v1.Embed",), "tei.v1.Embed", "/embed"),
    "rerank": Task("reranker", ("tei.v1.Rerank", "tei.v1.Predict"), "tei.v1.Rerank", "/rerank"),
    "classify": Task("classifier", ("tei.v1.Predict",), "tei.v1.Predict", "/predict"),
    "sparse": Task("embedding", ("tei.v1.Embed",), "tei.v1.Embed/EmbedSparse", "/embed_sparse"),
    "multi_vector": Task("embedding", ("tei.v1.Embed",), "tei.v1.Embed/EmbedAll", "/embed_all"),
}
# Words of the contract: without prompts as texts, and with its own name of truncation.
SENTENCES: Mapping[Reason | Phrase, str] = {
    Reason.NO_PROMPTS: "is not a prompt of this model; it has none",
    Reason.NO_SUCH_PROMPT: "is not a prompt of this model; choose {names}",
    Phrase.TRUNCATE_BY: (
        "as truncate: true; for all requests of a service: headlight serve --truncation end"
    ),
}
NAMES = {
    "outputs.pooled": "inputs",
    "outputs.pooled.dimensions": "dimensions",
    "outputs.pooled.normalize": "normalize",
    "outputs.tokens": "inputs",
    "outputs.sparse": "inputs",
    "outputs.multi_vector": "inputs",
}
ONE_TEXT = Edge(
    SENTENCES,
    {**NAMES, "inputs[*].text": "inputs", "inputs[*].ids": "inputs", "inputs[*].pair": "inputs"},
)
SEVERAL_TEXTS = Edge(
    {**SENTENCES, Phrase.FEWER_OR_SHORTER: "send fewer or shorter texts"},
    {
        **NAMES,
        "inputs[*].text": "inputs[{}]",
        "inputs[*].ids": "inputs[{}]",
        "inputs[*].pair": "inputs[{}]",
        "inputs.sentences[*]": "inputs.sentences[{}]",
        "inputs.source_sentence": "inputs.source_sentence",
    },
)


@functools.lru_cache(maxsize=64)
def pooled_output(*, normalize: bool, dimensions: int | None) -> OutputSpec:
    """Return pooled vectors as the requested output. Cached: the core resolves each object once."""
    return OutputSpec(PooledSpec(dimensions=dimensions, normalize=normalize))


def truncation_of(
    truncate: bool | None, direction: Direction | None, model: ServedModel
) -> Truncation | None:
    """Return the treatment of a text that is too long.

    Args:
        truncate: as requested; None: as the service is configured.
        direction: the side to cut; None: right, or as the service is configured.
        model: the model.

    Returns:
        None: as the service is configured.
    """
    if truncate is None and (direction is None or not auto_truncate(model)):
        return None
    return "refuse" if truncate is False else CUTS[direction or "right"]


def auto_truncate(model: ServedModel) -> bool:
    """Return whether texts that are too long are cut unless a request says otherwise."""
    return model.truncation != "refuse"


def tokenize_request(
    texts: Sequence[str],
    model: ServedModel,
    *,
    prompt_name: str | None,
    size_bytes: int,
    client: str,
) -> Request:
    """Return the request for tokens of prompt and text, read as one text.

    So offsets count both, as the contract has them. An empty text that is refused stays empty.

    Raises:
        InvalidInput: the model has no prompt of that name.
    """
    prompt = model.default_prompt
    if prompt_name is not None:
        prompt = model.runtime.prompts.choose(prompt_name, None)
    return Request(
        [prompt.text + text if text or model.empty_texts == "encode" else text for text in texts],
        model=model.key,
        size_bytes=size_bytes,
        client=client,
        prompt_text="",
    )


def gives_no(model: ModelDescription, what: str, call: str) -> str:
    """Return the refusal of a call for another task; `call` is the one for this model's."""
    args = {"what": what, "names": ", ".join(model.outputs)}
    problem = ONE_TEXT.message(Refusal(Code.INTERNAL, (), Reason.GIVES_NO, args))
    return f"{problem}; call {call}"


def terms_of(answer: Answer) -> Iterator[tuple[NDArray[np.uint32], Floats]]:
    """Yield the terms of each input, ascending, and their weights, those above 0."""
    for result in answer.results:
        count = np.count_nonzero(result["sparse"])
        yield result[INDICES][:count], result["sparse"][:count]


def token_output(model: ServedModel) -> tuple[OutputSpec, InputRole | None]:
    """Return what EmbedAll gives of a model: projected vectors of documents, or token vectors."""
    if model.gives("multi_vector"):
        return MULTI_VECTORS, "document"
    return TOKEN_VECTORS, None


def token_vectors(result: ItemResult) -> Floats:
    """Return the vectors of one input that EmbedAll gives."""
    vectors: Floats = result["multi_vector" if "multi_vector" in result else "tokens"]
    return vectors
