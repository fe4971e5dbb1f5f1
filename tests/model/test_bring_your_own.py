"""The example of docs/bring-your-own.md, run as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from headlight_model.checkpoint import load_checkpoint

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own.md"


def test_the_example_makes_a_checkpoint_equal_to_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = [
        part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    ]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(PAGE), "exec"), names)
    ids = torch.randint(0, 1000, (2, 17))
    with torch.no_grad():
        expected = names["yours"](ids)
        torch.testing.assert_close(names["ours"](ids).pooled, expected, atol=1e-5, rtol=0)
        loaded = load_checkpoint(tmp_path / "build/checkpoints/yours")
        # Rounded to float16.
        torch.testing.assert_close(loaded(ids).pooled, expected, atol=0.02, rtol=0)
    assert not (tmp_path / "build/checkpoints/yours/tokenizer.json").exists()
