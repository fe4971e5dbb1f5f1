"""Panels for callers: traffic, errors, latency."""

from __future__ import annotations

from deploy.grafana.model import Panel, Query, Row
from deploy.grafana.queries import (
    BURN,
    CALLS,
    FAILURES,
    INTERACTIVE,
    OURS,
    PLACE,
    PROCESS,
    STAGE,
    TOTAL,
    quantile,
    rate,
    where,
)

GLANCE = Row(
    "At a glance",
    [
        Panel(
            title="Replicas ready",
            about="Replicas that report ready. With none, the alert HeadlightNoReadyReplica pages.",
            queries=[Query(f"sum(headlight_ready{PLACE})", "ready")],
            unit="short",
            kind="stat",
            width=3,
            height=4,
            limits=[1, 2],
            falling=True,
        ),
        Panel(
            title="Alerts firing",
            about="Of Headlight's, of any severity and namespace.",
            queries=[
                Query(
                    'count(ALERTS{alertname=~"Headlight.+", alertstate="firing"}) or vector(0)',
                    "firing",
                )
            ],
            unit="short",
            kind="stat",
            width=3,
            height=4,
            limits=[1],
        ),
        Panel(
            title="Error budget burn, 1 h",
            about=(
                "How many times faster than in 30 days the budget is being spent: "
                "the worst of calls and requests. 14.4 pages."
            ),
            queries=[Query(f"max({BURN}:ratio_rate1h{where(PLACE, FAILURES)})", "burn")],
            unit="short",
            kind="stat",
            width=3,
            height=4,
            limits=[1, 14.4],
        ),
        Panel(
            title="Calls",
            about="RPCs answered a second, whatever the answer.",
            queries=[Query(rate("grpc_server_handled_total", CALLS, ""), "calls")],
            unit="reqps",
            kind="stat",
            width=3,
            height=4,
        ),
        Panel(
            title="Interactive p99",
            about=(
                "From its arrival until its answer is ready, "
                "99 of 100 interactive requests take no longer."
            ),
            queries=[Query(quantile(0.99, STAGE, OURS, "", TOTAL, INTERACTIVE), "p99")],
            unit="s",
            kind="stat",
            width=3,
            height=4,
            limits=[0.25, 0.5],
        ),
        Panel(
            title="Wait of interactive requests",
            about=(
                "Estimated wait of a request sent now, averaged over the replicas. Bulk is left "
                "out."
            ),
            queries=[
                Query(
                    f"max(namespace_model:headlight_interactive_backlog_seconds:avg{OURS})", "wait"
                )
            ],
            unit="s",
            kind="stat",
            width=3,
            height=4,
            limits=[1, 5],
        ),
        Panel(
            title="What is served",
            about=(
                "The weights that answer, by their digest, and what computes. "
                "Two lines of one model: replicas are being replaced."
            ),
            queries=[
                Query(
                    (
                        "count by (model, version, sha256, provider, precision, "
                        f"positions) (headlight_model_info{OURS})"
                    ),
                    "{{model}}",
                )
            ],
            unit="short",
            kind="table",
            width=6,
            height=4,
        ),
    ],
)

TRAFFIC = Row(
    "Traffic",
    [
        Panel(
            title="Calls by method",
            about="RPCs answered a second. A stream counts once, when it ends.",
            queries=[
                Query(rate("grpc_server_handled_total", CALLS, "grpc_method"), "{{grpc_method}}")
            ],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Requests by protocol",
            about=(
                "Requests ended a second, of gRPC and of each API over HTTP, whatever the answer. "
                "A stream counts once."
            ),
            queries=[Query(rate("headlight_requests_total", PROCESS, "protocol"), "{{protocol}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Requests answered, by priority",
            about="Encode requests a second, those inside streams one by one.",
            queries=[Query(rate(f"{STAGE}_count", OURS, "priority", TOTAL), "{{priority}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Calls in progress",
            about=(
                "Begun and not yet ended, streams included. Where it only ever rises, "
                "callers leave streams open, or replicas hang."
            ),
            queries=[
                Query(
                    f"sum by (grpc_method) (grpc_server_started_total{CALLS})"
                    f" - (sum by (grpc_method) (grpc_server_handled_total{CALLS})"
                    f" or 0 * sum by (grpc_method) (grpc_server_started_total{CALLS}))",
                    "{{grpc_method}}",
                )
            ],
            unit="short",
        ),
        Panel(
            title="Texts",
            about="Inputs encoded a second, by priority.",
            queries=[
                Query(
                    rate("headlight_texts_total", OURS, "model, priority"), "{{model}} {{priority}}"
                )
            ],
            unit="ops",
            stacked=True,
        ),
        Panel(
            title="Tokens",
            about=(
                "Tokens encoded a second, padding excluded: the work that there was, "
                "whatever the lengths of texts."
            ),
            queries=[
                Query(
                    rate("headlight_tokens_total", OURS, "model, priority"),
                    "{{model}} {{priority}}",
                )
            ],
            unit="ops",
            stacked=True,
        ),
        Panel(
            title="Tokens by replica",
            about=(
                "Whether the load is even. A replica that joins should have its share after the "
                "age of a connection at the latest."
            ),
            queries=[Query(rate("headlight_tokens_total", OURS, "pod"), "{{pod}}")],
            unit="ops",
        ),
    ],
)

ERRORS = Row(
    "Errors",
    [
        Panel(
            title="Calls that failed, by status",
            about=(
                "UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS and DEADLINE_EXCEEDED count against "
                "the error budget."
            ),
            queries=[
                Query(
                    rate(
                        "grpc_server_handled_total",
                        CALLS,
                        "grpc_method, grpc_code",
                        'grpc_code!="OK"',
                    ),
                    "{{grpc_method}} {{grpc_code}}",
                )
            ],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Requests without an answer, by reason",
            about=(
                "queue_tokens, request_bytes, output_bytes, wait_beyond_deadline, device_memory, "
                "memory: overload. invalid_input, quota, stalled_reader: the caller's. internal, "
                "unavailable, deadline_exceeded: failures."
            ),
            queries=[Query(rate("headlight_rejected_total", OURS, "reason"), "{{reason}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Cancelled requests, by stage",
            about=(
                "They cancelled, or their deadline passed, while their request was in this stage."
            ),
            queries=[Query(rate("headlight_cancelled_total", OURS, "stage"), "{{stage}}")],
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Budget burn over 5 minutes",
            about=(
                "1 spends the budget in just 30 days; see deploy/prometheus/recording.yaml for "
                "what each indicator counts."
            ),
            queries=[Query(f"{BURN}:ratio_rate5m{PLACE}", "{{namespace}} {{sli}}")],
            unit="short",
            width=12,
            limits=[1, 14.4],
        ),
        Panel(
            title="Budget burn over 6 hours",
            about=(
                "Above 6 for errors, overload or latency: a page. Above 1 for three days "
                "too: a ticket."
            ),
            queries=[Query(f"{BURN}:ratio_rate6h{PLACE}", "{{namespace}} {{sli}}")],
            unit="short",
            width=12,
            limits=[1, 6],
        ),
    ],
)

LATENCY = Row(
    "Latency",
    [
        Panel(
            title="Interactive requests, in all",
            about="From arrival until the answer is ready. The objective: 99 of 100 within 0.5 s.",
            queries=[
                Query(quantile(q, STAGE, OURS, "", TOTAL, INTERACTIVE), f"p{q * 100:g}")
                for q in (0.5, 0.95, 0.99)
            ],
            unit="s",
            limits=[0.5],
        ),
        Panel(
            title="Interactive p95 by stage",
            about=(
                "tokenize: CPU before the queue. queue: waiting for a batch. infer: in the model."
            ),
            queries=[Query(quantile(0.95, STAGE, OURS, "stage", INTERACTIVE), "{{stage}}")],
            unit="s",
        ),
        Panel(
            title="Bulk p95 by stage",
            about="Bulk waits until nobody else does: seconds in the queue are what it is for.",
            queries=[Query(quantile(0.95, STAGE, OURS, "stage", 'priority="bulk"'), "{{stage}}")],
            unit="s",
        ),
        Panel(
            title="Distribution of interactive requests",
            about="How many took how long.",
            queries=[Query(rate(f"{STAGE}_bucket", OURS, "le", TOTAL, INTERACTIVE), "{{le}}")],
            unit="short",
            kind="heatmap",
            width=12,
            least=None,
        ),
        Panel(
            title="Calls p99 by method",
            about=(
                "As gRPC sees them, refused ones included. "
                "A stream lasts as long as its caller likes."
            ),
            queries=[
                Query(
                    quantile(0.99, "grpc_server_handling_seconds", CALLS, "grpc_method"),
                    "{{grpc_method}}",
                )
            ],
            unit="s",
            width=12,
        ),
    ],
)

ROWS = (GLANCE, TRAFFIC, ERRORS, LATENCY)
