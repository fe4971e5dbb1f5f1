"""Models with a vector for each token, compared with the libraries that wrote their folders."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from headlight.runtime.bundle.roles import RoleRules
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from tests.factory import VOCABULARY
from tests.families.multi_vectors import (
    FIXED,
    configure,
    write_multi_vector,
    write_pylate,
    write_stanford,
)

transformers.logging.set_verbosity_error()
PUNCTUATION = tuple(VOCABULARY.index(sign) for sign in string.punctuation)
MASK, UNKNOWN = VOCABULARY.index("[MASK]"), VOCABULARY.index("[UNK]")
QUERY, DOCUMENT = len(VOCABULARY), len(VOCABULARY) + 1  # PyLate's markers


def test_rules_have_the_ids_of_the_folders_tokenizer(tmp_path: Path) -> None:
    write_pylate(tmp_path, skiplist_words=[*string.punctuation, "€"], query_length=12)
    fills = RoleRules(max_length=12, marker=QUERY, filler=MASK, filled=12)
    skips = RoleRules(max_length=40, marker=DOCUMENT, skipped=(*PUNCTUATION, UNKNOWN))
    origin = read_origin(tmp_path / "model")
    assert origin.roles == {"query": fills, "document": skips}
    assert (origin.task, origin.encoder.config.max_length) == ("multi_vector", 40)


def test_a_word_that_is_no_token_skips_nothing_but_in_pylate(tmp_path: Path) -> None:
    words = [*string.punctuation, "€"]
    write_multi_vector(tmp_path, skipped=words, lengths={"document_length": 40})
    roles = read_origin(tmp_path / "model").roles
    assert roles["document"] == RoleRules(max_length=40, skipped=PUNCTUATION)
    assert roles["query"] == RoleRules(max_length=96)


def test_max_length_is_for_documents(tmp_path: Path) -> None:
    write_stanford(tmp_path)
    roles = read_origin(tmp_path / "model", max_length=64).roles
    assert {role: rules.max_length for role, rules in roles.items()} == {
        "query": 20,
        "document": 64,
    }
    with pytest.raises(Refused, match="--max-length is 19 tokens, and a query is filled up to 20"):
        read_origin(tmp_path / "model", max_length=19)


def test_a_folder_may_be_exported_for_pooled_vectors(tmp_path: Path) -> None:
    write_stanford(tmp_path)
    origin = read_origin(tmp_path / "model", pooling="cls")
    assert (origin.task, origin.roles, origin.encoder.config.multi_vector_head) == (
        "embed",
        {},
        None,
    )


def test_pylate_wrote_no_model_type_before(tmp_path: Path) -> None:
    write_pylate(tmp_path)
    file = tmp_path / "model" / "config_sentence_transformers.json"
    settings = json.loads(file.read_text())
    del settings["model_type"]
    file.write_text(json.dumps(settings))
    assert read_origin(tmp_path / "model").task == "multi_vector"


MASK_CONFIG = "3_MultiVectorMask/config.json"
SETTINGS, TRANSFORMER = "config_sentence_transformers.json", "sentence_bert_config.json"


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (MASK_CONFIG, {"keep_only_token_ids": [7]}, "'keep_only_token_ids' cannot be served"),
        (MASK_CONFIG, {"skiplist_tasks": ["passage"]}, "skiplist_tasks .* cannot be served"),
        (TRANSFORMER, {"query_expansion": FIXED | {"side": "left"}}, "query_expansion .* anew"),
        (TRANSFORMER, {"query_expansion": FIXED | {"length": 0}}, "length is 0; it must be"),
        (TRANSFORMER, {"query_expansion": FIXED | {"length": 97}}, "a query is filled up to 97"),
        (TRANSFORMER, {"query_expansion": FIXED | {"token": "[M]"}}, r"has no token \[M\]"),
        (TRANSFORMER, {"document_length": "40"}, "document_length is '40'"),
        ("tokenizer_config.json", {"padding_side": "left"}, "padding_side left"),
        ("1_Dense/config.json", {"module_input_name": "sentence_embedding"}, "only token_emb"),
        ("4_Normalize/config.json", {"module_input_name": None}, "'sentence_embedding' cannot"),
        (
            "1_Dense/config.json",
            {"activation_function": "torch.nn.modules.activation.Tanh"},
            "use_residual cannot be served with",
        ),
    ],
)
def test_what_would_change_vectors_is_refused(
    file: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_multi_vector(tmp_path, expansion=FIXED, residual=True)
    configure(tmp_path / "model" / file, **values)
    with pytest.raises(Refused, match=message):
        read_origin(tmp_path / "model")


def no_layer(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:1]))


def pickled(folder: Path) -> None:
    (folder / "1_Dense" / "model.safetensors").rename(folder / "1_Dense" / "pytorch_model.bin")


def pools_tokens(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    kind = "sentence_transformers.multi_vector_encoder.modules.HierarchicalTokenPooling"
    modules.append({"idx": 2, "name": "2", "path": "2_Pooling", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules))


def no_marker(folder: Path) -> None:
    configure(folder / SETTINGS, query_prefix="[Query] ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_layer, "chains Transformer; supported is Transformer, one Dense or more"),
        (pickled, r"pickled weights alone \(pytorch_model.bin\), which are never read; convert"),
        (pools_tokens, "HierarchicalTokenPooling cannot be served"),
        (no_marker, r"has no token \[Query\]"),
    ],
)
def test_a_pylate_folder_without_its_parts_is_refused(
    change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    write_pylate(tmp_path)
    change(tmp_path / "model")
    with pytest.raises(Refused, match=message):
        read_origin(tmp_path / "model")


def test_a_stanford_folder_without_its_parts_is_refused(tmp_path: Path) -> None:
    write_stanford(tmp_path)
    with pytest.raises(Refused, match="leave --ids-only out"):
        read_origin(tmp_path / "model", ids_only=True)
    (tmp_path / "model" / "artifact.metadata").unlink()
    with pytest.raises(Refused, match=r"artifact\.metadata is missing"):
        read_origin(tmp_path / "model")


def test_other_folders_have_no_such_vectors(tmp_path: Path) -> None:
    write_stanford(tmp_path)
    configure(tmp_path / "model" / "config.json", architectures=["BertModel"])
    with pytest.raises(Refused, match="--task multi_vector takes a folder of MultiVectorEncoder"):
        read_origin(tmp_path / "model", task="multi_vector")
