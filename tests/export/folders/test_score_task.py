"""Folders of models that score: their task, labels and activation, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import Origin, read_origin
from tests.bert_folder import CONFIG, tensors

DIM = CONFIG["hidden_size"]
TEXTS, TOKENS = "BertForSequenceClassification", "BertForTokenClassification"
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


def write(folder: Path, labels: int, *, head: bool = True, **config: Any) -> Path:
    """Write a BERT with a head for so many labels."""
    found = tensors()
    for name, rows in (("bert.pooler.dense", DIM), ("classifier", labels)) if head else ():
        found |= {f"{name}.weight": torch.ones(rows, DIM), f"{name}.bias": torch.ones(rows)}
    save_file(found, folder / "model.safetensors")
    values = {**CONFIG, "architectures": [TEXTS], **config}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def read(folder: Path, **options: Any) -> Origin:
    return read_origin(folder, ids_only=True, **options)


def names(count: int) -> dict[str, str]:
    return {str(at): f"L{at}" for at in range(count)}


@pytest.mark.parametrize(
    ("labels", "config", "expected"),
    [
        (1, {}, ("rerank", ("LABEL_0",), "sigmoid")),
        (1, {"id2label": names(1), "problem_type": "regression"}, ("rerank", ("L0",), "identity")),
        (1, {"problem_type": "single_label_classification"}, ("rerank", ("LABEL_0",), "sigmoid")),
        (2, {}, ("classify", ("LABEL_0", "LABEL_1"), "softmax")),
        (
            2,
            {"id2label": names(2), "problem_type": "multi_label_classification"},
            ("classify", ("L0", "L1"), "sigmoid"),
        ),
        (
            1,
            {"sentence_transformers": {"activation_fn": IDENTITY}, "problem_type": None},
            ("rerank", ("LABEL_0",), "identity"),
        ),
        (
            1,
            {
                "sentence_transformers": {"activation_fn": SIGMOID},
                "sbert_ce_default_activation_function": IDENTITY,
                "problem_type": "regression",
            },
            ("rerank", ("LABEL_0",), "sigmoid"),
        ),
        (
            1,
            {"sbert_ce_default_activation_function": IDENTITY},
            ("rerank", ("LABEL_0",), "identity"),
        ),
        (
            2,
            {"architectures": [TOKENS], "id2label": names(2), "problem_type": "regression"},
            ("classify", ("L0", "L1"), "softmax"),
        ),
    ],
)
def test_task_labels_and_activation_are_the_folders(
    labels: int, config: dict[str, Any], expected: tuple[Any, ...], tmp_path: Path
) -> None:
    origin = read(write(tmp_path, labels, **config))
    head = origin.encoder.config.score_head
    assert head is not None
    assert (origin.task, head.labels, head.activation) == expected
    assert head.each_token == (config.get("architectures") == [TOKENS])


def test_a_cross_encoders_own_settings_name_its_activation(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / "config_sentence_transformers.json").write_text(
        json.dumps({"model_type": "CrossEncoder", "activation_fn": IDENTITY})
    )
    head = read(tmp_path).encoder.config.score_head
    assert head is not None
    assert head.activation == "identity"


@pytest.mark.parametrize("options", [{"task": "embed"}, {"pooling": "mean"}])
def test_the_vectors_of_a_classifier_can_be_exported(
    options: dict[str, str], tmp_path: Path
) -> None:
    origin = read(write(tmp_path, 2), **options)
    assert (origin.task, origin.encoder.config.score_head) == ("embed", None)
    assert "gives classes: that head is left out" in origin.why
    assert origin.about.endswith("bert.pooler.dense, classifier, cls.predictions.transform.dense")


def test_the_task_may_be_chosen_where_the_folder_leaves_it_open(tmp_path: Path) -> None:
    write(tmp_path, 2, architectures=[TOKENS])
    with pytest.raises(Refused, match="choose --task embed or --task classify"):
        read(tmp_path)
    assert read(tmp_path, task="classify").encoder.config.score_head is not None
    assert read(tmp_path, task="embed").encoder.config.score_head is None


def test_a_lone_score_may_be_a_class(tmp_path: Path) -> None:
    assert read(write(tmp_path, 1), task="classify").task == "classify"


@pytest.mark.parametrize(
    ("labels", "config", "options", "message"),
    [
        (2, {"head": False}, {}, "the weights have no classifier.weight, so the model's"),
        (3, {"id2label": names(2)}, {}, "id2label has 2 names, and the model's head gives 3"),
        (1, {"id2label": {"0": "a\x1bb"}}, {}, "printable characters"),
        (1, {"id2label": {"1": "a"}}, {}, "id2label has 1 names"),
        (1, {"problem_type": "guess"}, {}, "problem_type is 'guess'; it must be one of"),
        (
            1,
            {"sbert_ce_default_activation_function": "torch.nn.modules.activation.Tanh"},
            {},
            "sbert_ce_default_activation_function is",
        ),
        (
            1,
            {"sentence_transformers": {"activation_fn": "evil.Sigmoid"}},
            {},
            "activation_fn is 'evil.Sigmoid'; served are torch's Identity, Sigmoid, Softmax",
        ),
        (2, {}, {"task": "rerank"}, "--task rerank takes a model with one score, and this has 2"),
        (2, {}, {"task": "rerank", "pooling": "cls"}, "leave one out"),
        (2, {"architectures": ["BertModel"]}, {"task": "rerank"}, "that ends with ForSequenceCl"),
        (2, {"architectures": [TOKENS]}, {"task": "rerank"}, "export with --task classify"),
        (2, {}, {"task": "translate"}, "--task translate is not known"),
    ],
)
def test_a_folder_that_cannot_score_as_asked_is_refused(
    labels: int,
    config: dict[str, Any],
    options: dict[str, str],
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(Refused) as caught:
        read(write(tmp_path, labels, **config), **options)
    assert message in str(caught.value)


def test_a_head_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 2)
    found = tensors() | {
        "bert.pooler.dense.weight": torch.ones(DIM, DIM + 1),
        "bert.pooler.dense.bias": torch.ones(DIM),
    }
    save_file(found, tmp_path / "model.safetensors")
    with pytest.raises(Refused, match=r"bert\.pooler\.dense\.weight has the shape"):
        read(tmp_path)
