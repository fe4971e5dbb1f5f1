"""Third-party models, exported and opened in this process, and the error of their results.

That a service answers with the same numbers is shown by tests/system/test_schemes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headlight.runtime import EncodeItem, Runtime
from headlight.runtime.encode_items import everything
from headlight.runtime.parity.golden_inputs import distance
from headlight_export.folders.origin import read_origin
from headlight_export.parity.reference import tolerances
from headlight_export.writer.bundle_writer import export_origin
from tests.families.described import DESCRIBED, Described
from tests.families.expected import Expected, Transformers
from tests.families.models import MODELS, VOCABULARY, make

NAMES = (*MODELS, *DESCRIBED)
LENGTHS = (1, 2, 7, 40, 96)  # longer than every window, up to the longest accepted
CAUSAL = ("gpt2", "llama", "mistral", "qwen")
Ids = NDArray[np.int64]


class Theirs(Protocol):
    """Model of third-party code."""

    shape: tuple[int, int, int]  # layers, heads, hidden states that can be compared

    def outputs(self, ids: Ids, segments: Ids | None = None) -> Expected:
        """Return the outputs; see `Expected`."""

    def exact(self, ids: Ids, segments: Ids | None = None) -> Expected:
        """Return the same in float64."""


@contextmanager
def imported(name: str, folder: Path) -> Iterator[tuple[Runtime, Theirs]]:
    """Export and open a model of NAMES, saved as its makers do; return runtime and model."""
    theirs: Described | Transformers
    if name in DESCRIBED:
        theirs = DESCRIBED[name]()
        theirs.save(folder / "model")
    else:
        theirs = Transformers(make(name))
        theirs.model.save_pretrained(folder / "model")
    pooling = "last" if pools_last(name) else "mean"
    export_origin(read_origin(folder / "model", pooling=pooling, ids_only=True), folder / "bundle")
    with Runtime(folder / "bundle", threads=1) as runtime:
        yield runtime, theirs


def pools_last(name: str) -> bool:
    """Return whether a model is causal, and exported with last-token pooling."""
    return name.startswith(CAUSAL) or name in ("llama3", "gemma3-causal")


def sentence(length: int, seed: int = 0) -> Ids:
    """Return int64 [length] random ids, without padding ids."""
    return np.random.default_rng([seed, length]).integers(
        3, VOCABULARY, size=length, dtype=np.int64
    )


def distances(
    runtime: Runtime, theirs: Theirs, name: str, ids: Ids, segments: Ids | None = None
) -> dict[str, float]:
    """Return the error of each output; pooled relative to the vector's length."""
    wanted = everything(runtime.bundle.manifest.architecture)
    [got] = runtime.engine.run([EncodeItem(ids, wanted, segments)])
    assert got.attention is not None
    assert got.hidden is not None
    assert got.tokens is not None
    assert got.pooled is not None
    assert got.attention.shape[:2] == theirs.shape[:2]
    expected = theirs.outputs(ids, segments)
    results = {
        "attention": got.attention,
        "hidden": got.hidden[: theirs.shape[2]],
        "tokens": got.tokens,
    }
    found = {
        output: distance(output, value, getattr(expected, output))
        for output, value in results.items()
    }
    pooled = expected.tokens[-1] if pools_last(name) else expected.tokens.mean(axis=0)
    return found | {"pooled": float(np.abs(got.pooled - pooled).max() / np.linalg.norm(pooled))}


def limits(theirs: Theirs, ids: Ids, segments: Ids | None = None) -> dict[str, float]:
    """Return the tolerances of the design.

    The fp32 floors, or four times the difference between the float32 and float64 of that code.
    """
    ours, exact = theirs.outputs(ids, segments), theirs.exact(ids, segments)
    own = {
        name: distance(name, getattr(ours, name), getattr(exact, name))
        for name in ("attention", "hidden", "tokens")
    }
    return tolerances({"pooled": 0.0, "scores": 0.0} | own)


def moved_by_mates(runtime: Runtime) -> float:
    """Return the largest change of a text's vector between alone and among other lengths,
    relative to the vector's length.
    """
    texts = [sentence(length, seed) for seed, length in enumerate((3, 40, 96, 17, 1, 64, 9, 30))]
    together = runtime.encode(texts)
    alone = np.concatenate([runtime.encode([text]) for text in texts])
    return float((np.abs(together - alone).max(axis=1) / np.linalg.norm(alone, axis=1)).max())
