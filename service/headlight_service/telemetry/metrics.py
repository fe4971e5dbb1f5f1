"""All metrics: names, labels, buckets. Labels are closed sets; a model's series have `model`."""

from __future__ import annotations

import collections
import dataclasses
import threading
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
from headlight.outputs.registry import OUTPUTS
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.telemetry.log_writer import DROPPED

STAGES = ("tokenize", "queue", "infer", "total")
COMPARISON = "comparison"  # whose bytes are counted beside those of the outputs
CANCEL_STAGES = ("tokenize", "queue", "infer", "send")
# Reasons that a request can meet once its model is known. Shortages replace the general OVERLOADED.
REASONS = (
    *(
        code.value
        for code in Code
        if code not in (Code.OVERLOADED, Code.UNAUTHENTICATED, Code.NOT_FOUND, Code.BUNDLE)
    ),
    *(shortage.value for shortage in Shortage),
)

# Seconds, the same for all stages so that their ratios mean something: 0.1 ms (tokenising a short
# text) to 10 s (a long deadline), three edges a decade. Targets have edges of their own: a refusal
# within 10 ms; a cancellation from the queue within 50 ms.
SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
# From a lone request to far more than a token budget admits.
ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# From a short text to eight default budgets.
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
# 0: exact lengths; 0.2: the default limit.
RATIOS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

# Of a model. Histograms: help, labels besides `model`, buckets.
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "headlight_batch_items": ("Inputs in a batch.", (), ITEMS),
    "headlight_batch_tokens": ("Tokens in a batch, padding excluded.", (), TOKENS),
    "headlight_batch_seconds": ("Time of a batch in the model.", ("priority",), SECONDS),
    "headlight_padding_ratio": ("Share of a batch that is padding.", (), RATIOS),
    # By priority: the waits of bulk would hide those of interactive.
    "headlight_stage_seconds": (
        (
            "Time of a request by stage; queue: until the first of its batches begins, infer: "
            "until the last of them is done."
        ),
        ("priority", "stage"),
        SECONDS,
    ),
}
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "headlight_attend_runs": (
        (
            "Batches run on the graph that returns attention, "
            "those included that only have all threads there."
        ),
        (),
    ),
    "headlight_texts": ("Inputs encoded.", ("priority",)),
    "headlight_tokens": ("Tokens encoded, padding excluded.", ("priority",)),
    "headlight_output_bytes": ("Bytes of results computed, by output.", ("output",)),
    "headlight_rejected": ("Requests that got no answer, by reason.", ("reason",)),
    "headlight_cancelled": ("Requests whose caller left, by stage.", ("stage",)),
}
GAUGES = {  # read at each scrape
    "headlight_queue_tokens": "Tokens admitted and not yet answered, running ones included.",
    "headlight_queue_bulk_tokens": "Those of headlight_queue_tokens that are bulk's.",
    "headlight_backlog_seconds": (
        "How long the tokens admitted will take, at the rate of the last batches."
    ),
    "headlight_held_request_bytes": (
        "Bytes of the requests being dealt with, of all models together."
    ),
    "headlight_held_output_bytes": (
        "Bytes of results being computed or sent, of all models together."
    ),
    "headlight_provider_fallback": (
        "1 where the CPU computes for want of the GPU that ONNX Runtime was installed for, else 0."
    ),
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
        # Without the second series of each metric, its creation time, which is not used. The
        # library leaves the function unannotated.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._versions = collections.Counter[str]()  # that have the series of a name
        self._lock = threading.Lock()
        ProcessCollector(registry=self.registry)
        self._define_process()
        r = self.registry
        self._histograms = {
            name: Histogram(name, text, ("model", *labels), buckets=buckets, registry=r)
            for name, (text, labels, buckets) in HISTOGRAMS.items()
        }
        self._counters = {
            name: Counter(name, text, ("model", *labels), registry=r)
            for name, (text, labels) in COUNTERS.items()
        }
        self._gauges = {
            name: Gauge(name, text, ["model"], registry=r) for name, text in GAUGES.items()
        }
        self._info = Gauge(
            "headlight_model_info",
            "Always 1; the labels say which weights answer, on what.",
            ("model", "version", "sha256", "provider", "precision", "positions"),
            registry=r,
        )

    def _define_process(self) -> None:
        """Define the metrics of the process, which exist before a model is loaded."""
        r = self.registry
        # The names of go-grpc-middleware: existing dashboards and alerts fit.
        method = ("grpc_type", "grpc_service", "grpc_method")
        self.grpc_started = Counter("grpc_server_started", "RPCs started.", method, registry=r)
        self.grpc_handled = Counter(
            "grpc_server_handled", "RPCs completed, by status.", (*method, "grpc_code"), registry=r
        )
        self.grpc_seconds = Histogram(
            "grpc_server_handling_seconds", "Duration of RPCs.", method, buckets=SECONDS, registry=r
        )
        # Of all frontends; the method is one of a fixed set, the code that of the protocol.
        self.requests = Counter(
            "headlight_requests",
            "Requests ended, by door, method and status.",
            ("protocol", "method", "code"),
            registry=r,
        )
        self.model_loads = Counter(
            "headlight_model_loads",
            "Versions loaded into a running service, or refused; by the name of the entry.",
            ("model", "result"),
            registry=r,
        )
        r.register(DROPPED)
        self.ready = Gauge(
            "headlight_ready", "1 where requests can be answered, else 0.", registry=r
        )
        self.stuck = Gauge(
            "headlight_stuck",
            "1 where there is work and nothing moves, for too long, else 0.",
            registry=r,
        )
        self.grpc_restarts = Counter(
            "headlight_grpc_restarts",
            "gRPC servers that ended by themselves, each replaced by a new one.",
            registry=r,
        )

    def define_tls(self, expires: Callable[[], float]) -> None:
        """Define the TLS metric; `expires`: expiry of the certificate, seconds since the epoch."""
        Gauge(
            "headlight_tls_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires.",
            registry=self.registry,
        ).set_function(expires)

    def refused_tls(self) -> Counter:
        """Return a counter of changed certificates that were refused."""
        return Counter(
            "headlight_tls_reload_failures",
            "Looks at changed certificates, keys or authorities that could not be used.",
            registry=self.registry,
        )

    def refused_tokens(self) -> Counter:
        """Return a counter of changed token files that were refused."""
        return Counter(
            "headlight_auth_reload_failures",
            "Looks at a changed file of tokens that could not be used.",
            registry=self.registry,
        )

    def of(self, model: str) -> ModelMetrics:
        """Return the series of a model; they exist from here on, until `withdraw`.

        Versions of one name share them: the last that is withdrawn ends them.
        """
        counters, histograms = self._counters, self._histograms
        with self._lock:
            self._versions[model] += 1
            return self._series(model, counters, histograms)

    def _series(
        self, model: str, counters: Mapping[str, Counter], histograms: Mapping[str, Histogram]
    ) -> ModelMetrics:
        return ModelMetrics(
            texts={
                priority: counters["headlight_texts"].labels(model, priority)
                for priority in PRIORITIES
            },
            tokens={
                priority: counters["headlight_tokens"].labels(model, priority)
                for priority in PRIORITIES
            },
            batch_items=histograms["headlight_batch_items"].labels(model),
            batch_tokens=histograms["headlight_batch_tokens"].labels(model),
            batch_seconds={
                priority: histograms["headlight_batch_seconds"].labels(model, priority)
                for priority in PRIORITIES
            },
            padding_ratio=histograms["headlight_padding_ratio"].labels(model),
            attend_runs=counters["headlight_attend_runs"].labels(model),
            stage_seconds={
                priority: {
                    stage: histograms["headlight_stage_seconds"].labels(model, priority, stage)
                    for stage in STAGES
                }
                for priority in PRIORITIES
            },
            output_bytes={
                output: counters["headlight_output_bytes"].labels(model, output)
                for output in (*OUTPUTS, COMPARISON)
            },
            rejected={
                reason: counters["headlight_rejected"].labels(model, reason) for reason in REASONS
            },
            cancelled={
                stage: counters["headlight_cancelled"].labels(model, stage)
                for stage in CANCEL_STAGES
            },
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
        """Announce a served model. `gauges` has one function for each of GAUGES."""
        self._info.labels(model, version, sha256, provider, precision, positions).set(1)
        for name, ask in gauges.items():
            self._gauges[name].labels(model).set_function(ask)

    def withdraw(
        self,
        *,
        model: str,
        version: str,
        sha256: str,
        provider: str,
        precision: str,
        positions: str,
        others: bool,
    ) -> None:
        """End the series of a model.

        Args:
            model, version, sha256, provider, precision, positions: as for `serve`.
            others: whether another served model has the same labels.
        """
        if not others:
            self._info.remove(model, version, sha256, provider, precision, positions)
        with self._lock:
            self._versions[model] -= 1
            if self._versions[model]:
                return
            del self._versions[model]
            for histogram in self._histograms.values():
                _remove(histogram, model)
            for counter in self._counters.values():
                _remove(counter, model)
            for gauge in self._gauges.values():
                gauge.remove(model)

    def exposition(self) -> tuple[str, bytes]:
        """Return content type and body for a scrape."""
        return CONTENT_TYPE_LATEST, generate_latest(self.registry)


def _remove(metric: Counter | Histogram, model: str) -> None:
    """Remove all series of a model."""
    labels = {
        tuple(value for name, value in sample.labels.items() if name not in ("le", "model"))
        for family in metric.collect()
        for sample in family.samples
        if sample.labels["model"] == model
    }
    for values in labels:
        metric.remove(model, *values)
