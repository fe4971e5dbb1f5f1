"""Free disk space that an export needs, checked before it begins."""

from __future__ import annotations

import shutil
from pathlib import Path

from headlight_export.folders.origin import Origin

# The weights in float32, and as much again while a graph is written. A precision is smaller.
COPIES = 2
MIB = 1 << 20


class NoSpace(Exception):
    """The disk has too little space for the bundle. It may have more later."""


def check_space(out: Path, origin: Origin, precisions: int, *, setting: str) -> None:
    """Check the free space for a bundle.

    Args:
        out: folder of the bundle.
        origin: the model.
        precisions: number of precisions beside fp32.
        setting: that chooses another disk.

    Raises:
        NoSpace: there is too little; names the folder, both sizes and the remedy.
    """
    weights = 4 * sum(each.numel() for each in origin.encoder.parameters())
    needed = (COPIES + precisions) * weights
    folder = next(each for each in out.absolute().parents if each.is_dir())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(
            f"{folder} has {free // MIB:,} MiB free, and the export needs some "
            f"{-(-needed // MIB):,} MiB; free some, or choose another disk ({setting})"
        )
