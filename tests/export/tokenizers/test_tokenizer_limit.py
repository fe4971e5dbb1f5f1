"""Character limit of a tokenizer in an exported manifest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight_export.command import main
from headlight_model.checkpoint import save_checkpoint
from headlight_service.app import assembly
from headlight_service.config.options import Config
from tests.conftest import MakeBundle
from tests.factory import sharpened, small_config
from tests.tokenizers_of_kinds import QWEN, of_bytes

SLOW = {"type": "Replace", "pattern": {"Regex": r"\n(?!\s*\n)"}, "content": "x"}


def test_a_bundle_declares_the_limit_of_its_tokenizer(bundle_path: Path) -> None:
    manifest = Bundle(bundle_path).manifest
    limit = manifest.tokenizer_limit
    assert limit == TokenizerLimit(max_characters=65_536, worst="none")
    assert limit.max_characters >= 4 * manifest.max_length
    tokenizer = Runtime(bundle_path, threads=1).tokenizer
    assert tokenizer is not None
    assert tokenizer.encode("a" * limit.max_characters, limit=False).original_length > 0


@pytest.mark.usefixtures("traced_before")
def test_a_slow_tokenizer_lowers_the_limit_and_is_exported(
    make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    checkpoint = Path(shutil.copytree(make_checkpoint("rope"), tmp_path / "checkpoint"))
    values = json.loads((checkpoint / "tokenizer.json").read_text())
    (checkpoint / "tokenizer.json").write_text(json.dumps(values | {"normalizer": SLOW}))
    assert main([str(checkpoint), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    limit = Bundle(tmp_path / "out").manifest.tokenizer_limit
    assert limit is not None
    assert limit.max_characters == 8192
    # Each kind with line breaks costs the square of its length; the first measured so is named.
    assert limit.worst in ("line breaks", "line breaks of Windows", "blank lines with spaces")


def test_a_model_of_qwens_kind_is_exported_and_opened_with_defaults(tmp_path: Path) -> None:
    """Of 32,768 tokens, twice the default of --max-request-tokens."""
    tokenizer = of_bytes(QWEN)
    config = small_config(
        vocab_size=tokenizer.get_vocab_size(), layers=1, max_length=32_768, trained_length=32_768
    )
    save_checkpoint(tmp_path / "checkpoint", sharpened(config), tokenizer.to_str())
    assert main([str(tmp_path / "checkpoint"), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    options = Config(bundle=tmp_path / "out", provider="cpu")
    manifest = assembly.load(options).bundle.manifest
    assert manifest.tokenizer_limit == TokenizerLimit(max_characters=262_144, worst="none")
    assert assembly.limits(options, manifest).max_request_tokens == 32_768
