"""Free space is checked before an export."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from headlight_export.writer.disk_space import MIB, NoSpace, check_space

ORIGIN = SimpleNamespace(encoder=torch.nn.Linear(1024, 1024, bias=False))  # 4 MiB


@pytest.mark.parametrize(("precisions", "needed"), [(0, 8), (2, 16)])
def test_too_little_space_is_named_with_its_folder_and_the_remedy(
    precisions: int, needed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = needed * MIB
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    out = tmp_path / "not" / "there"
    check_space(out, ORIGIN, precisions, setting="--disk")  # type: ignore[arg-type]
    free -= 1
    with pytest.raises(NoSpace) as error:
        check_space(out, ORIGIN, precisions, setting="--disk")  # type: ignore[arg-type]
    assert str(error.value).startswith(f"{tmp_path} has {needed - 1} MiB free")
    assert f"needs some {needed} MiB; free some, or choose another disk (--disk)" in str(
        error.value
    )
