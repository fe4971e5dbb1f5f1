"""Panels of the inside: queue, batches, attention, processes, TLS."""

from __future__ import annotations

from deploy.grafana.model import Panel, Query, Row
from deploy.grafana.queries import (
    CALLS,
    OURS,
    OVER_QUOTA,
    PLACE,
    POD,
    PROCESS,
    UNAUTHENTICATED,
    mean,
    quantile,
    rate,
)

QUEUE = Row(
    "Queue and backlog",
    [
        Panel(
            title="Backlog",
            about=(
                "Time to compute the admitted work at the rate of the last batches, bulk "
                "included. Autoscaling uses it."
            ),
            queries=[Query(f"headlight_backlog_seconds{OURS}", "{{pod}} {{model}}")],
            unit="s",
        ),
        Panel(
            title="Tokens admitted",
            about=(
                "Waiting or running. --max-queue-tokens is where refusals begin; "
                "an eighth of it is kept free of bulk."
            ),
            queries=[
                Query(f"sum(headlight_queue_bulk_tokens{OURS})", "bulk"),
                Query(
                    f"sum(headlight_queue_tokens{OURS}) - sum(headlight_queue_bulk_tokens{OURS})",
                    "interactive",
                ),
            ],
            unit="short",
            stacked=True,
        ),
        Panel(
            title="Memory held for requests and answers",
            about=(
                "Limits: --max-queue-bytes and --max-output-bytes. "
                "What is being sent takes twice its size."
            ),
            queries=[
                Query(f"sum by (pod) (headlight_held_request_bytes{OURS})", "{{pod}} requests"),
                Query(f"sum by (pod) (headlight_held_output_bytes{OURS})", "{{pod}} answers"),
            ],
            unit="bytes",
        ),
    ],
)

BATCHES = Row(
    "Batches",
    [
        Panel(
            title="Inputs in a batch",
            about="On average. Near 1 under load: callers send single texts, and few at once.",
            queries=[Query(mean("headlight_batch_items", OURS, "model"), "{{model}}")],
            unit="short",
        ),
        Panel(
            title="Tokens in a batch",
            about=(
                "Padding excluded. --batch-tokens is the most that a batch has, padding included."
            ),
            queries=[
                Query(mean("headlight_batch_tokens", OURS, "model"), "{{model}} mean"),
                Query(quantile(0.95, "headlight_batch_tokens", OURS, "model"), "{{model}} p95"),
            ],
            unit="short",
        ),
        Panel(
            title="Padding",
            about=(
                "The share of a batch that is padding. --max-padding is the most that there may be."
            ),
            queries=[
                Query(mean("headlight_padding_ratio", OURS, "model"), "{{model}} mean"),
                Query(quantile(0.95, "headlight_padding_ratio", OURS, "model"), "{{model}} p95"),
            ],
            unit="percentunit",
        ),
        Panel(
            title="Time of a batch, p95",
            about=(
                "Bulk's should be about --bulk-batch-ms (more on a busy machine): "
                "that is how long others share the device with it."
            ),
            queries=[
                Query(quantile(0.95, "headlight_batch_seconds", OURS, "priority"), "{{priority}}")
            ],
            unit="s",
            width=12,
        ),
        Panel(
            title="Batches",
            about="A second, by priority.",
            queries=[
                Query(rate("headlight_batch_seconds_count", OURS, "priority"), "{{priority}}")
            ],
            unit="ops",
            width=12,
            stacked=True,
        ),
    ],
)

ATTENTION = Row(
    "Attention",
    [
        Panel(
            title="Bytes of results, by output",
            about=(
                "Computed a second. Attention is what fills memory and the wire; "
                "whole maps of long texts are megabytes each."
            ),
            queries=[Query(rate("headlight_output_bytes_total", OURS, "output"), "{{output}}")],
            unit="Bps",
            width=12,
            stacked=True,
        ),
        Panel(
            title="Batches on the graph that returns attention",
            about=(
                "The share of all batches. On 2 or 3 CPU threads the lone interactive batch runs "
                "there too, for all threads; nothing of attention is then selected or copied."
            ),
            queries=[
                Query(
                    f"{rate('headlight_attend_runs_total', OURS, 'model')}"
                    f" / {rate('headlight_batch_items_count', OURS, 'model')}",
                    "{{model}}",
                )
            ],
            unit="percentunit",
            width=12,
            greatest=1,
        ),
    ],
)

PROCESSES = Row(
    "Device and process",
    [
        Panel(
            title="CPU",
            about=(
                "Cores in use. At the limit of the container: the bottleneck, "
                "unless a GPU computes."
            ),
            queries=[Query(rate("process_cpu_seconds_total", PROCESS, "pod"), "{{pod}}")],
            unit="short",
        ),
        Panel(
            title="Memory",
            about="Resident. It should be flat once every kind of request has been there.",
            queries=[Query(f"process_resident_memory_bytes{PROCESS}", "{{pod}}")],
            unit="bytes",
        ),
        Panel(
            title="Tokens for a second of CPU",
            about=(
                "How much work a core does. It falls where a GPU was lost, nodes differ, "
                "or the mix of requests has changed."
            ),
            queries=[
                Query(
                    f"{rate('headlight_tokens_total', OURS, 'pod')}"
                    f" / {rate('process_cpu_seconds_total', PROCESS, 'pod')}",
                    "{{pod}}",
                )
            ],
            unit="short",
        ),
        Panel(
            title="On the CPU instead of a GPU",
            about=(
                "1: the installed ONNX Runtime is for GPUs, "
                "and --provider auto found none that works."
            ),
            queries=[
                Query(
                    f"max by (pod, model) (headlight_provider_fallback{OURS})", "{{pod}} {{model}}"
                )
            ],
            unit="short",
            width=6,
            greatest=1,
            words={0: "no", 1: "yes"},
        ),
        Panel(
            title="Stalled",
            about=(
                "1: work is pending and nothing has moved for --stuck-seconds. "
                "The liveness probe fails then."
            ),
            queries=[Query(f"max by (pod) (headlight_stuck{PLACE})", "{{pod}}")],
            unit="short",
            width=6,
            greatest=1,
            words={0: "no", 1: "yes"},
        ),
        Panel(
            title="Restarts within an hour",
            about="Of the container, by kube-state-metrics; empty without it.",
            queries=[
                Query(f"increase(kube_pod_container_status_restarts_total{POD}[1h])", "{{pod}}")
            ],
            unit="short",
            width=6,
        ),
        Panel(
            title="Open files",
            about="The share of those that the process may open; connections are most of them.",
            queries=[Query(f"process_open_fds{PROCESS} / process_max_fds{PROCESS}", "{{pod}}")],
            unit="percentunit",
            width=6,
        ),
        Panel(
            title="gRPC servers replaced",
            about=(
                "gRPC ended by itself and a new server took its place. Report it, "
                "with the log's grpc_lost."
            ),
            queries=[Query(rate("headlight_grpc_restarts_total", PLACE, "pod"), "{{pod}}")],
            unit="ops",
        ),
        Panel(
            title="Lines left out of the log",
            about=(
                "rate: too many of one kind. queue_full: nobody reads the log. failed: no "
                "space, or no reader."
            ),
            queries=[
                Query(
                    rate("headlight_log_lines_dropped_total", PLACE, "pod, reason"),
                    "{{pod}} {{reason}}",
                )
            ],
            unit="ops",
        ),
    ],
)

TLS = Row(
    "TLS and access",
    [
        Panel(
            title="Until the certificate ends",
            about="A ticket comes 14 days before, a page 2 days before. Empty without TLS.",
            queries=[
                Query(
                    f"headlight_tls_certificate_expiry_timestamp_seconds{PLACE} - time()", "{{pod}}"
                )
            ],
            unit="s",
            limits=[172800, 1209600],
            falling=True,
            least=None,
        ),
        Panel(
            title="Changed files that could not be used, within an hour",
            about=(
                "The replica goes on with the certificate and the tokens it has. "
                "Empty without TLS and tokens."
            ),
            queries=[
                Query(f"increase(headlight_tls_reload_failures_total{PLACE}[1h])", "{{pod}} TLS"),
                Query(
                    f"increase(headlight_auth_reload_failures_total{PLACE}[1h])", "{{pod}} tokens"
                ),
            ],
            unit="short",
        ),
        Panel(
            title="Calls without a valid token, and over their quota",
            about=(
                "UNAUTHENTICATED by method; refusals by quota. Neither counts against an objective."
            ),
            queries=[
                Query(
                    f"{rate('grpc_server_handled_total', CALLS, 'grpc_method', UNAUTHENTICATED)}"
                    f" or 0 * {rate('grpc_server_handled_total', CALLS, 'grpc_method')}",
                    "{{grpc_method}} UNAUTHENTICATED",
                ),
                Query(
                    f"{rate('headlight_rejected_total', OURS, '', OVER_QUOTA)} or vector(0)",
                    "over quota",
                ),
            ],
            unit="reqps",
        ),
    ],
)

ROWS = (QUEUE, BATCHES, ATTENTION, PROCESSES, TLS)
