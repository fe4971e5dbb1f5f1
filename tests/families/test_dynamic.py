"""Comparison with transformers for dynamic scaling.

Transformers scales by the current text; the bundle scales by the longest text served.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from headlight.outputs.registry import MEASURED
from headlight_export.command import main
from headlight_export.folders.origin import read_origin
from headlight_export.parity.transformers_comparison import against_transformers
from headlight_model.encoder import Encoder
from headlight_model.positions.rope import RopeScaling
from tests.families import models
from tests.families.models import GROUPED, ROTARY, make, rope

transformers.logging.set_verbosity_error()

EXACT = dict.fromkeys(MEASURED, 0.0)
DYNAMIC = rope("dynamic", factor=2.0)
BOTH_KINDS: dict[str, Any] = {
    "rope_parameters": {
        "full_attention": DYNAMIC["rope_parameters"],
        "sliding_attention": {"rope_type": "default", "rope_theta": 700.0},
    }
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GROUPED | DYNAMIC),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 9, "num_hidden_layers": 2} | DYNAMIC),
    "qwen3": ("Qwen3", GROUPED | DYNAMIC),
    "eurobert": ("EuroBert", ROTARY | {"pad_token_id": 0} | DYNAMIC),
    "nomic_bert": ("NomicBert", ROTARY | DYNAMIC),
    "modernbert": ("ModernBert", ROTARY | {"local_attention": 12, "pad_token_id": 0} | BOTH_KINDS),
}


@pytest.fixture(scope="module", params=MODELS)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Return the key of the family, and the folder of its dynamic model."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.MODELS, name, MODELS[name])
        make(name).save_pretrained(folder)
    return name, folder


@pytest.mark.parametrize("longest", [97, 30_000])
def test_dynamic_scaling_matches_transformers_in_batches_padded_to_the_longest(
    family: tuple[str, Path], longest: int
) -> None:
    name, folder = family
    encoder = read_origin(folder, pooling="mean", max_length=longest, ids_only=True).encoder
    assert encoder.config.rope_scaling is not None
    found = against_transformers(folder, name, encoder, EXACT)
    assert found.version == transformers.__version__
    assert 0 < max(found.errors.values()) < 1e-4


def test_a_different_scaling_is_detected(family: tuple[str, Path]) -> None:
    """The right factor is 2 * 200 / 96 - 1, which is 3.17."""
    name, folder = family
    encoder = read_origin(folder, pooling="mean", max_length=200, ids_only=True).encoder
    for scaling in (None, RopeScaling(kind="ntk", factor=3.0)):
        wrong = Encoder(dataclasses.replace(encoder.config, rope_scaling=scaling)).eval()
        wrong.load_state_dict(encoder.state_dict())
        with pytest.raises(ValueError, match="this folder is read wrongly"):
            against_transformers(folder, name, wrong, EXACT)


def test_a_folder_with_dynamic_scaling_is_exported_for_longer_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(models.MODELS, "llama", MODELS["llama"])
    make("llama").save_pretrained(tmp_path / "model")
    arguments = [
        str(tmp_path / "model"),
        "--out",
        str(tmp_path / "out"),
        "--ids-only",
        "--pooling",
        "last",
    ]
    assert main([*arguments, "--max-length", "200"]) == 0
    assert "our PyTorch against transformers" in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "parity.json").read_text(encoding="utf-8"))
    assert report["pytorch_fp32_against_transformers"]["tokens"] < 1e-4
