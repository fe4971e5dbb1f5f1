"""Metrics contract for dashboards: every name, on a scrape of the real service."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headlight import Client
from tests.system.processes import Service, get

# The scraped metrics with their labels (except `le` and those of the process).
SERIES = {
    **{
        f"grpc_server_{name}": "grpc_type grpc_service grpc_method"
        for name in ("started_total", "handling_seconds_bucket")
    },
    "grpc_server_handled_total": "grpc_type grpc_service grpc_method grpc_code",
    "headlight_requests_total": "protocol method code",
    "headlight_texts_total": "model priority",
    "headlight_tokens_total": "model priority",
    "headlight_batch_items_bucket": "model",
    "headlight_batch_tokens_bucket": "model",
    "headlight_batch_seconds_bucket": "model priority",
    "headlight_padding_ratio_bucket": "model",
    "headlight_stage_seconds_bucket": "model priority stage",
    "headlight_queue_tokens": "model",
    "headlight_queue_bulk_tokens": "model",
    "headlight_backlog_seconds": "model",
    "headlight_held_request_bytes": "model",
    "headlight_held_output_bytes": "model",
    "headlight_output_bytes_total": "model output",
    "headlight_attend_runs_total": "model",
    "headlight_rejected_total": "model reason",
    "headlight_cancelled_total": "model stage",
    "headlight_log_lines_dropped_total": "reason",
    "headlight_ready": "",
    "headlight_grpc_restarts_total": "",
    "headlight_stuck": "",
    "headlight_provider_fallback": "model",
    "headlight_model_loads_total": "model result",
    "headlight_model_info": "model version sha256 provider precision positions",
}
VALUES = {  # of the labels whose sets are closed and which every scrape shows, from the first
    ("headlight_texts_total", "priority"): {"interactive", "bulk"},
    ("headlight_batch_seconds_bucket", "priority"): {"interactive", "bulk"},
    ("headlight_stage_seconds_bucket", "priority"): {"interactive", "bulk"},
    ("headlight_stage_seconds_bucket", "stage"): {"tokenize", "queue", "infer", "total"},
    ("headlight_output_bytes_total", "output"): {
        *("pooled", "tokens", "attention", "hidden"),
        *("spans", "scores", "sparse", "multi_vector", "comparison"),
    },
    ("headlight_model_loads_total", "result"): {"loaded", "refused"},
    ("headlight_cancelled_total", "stage"): {"tokenize", "queue", "infer", "send"},
    ("headlight_log_lines_dropped_total", "reason"): {"rate", "queue_full", "failed"},
    ("headlight_rejected_total", "reason"): {
        *(
            "request_bytes",
            "queue_tokens",
            "output_bytes",
            "wait_beyond_deadline",
            "stalled_reader",
            "quota",
        ),
        *("device_memory", "memory"),
        *("invalid_input", "unavailable", "deadline_exceeded", "internal"),
    },
}


@pytest.fixture(scope="module")
def scraped(rope: Service) -> dict[str, list[dict[str, str]]]:
    """Return the labels of each series by name, after one answered call."""
    with Client(rope.target) as client:
        client.attend("one")
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(get(rope.http, "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(
                {key: sample.labels[key] for key in sample.labels if key != "le"}
            )
    return found


def test_every_documented_metric_is_scraped(scraped: dict[str, list[dict[str, str]]]) -> None:
    for name, labels in SERIES.items():
        assert name in scraped
        assert all(set(each) == set(labels.split()) for each in scraped[name]), name


def test_every_value_of_a_closed_label_is_scraped(
    scraped: dict[str, list[dict[str, str]]],
) -> None:
    for (name, label), values in VALUES.items():
        assert {labels[label] for labels in scraped[name]} == values, (name, label)


def test_no_undocumented_metric_is_scraped(scraped: dict[str, list[dict[str, str]]]) -> None:
    """A new metric must be added to the contract."""
    histograms = {
        name.removesuffix("_bucket") + end
        for name in SERIES
        if name.endswith("_bucket")
        for end in ("_sum", "_count")
    }
    assert {name for name in scraped if not name.startswith("process_")} == {*SERIES, *histograms}
