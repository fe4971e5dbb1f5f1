from __future__ import annotations

from prometheus_client import Metric

from headlight.outputs.registry import OUTPUTS
from headlight.spec import PRIORITIES
from headlight_service.telemetry.metrics import (
    CANCEL_STAGES,
    COMPARISON,
    GAUGES,
    REASONS,
    STAGES,
    Metrics,
)

# This metric exists before a model.
OF_THE_PROCESS = {"headlight_ready", "headlight_stuck", "headlight_grpc_restarts"}


def families(metrics: Metrics) -> dict[str, Metric]:
    return {family.name: family for family in metrics.registry.collect()}


ABOUT = {
    "model": "m",
    "version": "1",
    "sha256": "ab",
    "provider": "cpu",
    "precision": "fp32",
    "positions": "rope",
}


def filled() -> Metrics:
    metrics = Metrics()
    metrics.of("m")
    metrics.requests.labels("grpc", "Encode", "OK").inc()
    metrics.model_loads.labels("m", "loaded").inc()
    metrics.serve(**ABOUT, gauges=dict.fromkeys(GAUGES, lambda: 7))
    return metrics


def test_metric_names_have_units_and_headlight_metrics_a_model_label() -> None:
    for name, family in families(filled()).items():
        if not name.startswith("headlight_"):
            continue
        assert family.samples
        if name in OF_THE_PROCESS:
            assert [sample.labels for sample in family.samples] == [{}], name
            continue
        if name == "headlight_requests":  # of the frontends: a request may name no model
            assert all(set(s.labels) == {"protocol", "method", "code"} for s in family.samples)
            continue
        if name == "headlight_log_lines_dropped":  # metrics of the process, too
            assert {sample.labels["reason"] for sample in family.samples} == {
                "rate",
                "queue_full",
                "failed",
            }
            assert all(set(sample.labels) == {"reason"} for sample in family.samples)
            continue
        assert all(sample.labels["model"] == "m" for sample in family.samples), name
        assert "_ms" not in name
        assert family.documentation.endswith("."), name


def test_every_series_of_a_model_exists_from_the_start() -> None:
    found = families(filled())
    stages = {sample.labels["stage"] for sample in found["headlight_stage_seconds"].samples}
    outputs = {sample.labels["output"] for sample in found["headlight_output_bytes"].samples}
    reasons = {sample.labels["reason"] for sample in found["headlight_rejected"].samples}
    assert stages == set(STAGES)
    for name in ("texts", "tokens", "batch_seconds", "stage_seconds"):
        assert {sample.labels["priority"] for sample in found[f"headlight_{name}"].samples} == set(
            PRIORITIES
        ), name
    assert outputs == {*OUTPUTS, COMPARISON}
    assert reasons == set(REASONS)
    assert {sample.labels["stage"] for sample in found["headlight_cancelled"].samples} == set(
        CANCEL_STAGES
    )


def test_versions_of_one_name_share_series_which_end_with_the_last() -> None:
    metrics = filled()
    new = {**ABOUT, "version": "2"}
    metrics.of("m").tokens["bulk"].inc(3)
    metrics.serve(**new, gauges=dict.fromkeys(GAUGES, lambda: 7))
    metrics.withdraw(**ABOUT, others=False)
    tokens = {"model": "m", "priority": "bulk"}
    assert metrics.registry.get_sample_value("headlight_tokens_total", tokens) == 3
    [info] = families(metrics)["headlight_model_info"].samples
    assert info.labels["version"] == "2"
    metrics.withdraw(**new, others=False)
    assert not [
        sample.name
        for family in families(metrics).values()
        for sample in family.samples
        if "model" in sample.labels and family.name != "headlight_model_loads"
    ]


def test_prometheus_parses_the_exposition() -> None:
    kind, body = filled().exposition()
    assert kind.startswith("text/plain")
    text = body.decode()
    info = (
        'headlight_model_info{model="m",positions="rope",precision="fp32",provider="cpu",'
        'sha256="ab",version="1"} 1.0'
    )
    assert info in text
    assert 'headlight_queue_tokens{model="m"} 7.0' in text
