"""`headlight cache`: what it lists and removes, damaged models among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headlight.cli.cache_command import exported_precisions
from headlight.cli.commands import main

ON_CPU = {"provider": "cpu", "precision": "fp32", "tolerance": 1e-5}
MANIFEST = {
    "name": "MiniLM",
    "source": {"hub": {"model": "org/MiniLM", "revision": "main", "commit": "ab" * 20}},
    "parity": [
        {"output": output, "max_error": error, **ON_CPU}
        for output, error in (("pooled", 3.3e-7), ("pooled", 1.2e-7), ("attention", 1.0))
    ],
    "graphs": [{"file": "embed.onnx", "precision": each} for each in ("fp32", "bf16")],
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models, one of them damaged."""
    for folder, text in (("MiniLM-0123456789ab", json.dumps(MANIFEST)), ("bad-cd0123456789", "{")):
        bundle = tmp_path / folder / "bundle"
        bundle.mkdir(parents=True)
        (bundle / "manifest.json").write_text(text)
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path))
    return tmp_path


def test_a_model_has_a_row_and_its_source(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = (cache / "MiniLM-0123456789ab/bundle/manifest.json").stat().st_size
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr() == (
        "name    precision  size       proof        key\n"
        f"MiniLM  fp32       {size} bytes  |Δ| 3.3e-07  0123456789ab\n"
        "  org/MiniLM @ main (abababababab)\n"
        "bad                1 byte     damaged      cd0123456789\n"
        "  a folder\n",
        "",
    )
    assert main(["cache", "list", "--format", "json"]) == 0
    good, bad = json.loads(capsys.readouterr().out)["models"]
    assert (good["pooled_max_error"], good["precisions"]) == (3.3e-7, ["fp32"])
    assert (bad["name"], bad["pooled_max_error"]) == ("bad", None)


def test_a_damaged_model_can_be_removed_and_doctor_says_so(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 1
    said = "the cache has damaged models; `headlight cache remove cd0123456789`\n"
    assert capsys.readouterr().err.endswith(said)
    assert main(["cache", "remove", "bad", "nope"]) == 2
    assert (cache / "bad-cd0123456789").exists(), "nothing is removed unless every name is known"
    capsys.readouterr()
    assert main(["cache", "remove", "cd0123456789"]) == 0
    said = f"headlight: removed {cache}/bad-cd0123456789 (1 byte)\n"
    assert capsys.readouterr() == ("", said)
    assert [path.name for path in cache.iterdir()] == ["MiniLM-0123456789ab"]


def test_precisions_are_those_of_the_files_and_not_what_a_provider_rounds_to() -> None:
    graphs = [
        {"file": "embed.onnx", "precision": "fp32"},
        {"file": "embed.onnx", "precision": "bf16"},
        {"file": "embed-int8.onnx", "precision": "int8"},
    ]
    assert exported_precisions(graphs) == ["fp32", "int8"]
