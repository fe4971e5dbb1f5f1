"""All metrics, their names, labels and buckets. Labels come from closed sets; `model` is on all that tell of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from headlight.errors import Code
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.shedding import Shortage
from headlight_service.telemetry.log_writer import DROPPED

STAGES = ("tokenize", "queue", "infer", "total")
OUTPUTS = ("pooled", "tokens", "attention", "hidden")
CANCEL_STAGES = ("tokenize", "queue", "infer", "send")
# Those that a request can meet once its model is known. What the shortage was says more than that there was one.
REASONS = (
    *(code.value for code in Code if code not in (Code.OVERLOADED, Code.UNAUTHENTICATED, Code.NOT_FOUND, Code.BUNDLE)),
    *(shortage.value for shortage in Shortage),
)

# Seconds, the same for all stages so that their ratios mean something: 0.1 ms (tokenising a short text) to 10 s (a long
# deadline), three edges a decade. Targets that have an edge of their own: a refusal within 10 ms; what is cancelled out of
# the queue within 50 ms.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # a lone request to far beyond what a token budget admits
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # a short text to eight default budgets
RATIOS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)  # 0: exact lengths; 0.2: the default limit
GAUGES = {  # asked at each scrape
    "queue_tokens": "Tokens admitted and not yet answered, running ones included.",
    "queue_bulk_tokens": "Those of headlight_queue_tokens that are bulk's.",
    "backlog_seconds": "How long the tokens admitted will take, at the rate of the last batches.",
    "held_request_bytes": "Bytes of the requests being dealt with.",
    "held_output_bytes": "Bytes of results being computed or sent.",
    "provider_fallback": "1 where the CPU computes for want of the GPU that ONNX Runtime was installed for, else 0.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class ModelMetrics:
    """The series of one model, looked up once: finding a label costs more than counting."""

    texts: dict[Priority, Counter]
    tokens: dict[Priority, Counter]
    batch_items: Histogram
    batch_tokens: Histogram
    batch_seconds: dict[Priority, Histogram]
    padding_ratio: Histogram
    attend_runs: Counter
    stage_seconds: dict[Priority, dict[str, Histogram]]
    output_bytes: dict[str, Counter]
    rejected: dict[str, Counter]
    cancelled: dict[str, Counter]


class Metrics:
    """Every metric of a process, on a registry of its own."""

    def __init__(self) -> None:
        # Without a second series for each, with the time at which it began, that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it unannotated
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._define_grpc()
        self._define_process()
        self._define_batches()
        self._define_requests()
        self._info = Gauge(
            "headlight_model_info",
            "Always 1; the labels say which weights answer, on what.",
            ("model", "version", "sha256", "provider", "precision", "positions"),
            registry=self.registry,
        )

    def _define_grpc(self) -> None:
        """The names that go-grpc-middleware gave them: existing dashboards and alerts fit."""
        method = ("grpc_type", "grpc_service", "grpc_method")
        self.grpc_started = Counter("grpc_server_started", "RPCs started.", method, registry=self.registry)
        self.grpc_handled = Counter(
            "grpc_server_handled", "RPCs completed, by status.", (*method, "grpc_code"), registry=self.registry
        )
        self.grpc_seconds = Histogram(
            "grpc_server_handling_seconds", "Duration of RPCs.", method, buckets=SECONDS, registry=self.registry
        )

    def _define_process(self) -> None:
        """Of the process, not of a model: they are there while none is loaded."""
        self.registry.register(DROPPED)
        self.ready = Gauge("headlight_ready", "1 where requests can be answered, else 0.", registry=self.registry)
        self.stuck = Gauge(
            "headlight_stuck", "1 where there is work and nothing moves, for too long, else 0.", registry=self.registry
        )

        self.grpc_restarts = Counter(
            "headlight_grpc_restarts",
            "gRPC servers that ended by themselves, each replaced by a new one.",
            registry=self.registry,
        )

    def define_tls(self, expires: Callable[[], float]) -> None:
        """Announce that there is TLS. `expires` tells when the certificate does, in seconds since the epoch."""
        name, text = "headlight_tls_certificate_expiry_timestamp_seconds", "When the certificate in use expires."
        Gauge(name, text, registry=self.registry).set_function(expires)

    def refused_tls(self) -> Counter:
        """Of changed certificates that were not taken."""
        text = "Looks at changed certificates, keys or authorities that could not be used."
        return Counter("headlight_tls_reload_failures", text, registry=self.registry)

    def refused_tokens(self) -> Counter:
        """Of changed files of tokens that were not taken."""
        text = "Looks at a changed file of tokens that could not be used."
        return Counter("headlight_auth_reload_failures", text, registry=self.registry)

    def _define_batches(self) -> None:
        r = self.registry
        self._batch_items = Histogram(
            "headlight_batch_items", "Inputs in a batch.", ["model"], buckets=ITEMS, registry=r
        )
        self._batch_tokens = Histogram(
            "headlight_batch_tokens", "Tokens in a batch, padding excluded.", ["model"], buckets=TOKENS, registry=r
        )
        self._batch_seconds = Histogram(
            "headlight_batch_seconds",
            "Time of a batch in the model.",
            ["model", "priority"],
            buckets=SECONDS,
            registry=r,
        )
        self._padding = Histogram(
            "headlight_padding_ratio", "Share of a batch that is padding.", ["model"], buckets=RATIOS, registry=r
        )
        self._attend_runs = Counter(
            "headlight_attend_runs",
            "Batches run on the graph that returns attention, those included that only have all threads there.",
            ["model"],
            registry=r,
        )

    def _define_requests(self) -> None:
        r, labels = self.registry, ["model", "priority"]
        self._texts = Counter("headlight_texts", "Inputs encoded.", labels, registry=r)
        self._tokens = Counter("headlight_tokens", "Tokens encoded, padding excluded.", labels, registry=r)
        # By priority, for what waits in bulk would drown those who are waited for.
        self._stages = Histogram(
            "headlight_stage_seconds",
            "Time of a request by stage; queue: until the first of its batches begins, infer: until the last of them is done.",
            [*labels, "stage"],
            buckets=SECONDS,
            registry=r,
        )
        self._output_bytes = Counter(
            "headlight_output_bytes", "Bytes of results computed, by output.", ["model", "output"], registry=r
        )
        self._rejected = Counter(
            "headlight_rejected", "Requests that got no answer, by reason.", ["model", "reason"], registry=r
        )
        self._cancelled = Counter(
            "headlight_cancelled", "Requests whose caller left, by stage.", ["model", "stage"], registry=r
        )
        self._gauges = {name: Gauge(f"headlight_{name}", text, ["model"], registry=r) for name, text in GAUGES.items()}

    def of(self, model: str) -> ModelMetrics:
        """The series of a model; they exist from here on, at zero."""
        return ModelMetrics(
            texts={priority: self._texts.labels(model, priority) for priority in PRIORITIES},
            tokens={priority: self._tokens.labels(model, priority) for priority in PRIORITIES},
            batch_items=self._batch_items.labels(model),
            batch_tokens=self._batch_tokens.labels(model),
            batch_seconds={priority: self._batch_seconds.labels(model, priority) for priority in PRIORITIES},
            padding_ratio=self._padding.labels(model),
            attend_runs=self._attend_runs.labels(model),
            stage_seconds={
                priority: {stage: self._stages.labels(model, priority, stage) for stage in STAGES}
                for priority in PRIORITIES
            },
            output_bytes={output: self._output_bytes.labels(model, output) for output in OUTPUTS},
            rejected={reason: self._rejected.labels(model, reason) for reason in REASONS},
            cancelled={stage: self._cancelled.labels(model, stage) for stage in CANCEL_STAGES},
        )

    def serve(
        self,
        *,
        model: str,
        version: str,
        sha256: str,
        provider: str,
        precision: str,
        positions: str,
        gauges: Mapping[str, Callable[[], float]],
    ) -> None:
        """Announce a model that is being served. `gauges` has one function for each of GAUGES."""
        self._info.labels(model, version, sha256, provider, precision, positions).set(1)
        for name, ask in gauges.items():
            self._gauges[name].labels(model).set_function(ask)

    def exposition(self) -> tuple[str, bytes]:
        """Content type and body for a scrape."""
        return CONTENT_TYPE_LATEST, generate_latest(self.registry)
