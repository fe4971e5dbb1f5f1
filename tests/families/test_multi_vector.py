"""Models with a vector for each token, compared with the libraries that wrote their folders."""

from __future__ import annotations

import functools
import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from sentence_transformers import MultiVectorEncoder

from headlight.runtime import Runtime
from headlight.runtime.bundle.roles import RoleRules
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin
from tests.factory import VOCABULARY
from tests.families.multi_vectors import (
    FIXED,
    TEXTS,
    configure,
    write_multi_vector,
    write_pylate,
    write_stanford,
)

transformers.logging.set_verbosity_error()
PUNCTUATION = tuple(VOCABULARY.index(sign) for sign in string.punctuation)
MASK, UNKNOWN = VOCABULARY.index("[MASK]"), VOCABULARY.index("[UNK]")
QUERY, DOCUMENT = len(VOCABULARY), len(VOCABULARY) + 1  # PyLate's markers


CASES: dict[str, dict[str, Any]] = {
    "a query has one length": {
        "expansion": FIXED,
        "lengths": {"document_length": 40},
        "prompts": {"query": "[Q] ", "document": "[D] "},
        "skipped": [*string.punctuation],
        "residual": True,
    },
    "tokens see what fills up": {
        "name": "modernbert",
        "expansion": {"strategy": "min", "attend": True, "token": "[SEP]", "length": 20},
        "lengths": {"query_length": 30},
        "prompts": {"query": "q: ", "document": "[unused1] a text: "},
        "skipped": [",", "!"],
        "skipping": ["query", "document"],
    },
    "a decoder": {"name": "qwen3", "expansion": FIXED | {"strategy": "min", "attend": False}},
}


@pytest.fixture(params=[*CASES, "stanford"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> MultiVectorEncoder:
    if request.param == "stanford":
        return write_stanford(tmp_path)
    return write_multi_vector(tmp_path, **CASES[request.param])


def test_vectors_and_scores_are_those_of_the_reference(
    theirs: MultiVectorEncoder, tmp_path: Path
) -> None:
    exported = export_origin(read_origin(tmp_path / "model"), tmp_path / "bundle")
    assert max(row.max_error for row in exported.rows if row.output == "multi_vector") <= 1e-5
    draw = np.random.default_rng(3)
    words = ["planet", "red,", "(a)", "of", "mars.", "gas?", "[Q] x"]
    texts = [*TEXTS, *(" ".join(draw.choice(words, size=1 + at % 9)) for at in range(32))]
    with Runtime(tmp_path / "bundle", threads=1) as runtime:
        encode = functools.partial(runtime.encode_multi_vector, truncate="end")
        ours = {
            "query": encode(texts[:25], role="query"),
            "document": encode(texts, role="document"),
        }
        [alone] = encode(texts[2], role="query")
    expected = {
        "query": theirs.encode_query(texts[:25], convert_to_numpy=True),
        "document": theirs.encode_document(texts, convert_to_numpy=True),
    }
    for role, vectors in ours.items():
        for mine, row in zip(vectors, expected[role], strict=True):
            assert mine.shape == row.shape
            np.testing.assert_allclose(mine, row, rtol=0, atol=1e-5)
    np.testing.assert_allclose(alone, ours["query"][2], rtol=0, atol=1e-5)
    scores = [[(q @ d.T).max(1).sum() for d in ours["document"]] for q in ours["query"]]
    reference = theirs.similarity(expected["query"], expected["document"]).numpy()
    assert reference.size == 1000
    np.testing.assert_allclose(scores, reference, rtol=0, atol=1e-4)


def test_rules_have_the_ids_of_the_folders_tokenizer(tmp_path: Path) -> None:
    write_pylate(tmp_path, skiplist_words=[*string.punctuation, "€"], query_length=12)
    fills = RoleRules(max_length=12, marker=QUERY, expansion=MASK, expanded_length=12)
    skips = RoleRules(max_length=40, marker=DOCUMENT, skiplist=(*PUNCTUATION, UNKNOWN))
    origin = read_origin(tmp_path / "model")
    assert origin.roles == {"query": fills, "document": skips}
    assert (origin.task, origin.encoder.config.max_length) == ("multi_vector", 40)


def test_a_word_that_is_no_token_skips_nothing_but_in_pylate(tmp_path: Path) -> None:
    words = [*string.punctuation, "€"]
    write_multi_vector(tmp_path, skipped=words, lengths={"document_length": 40})
    roles = read_origin(tmp_path / "model").roles
    assert roles["document"] == RoleRules(max_length=40, skiplist=PUNCTUATION)
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
