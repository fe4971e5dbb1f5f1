"""Plots that need no training: what each position scheme computes, by the model's own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from lab.pictures import biases, rotations, sinusoids, splitting

PICTURES: Mapping[str, Callable[[Path], Path]] = MappingProxyType(
    {
        "sinusoidal-table.png": sinusoids.draw_table,
        "sinusoidal-pairs.png": sinusoids.draw_pairs,
        "sinusoidal-scales.png": sinusoids.draw_scales,
        "sinusoidal-wavelengths.png": sinusoids.draw_wavelengths,
        "rope-circles.png": rotations.draw_circles,
        "rope-theta.png": rotations.draw_thetas,
        "rope-scaling.png": rotations.draw_scalings,
        "alibi-bias.png": biases.draw_biases,
        "splitting.png": splitting.draw_split,
    }
)


def draw(folder: Path) -> list[Path]:
    """Draw all of them into a folder, created if missing. Return their paths.

    Raises:
        OSError: a file cannot be written.
    """
    return [make(folder / name) for name, make in PICTURES.items()]
