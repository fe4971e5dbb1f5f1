"""Labels of a model that scores, and the activation that makes scores of its logits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headlight.runtime.bundle.manifest_fields import LONGEST_TEXT
from headlight_export.folders.model_folder import Refused, read_object
from headlight_export.folders.sentence_folder import SETTINGS

# Classes of PyTorch that sentence-transformers names, by the last part of their names.
ACTIVATIONS = {"Identity": "identity", "Sigmoid": "sigmoid", "Softmax": "softmax"}
OF_PROBLEMS = {
    "regression": "identity",
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
}


def labels_of(config: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Return the names of `count` scores, as id2label has them; without it LABEL_0 and so on.

    Raises:
        Refused: it has another number of names, or one that cannot be shown.
    """
    said = config.get("id2label")
    if said is None:
        return tuple(f"LABEL_{at}" for at in range(count))
    names: list[Any] = [said.get(str(at)) for at in range(count)] if isinstance(said, dict) else []
    if len(names) != count or len(said) != count or None in names:
        have = len(said) if isinstance(said, dict) else 0
        raise Refused(
            f"config.json: id2label has {have} names, and the model's head gives {count} scores; "
            "correct it"
        )
    for name in names:
        if (
            not isinstance(name, str)
            or not 1 <= len(name) <= LONGEST_TEXT
            or not name.isprintable()
        ):
            raise Refused(
                f"config.json: id2label has {name!a:.60}; a label is 1 to {LONGEST_TEXT} "
                "printable characters"
            )
    return tuple(names)


def activation_of(config: Mapping[str, Any], folder: Path, count: int, *, each_token: bool) -> str:
    """Return the activation: what sentence-transformers saved, else by problem_type.

    Without both it is that of transformers: sigmoid of a lone score, softmax of several.

    Raises:
        Refused: the folder names another one.
    """
    if each_token:
        return "softmax"
    for file, key, value in _saved(config, folder):
        if value is not None:
            library, _, name = str(value).rpartition(".")
            if not f"{library}.".startswith("torch.") or name not in ACTIVATIONS:
                raise Refused(
                    f"{file}: {key} is {value!a:.80}; served are torch's {', '.join(ACTIVATIONS)}"
                )
            return ACTIVATIONS[name]
    problem = config.get("problem_type")
    if problem is not None and problem not in OF_PROBLEMS:
        raise Refused(
            f"config.json: problem_type is {problem!a:.60}; it must be one of "
            f"{', '.join(OF_PROBLEMS)}, or null"
        )
    if problem is None or (count == 1 and problem != "regression"):
        return "sigmoid" if count == 1 else "softmax"
    return OF_PROBLEMS[problem]


def _saved(config: Mapping[str, Any], folder: Path) -> list[tuple[str, str, Any]]:
    """Return what sentence-transformers may have saved: file, key, value. The first counts."""
    saved, path = config.get("sentence_transformers"), folder / SETTINGS
    old = "sbert_ce_default_activation_function"
    settings = read_object(path) if path.is_file() else {}
    return [
        (
            "config.json",
            "activation_fn",
            saved.get("activation_fn") if isinstance(saved, dict) else None,
        ),
        ("config.json", old, config.get(old)),
        (SETTINGS, "activation_fn", settings.get("activation_fn")),
    ]
