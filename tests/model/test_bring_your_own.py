"""The examples of docs/bring-your-own.md: renamed weights, and the code that the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

from examples.bring_your_own import hand_written, transformer_encoder
from examples.bring_your_own.serve_and_compare import LENGTH, VOCABULARY, write_checkpoint
from headlight_model.checkpoint import load_checkpoint, renamed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "bring-your-own.md"
EXAMPLES = ROOT / "examples" / "bring_your_own"


@pytest.mark.parametrize("example", [transformer_encoder, hand_written])
def test_the_checkpoint_of_an_example_equals_its_model(example: ModuleType, tmp_path: Path) -> None:
    model = example.Reverser().eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 1:
                value.add_(0.1 * torch.randn_like(value))  # a lost bias or gain would show
            elif "W_" in name or "in_proj" in name:
                value.mul_(3)
    write_checkpoint(tmp_path, example.CONFIG, renamed(model.state_dict(), example.NAMES))
    ids = torch.randint(0, VOCABULARY, (3, LENGTH))
    with torch.no_grad():
        out = load_checkpoint(tmp_path)(ids, fused=False)
        torch.testing.assert_close(out.tokens, model(ids), atol=5e-6, rtol=0)
        torch.testing.assert_close(
            torch.stack(out.attention, dim=1), model.attention(ids), atol=5e-6, rtol=0
        )


def test_the_page_shows_code_of_the_examples() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) == 3
    scripts = [script.read_text(encoding="utf-8") for script in EXAMPLES.glob("*.py")]
    for block in (each.split("```")[0] for each in blocks):
        assert any(block in script for script in scripts), block


@pytest.mark.parametrize("example", [transformer_encoder, hand_written])
def test_the_page_lists_the_names_that_an_example_changes(example: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for theirs, ours in example.NAMES.items():
        if ours is not None:
            row = rf"^\| .*`{re.escape(theirs)}`.* \| `{re.escape(ours)}` \|$"
            assert re.search(row, page, re.M), theirs
