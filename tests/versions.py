"""Versions of a bundle: the same model with other weights, whose golden answers are its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from headlight.runtime import Runtime
from headlight.runtime.encode_items import everything
from headlight.runtime.parity.golden_inputs import MASKED, load_golden
from tests.tampering import relist, rewrite, scale_weights


def version_of(bundle: Path, target: Path, factor: float) -> Path:
    """Copy a bundle to a folder as the version named by a factor, which scales its weights."""
    shutil.copytree(bundle, target)
    scale_weights(target, factor)
    rewrite(target, lambda manifest: manifest.update(version=f"v{factor}"))
    with Runtime(target, provider="cpu", threads=1, self_test=False) as runtime:
        with np.load(target / "golden.npz") as file:
            arrays = dict(file)
        counts = {"": 0, MASKED: 0}
        wanted = everything(runtime.engine.architecture, "attend")
        for golden in load_golden(runtime.bundle):
            kind = MASKED if golden.about else ""
            [result] = runtime.engine.run([golden.item(wanted)])
            for output, answer in golden.answers.items():
                assert result[output].shape == answer.shape
                arrays[f"{kind}{output}_{counts[kind]}"] = np.asarray(result[output], np.float32)
            counts[kind] += 1
    np.savez(target / "golden.npz", **arrays)
    relist(target, "golden.npz")
    return target
