"""Description of the service, and the sizes and times of its answers, as the contract has them."""

from __future__ import annotations

import dataclasses

from headlight import __version__
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Pair, Request
from headlight_service.frontends.tei.tei_requests import TASKS, auto_truncate

POOLINGS = {"last": "last_token"}  # that have another name in the contract
# Services of tei.v1 that need a model of some tasks. The others serve any model.
OF_TASKS = {name for task in TASKS.values() for name in task.services}
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceInfo:
    """Description of a model and its limits.

    Attributes:
        model_id: the first of the model's names.
        model_sha: hex digest of its bundle.
        task: what the model does, among TASKS.
        labels: of a model that classifies or ranks.
        pooling: how the bundle pools token vectors.
        max_concurrent_requests: texts of the maximum length that the queue holds.
        max_input_length: tokens of one text.
        max_batch_tokens: tokens of one request for vectors.
        max_client_batch_size: texts of one request.
        auto_truncate: whether texts that are too long are cut unless a request says otherwise.
    """

    version: str
    model_id: str
    model_sha: str
    model_dtype: str
    task: str
    labels: tuple[str, ...]
    pooling: str
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_client_batch_size: int
    tokenization_workers: int
    auto_truncate: bool


def service_info(model: ServedModel, tokenization_workers: int) -> ServiceInfo:
    """Return the description of a model."""
    described = model.description
    return ServiceInfo(
        version=__version__,
        model_id=model.name,
        model_sha=described.bundle_sha256,
        model_dtype=DTYPES.get(described.precision, described.precision),
        task=described.task,
        labels=described.labels,
        pooling="splade"
        if described.task == "sparse"
        else POOLINGS.get(described.pooling, described.pooling),
        max_concurrent_requests=max(1, model.admission.tokens.limit // model.max_length),
        max_input_length=model.max_length,
        max_batch_tokens=model.most_tokens,
        max_client_batch_size=described.limits.max_items,
        tokenization_workers=tokenization_workers,
        auto_truncate=auto_truncate(model),
    )


def unserved(models: Models) -> set[str]:
    """Return the services that refuse every call, because no model has such a task."""
    tasks = [TASKS[model.description.task] for model in models.all]
    return OF_TASKS.difference(*(task.services for task in tasks))


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeReport:
    """Size and times of an answer.

    Attributes:
        provider: where it was computed: "cpu", ...
        characters: characters of the texts, without prompts.
        tokens: tokens of the inputs, prompts and special tokens included.
        total_ns, tokenization_ns, queue_ns, inference_ns: nanoseconds.
    """

    provider: str
    characters: int
    tokens: int
    total_ns: int
    tokenization_ns: int
    queue_ns: int
    inference_ns: int

    def headers(self) -> dict[str, str]:
        """Return the report as headers or metadata; times are in milliseconds."""
        numbers = {
            "x-compute-time": self.total_ns // 1_000_000,
            "x-compute-characters": self.characters,
            "x-compute-tokens": self.tokens,
            "x-total-time": self.total_ns // 1_000_000,
            "x-tokenization-time": self.tokenization_ns // 1_000_000,
            "x-queue-time": self.queue_ns // 1_000_000,
            "x-inference-time": self.inference_ns // 1_000_000,
        }
        return {"x-compute-type": self.provider, **{key: str(n) for key, n in numbers.items()}}


def compute_report(model: ServedModel, request: Request, answer: Answer) -> ComputeReport:
    """Return the size and the times of an answer."""
    timings = answer.timings
    return ComputeReport(
        model.ref.provider,
        sum(
            len(each) if isinstance(each, str) else sum(map(len, each))
            for each in request.inputs
            if isinstance(each, str | Pair)
        ),
        answer.prepared.tokens,
        timings.total_ns,
        timings.tokenize_ns,
        timings.queue_ns,
        timings.infer_ns,
    )
