"""Character limit of a tokenizer in an exported manifest, and refusal of slow tokenizers."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight_export.command import main
from headlight_export.writer import bundle_writer, fp32_parts
from headlight_export.writer.draft import earlier_limit
from tests.conftest import MakeBundle
from tests.export.conftest import Export

SLOW = {"type": "Replace", "pattern": {"Regex": r"\n(?!\s*\n)"}, "content": "x"}


def test_a_bundle_declares_the_limit_of_its_tokenizer(bundle_path: Path) -> None:
    manifest = Bundle(bundle_path).manifest
    limit = manifest.tokenizer_limit
    assert limit is not None
    assert limit.max_characters >= 4 * manifest.max_length
    assert limit.worst_ms_per_1000_characters > 0
    tokenizer = Runtime(bundle_path, threads=1).tokenizer
    assert tokenizer is not None
    assert tokenizer.encode("a" * limit.max_characters, limit=False).original_length > 0


def test_a_checkpoint_with_a_quadratic_pattern_is_not_exported(
    make_checkpoint: MakeBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint = Path(shutil.copytree(make_checkpoint("rope"), tmp_path / "checkpoint"))
    values = json.loads((checkpoint / "tokenizer.json").read_text())
    (checkpoint / "tokenizer.json").write_text(json.dumps(values | {"normalizer": SLOW}))
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["export", str(checkpoint), "--out", str(out)])
    assert main() == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("export: ")]
    assert "tokenizer.json" in line
    assert repr(SLOW["pattern"]["Regex"]) in line  # type: ignore[index]
    assert not out.exists()


def test_an_unchanged_export_keeps_the_limit_despite_noise(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path / "out", texts=None)
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    limit = Bundle(tmp_path / "out").manifest.tokenizer_limit
    assert limit is not None
    noisy = dataclasses.replace(limit, max_characters=2 * limit.max_characters, worst="tabs")
    monkeypatch.setattr(bundle_writer, "measure_tokenizer", lambda *_: noisy)
    export(tmp_path / "out", texts=None)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


def test_a_new_tokenizer_or_a_distant_limit_replaces_the_old_limit(
    bundle_path: Path, tmp_path: Path
) -> None:
    text = (bundle_path / "tokenizer.json").read_text(encoding="utf-8")
    earlier = Bundle(bundle_path).manifest.tokenizer_limit
    assert earlier is not None

    def measured(characters: int) -> TokenizerLimit:
        return dataclasses.replace(earlier, max_characters=characters, worst="tabs")

    most = earlier.max_characters
    assert earlier_limit(bundle_path, text, measured(most // 2), 8) == earlier
    assert earlier_limit(bundle_path, text, measured(4 * most), 8) == measured(4 * most)
    assert earlier_limit(bundle_path, text, measured(most // 4), 8) == measured(most // 4)
    assert earlier_limit(bundle_path, text + "\n", measured(most), 8) == measured(most)
    longer = most // 4 + 1  # tokens
    assert earlier_limit(bundle_path, text, measured(4 * longer), longer - 1) == earlier
    assert earlier_limit(bundle_path, text, measured(4 * longer), longer) == measured(4 * longer)
    assert earlier_limit(tmp_path / "nothing", text, measured(most), 8) == measured(most)


def test_a_tokenizer_too_slow_for_its_model_is_refused_before_anything_is_traced(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight.runtime.tokenization.tokenizer_probe.LIMIT_SECONDS", 1e-9)
    monkeypatch.setattr("headlight.runtime.tokenization.tokenizer_probe.STEP_SECONDS", 1e-9)
    monkeypatch.setattr(fp32_parts, "trace", None)
    with pytest.raises(BundleError, match="for each token of the model"):
        export(tmp_path / "out", texts=None)
    assert not (tmp_path / "out").exists()
