"""Resources of a container, as `headlight info --resources` prints them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from headlight.cli.main import main
from headlight.errors import BundleError
from headlight.runtime.bundle.bundle import Bundle
from headlight_service.app import resources
from headlight_service.app.assembly import limits
from headlight_service.app.resources import STEP, check_memory, resources_of
from headlight_service.config.options import Config
from headlight_service.core.admission.working_memory import MIB, text_bytes


def test_each_option_counts_for_its_part(bundle_path: Path) -> None:
    manifest = dataclasses.replace(Bundle(bundle_path).manifest, max_length=2048)
    plain = resources_of(Config(), manifest, cpus=2)
    text = text_bytes(manifest.architecture, 2048, "cpu", attend=True)
    assert (plain.streams, plain.threads, plain.parts["texts"]) == (2, 1, 4 * text)
    assert plain.parts["answers"] >= 2 * limits(Config(), manifest).max_stream_output_bytes
    assert plain.memory % STEP == 0
    assert 0 <= plain.memory - sum(plain.parts.values()) < STEP

    def changed(**options: object) -> dict[str, int]:
        parts = resources_of(dataclasses.replace(Config(), **options), manifest, cpus=2).parts  # type: ignore[arg-type]
        return {name: count for name, count in parts.items() if count != plain.parts[name]}

    assert changed(max_output_bytes=96 * MIB) == {"answers": 192 * MIB}
    assert changed(max_queue_bytes=32 * MIB) == {"requests": 32 * MIB}
    assert changed(streams=1) == {"texts": 2 * text}
    vectors = text_bytes(manifest.architecture, 2048, "cpu", attend=False, fused=True)
    assert changed(attention="off")["texts"] == 4 * vectors < 4 * text
    fused = text_bytes(manifest.architecture, 2048, "openvino", attend=True)
    openvino = changed(provider="openvino")
    assert openvino.keys() == {"texts", "weights"}
    assert openvino["texts"] == 2 * fused  # one batch for each slot
    assert openvino["weights"] > plain.parts["weights"]
    assert changed(provider="openvino", streams=8)["weights"] > openvino["weights"] + 6 * 8 * MIB


def test_a_precision_that_the_bundle_lacks_is_refused(bundle_path: Path) -> None:
    config = Config(precision="bf16")
    with pytest.raises(BundleError, match="no embed graph for cpu/bf16"):
        resources_of(config, Bundle(bundle_path).manifest, cpus=1)


def test_the_command_prints_yaml_and_json(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve = ["--resources", "--bundle", str(bundle_path), "--attention", "off"]
    assert main(["info", "--cpus", "3", "--format", "json", *serve]) == 0
    values = json.loads(capsys.readouterr().out)
    assert main(["info", "--cpus", "3", *serve]) == 0
    text = capsys.readouterr().out
    printed = yaml.safe_load(text)["resources"]
    assert printed["limits"] == printed["requests"]
    assert printed["limits"] == {"cpu": "3", "memory": f"{values['memory_bytes'] // MIB}Mi"}
    assert "attention off, streams 3, threads 1" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpus", "2"], "--cpus is for --resources"),
        (["--resources", "--bundel", "x"], "did you mean --bundle?"),
        (["--resources", "--max-items", "none"], "--max-items is 'none'"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_is_no_bundle_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", "--resources", "--bundle", str(tmp_path)]) == 1
    assert f"cannot be read in {tmp_path}" in capsys.readouterr().err


# The peak of docs-rope with 8 workers was 65 MiB on ONNX Runtime, 303 MiB on OpenVINO.
@pytest.mark.parametrize(
    ("provider", "streams", "peak"),
    [
        ("cpu", 8, 4.5 * 14 + 16),
        ("openvino", 2, 6 * 14 + 192),
        ("openvino", 8, 6 * 14 + 192 + 6 * (0.2 * 14 + 8)),
    ],
)
def test_a_model_that_would_not_fit_is_refused_with_the_numbers(
    bundle_path: Path, provider: str, streams: int, peak: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "weight_bytes", lambda *_: 14 * MIB)
    monkeypatch.setattr(resources, "resident_bytes", lambda: 100 * MIB)
    config = Config(bundle=bundle_path, provider=provider, streams=streams)
    check_memory(config, bundle_path, None)
    check_memory(config, bundle_path, int((100 + peak) * MIB))
    limit = int((99 + peak) * MIB)
    with pytest.raises(BundleError) as refused:
        check_memory(config, bundle_path, limit)
    assert refused.value.message == (
        f"loading {Bundle(bundle_path).manifest.name} takes up to {peak:.0f} MiB for 14 MiB of "
        f"weights, beside 100 MiB in use; the memory limit is {limit / MIB:.0f} MiB: raise it, or "
        "serve fewer models in this process"
    )
