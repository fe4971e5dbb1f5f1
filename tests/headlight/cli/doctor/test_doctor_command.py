"""The report of `headlight doctor`, as text and as JSON, and its exit code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headlight
from headlight.cli.commands import main
from headlight.cli.doctor import doctor_command
from headlight.cli.doctor.checks import Provider, usable_providers
from headlight.cli.doctor.default_ports import Port
from headlight.errors import BundleError
from headlight.runtime.providers import openvino_session
from tests.tampering import scale_weights

SECTIONS = ["packages", "providers", "golden inputs", "machine", "cache", "ports", "tuning"]
# As in an environment without the extras.
BARE = """
import importlib.metadata, importlib.util, sys
there = importlib.util.find_spec
hidden = {"onnxruntime", "tokenizers", "openvino"}
importlib.util.find_spec = lambda name, package=None: (
    None if name in hidden else there(name, package)
)
from headlight.cli.commands import main
sys.exit(main(["doctor", "--format", "json"]))
"""


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The default ports of this machine may have anything; the cache is empty."""
    found = [Port("127.0.0.1:50051", "gRPC", "headlight", "fake, fp32 on cpu")]
    monkeypatch.setattr(doctor_command, "default_ports", lambda: found)
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))


def test_the_text_has_a_section_for_each_subject(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    title, *sections = out.rstrip("\n").split("\n\n")
    assert err == ""
    assert title.startswith(f"headlight {headlight.__version__}, Python 3.")
    assert [section.splitlines()[0] for section in sections] == SECTIONS
    packages, providers, golden, machine, cache, found, tuning = sections
    assert re.search(r"\n  client +ok +grpcio ", packages)
    assert "\n  cpu       ok  fp32, " in providers
    assert "\n  no model is here to try; `headlight serve BUNDLE --check`" in golden
    assert " usable: " in machine
    assert f"\n  folder  {tmp_path}/cache\n  holds   no model\n" in cache
    assert found.endswith("\n  127.0.0.1:50051  headlight  gRPC: fake, fp32 on cpu")
    assert "the precision is never tuned" in tuning


def test_golden_inputs_of_a_cached_model_are_run(
    capsys: pytest.CaptureFixture[str], bundle_path: Path, tmp_path: Path
) -> None:
    shutil.copytree(bundle_path, tmp_path / "cache" / "tiny-0123456789ab" / "bundle")
    assert main(["doctor"]) == 0
    assert re.search(r"\n  cpu +ok +\S+ \S+: PyTorch's answers", capsys.readouterr().out)


def test_other_numbers_than_those_of_pytorch_are_a_problem(
    capsys: pytest.CaptureFixture[str], bundle_path: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "cache" / "tiny-0123456789ab" / "bundle"
    shutil.copytree(bundle_path, bundle)
    scale_weights(bundle, 1.0005)
    assert main(["doctor", "--format", "json"]) == 1
    out, err = capsys.readouterr()
    [cpu, *_] = json.loads(out)["golden_inputs"]
    assert (cpu["provider"], "golden pooled is off by" in cpu["problem"]) == ("cpu", True)
    assert re.search(r"installed: onnxruntime \S+, numpy \S+; tested: onnxruntime >=", err)


def test_a_provider_that_is_not_installed_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BundleError("provider openvino needs OpenVINO")

    monkeypatch.setattr(openvino_session, "library", missing)
    [_, openvino, _] = usable_providers()
    assert (openvino.precisions, openvino.detail) == ((), "needs OpenVINO")


def test_json_has_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert {each["extra"] for each in report["packages"]} >= {"client", "runtime", "serve"}
    [cpu, *_] = report["providers"]
    assert (cpu["name"], "fp32" in cpu["precisions"]) == ("cpu", True)
    assert report["cores"]["usable"] >= 1
    assert report["cache"]["free_bytes"] > 0


def test_what_is_broken_is_one_line_and_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "file" / "cache"))
    broken = Provider("cuda", (), "fails: no such symbol", broken=True)
    monkeypatch.setattr(doctor_command, "usable_providers", lambda: [broken])
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert "\n  cuda  broken  fails: no such symbol\n" in out
    assert err.startswith("headlight: provider cuda fails: no such symbol; the cache ")
    assert err.count("\n") == 1


def test_a_bare_installation_has_a_report_and_remedies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    providers = json.loads(done.stdout)["providers"]
    assert [each["precisions"] for each in providers] == [[], [], []]
    for each in providers:
        assert each["detail"] == (
            "headlight.runtime needs onnxruntime, which is not installed: "
            "pip install '.[runtime]' in a clone of Headlight"
        )
