"""Models with a vector for each token: what PyLate wrote, and settings of any value."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from headlight.spec import INPUT_ROLES, InputRole
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.multi_vector_folder import role_rules
from headlight_export.folders.origin import read_origin
from headlight_export.folders.sentence_folder import read_recipe
from headlight_export.folders.task import MULTI_VECTOR, PYLATE, STANFORD
from headlight_export.writer.bundle_writer import export_origin
from tests.export.folders.test_sentence_folder import json_values
from tests.factory import VOCABULARY, small_tokenizer
from tests.folders import chain, write

SETTINGS, TRANSFORMER = "config_sentence_transformers.json", "sentence_bert_config.json"
FILLED = {"strategy": "min", "attend": True, "length": 3, "token": "a"}
# Of each kind of folder: files, and keys of theirs; those of query_expansion are behind a dot.
KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    MULTI_VECTOR: {
        TRANSFORMER: (
            "query_length",
            "document_length",
            "query_expansion",
            *(f"query_expansion.{key}" for key in (*FILLED, "ab")),
        ),
        "2_MultiVectorMask/config.json": (
            "skiplist_words",
            "skiplist_tasks",
            "keep_only_token_ids",
            "ab",
        ),
        "3_Normalize/config.json": ("module_input_name", "module_output_name"),
    },
    PYLATE: {
        SETTINGS: (
            "query_prefix",
            "document_prefix",
            "query_length",
            "document_length",
            "do_query_expansion",
            "attend_to_expansion_tokens",
            "skiplist_words",
        )
    },
    STANFORD: {
        "artifact.metadata": (
            "query_token_id",
            "doc_token_id",
            "query_maxlen",
            "doc_maxlen",
            "mask_punctuation",
            "attend_to_mask_tokens",
            "similarity",
        )
    },
}


def test_vectors_and_scores_are_those_of_pylate(tmp_path: Path) -> None:
    """It wrote the folder and its vectors; see record_pylate.py."""
    folder = Path(__file__).parent / "pylate"
    with np.load(folder / "vectors.npz") as file:
        recorded = dict(file)
    texts = recorded.pop("texts").tolist()
    expected = {
        role: [rows for name, rows in recorded.items() if name.startswith(role)]
        for role in INPUT_ROLES
    }
    export_origin(read_origin(folder), tmp_path / "bundle")
    with Runtime(tmp_path / "bundle", threads=1) as runtime:
        ours = {
            role: runtime.encode_multi_vector(texts[: len(rows)], role=role, truncate="end")
            for role, rows in expected.items()
        }
    for role, vectors in ours.items():
        for mine, row in zip(vectors, expected[role], strict=True):
            assert mine.shape == row.shape
            np.testing.assert_allclose(mine, row, rtol=0, atol=1e-5)
    scores, reference = map(all_scores, (ours, expected))
    assert scores.size == 1000
    np.testing.assert_allclose(scores, reference, rtol=0, atol=1e-4)


def all_scores(vectors: Mapping[InputRole, Sequence[Floats]]) -> Floats:
    """Return the score of each query for each document."""
    return np.array(
        [[(q @ d.T).max(1).sum() for d in vectors["document"]] for q in vectors["query"]]
    )


def write_folder(folder: Path, kind: str) -> None:
    """Write the settings of a kind of folder."""
    modules = ["Transformer", "Dense", "MultiVectorMask", "Normalize"]
    chain(folder, *(modules[:2] if kind == PYLATE else modules))
    write(folder / SETTINGS, {} if kind == STANFORD else {"model_type": kind})
    write(folder / TRANSFORMER, {} if kind != MULTI_VECTOR else {"query_expansion": FILLED})
    write(folder / "2_MultiVectorMask/config.json", {})
    write(folder / "3_Normalize/config.json", {"module_input_name": "token_embeddings"})
    write(folder / "artifact.metadata", {"query_maxlen": 5, "doc_maxlen": 9})
    if kind == STANFORD:
        (folder / "modules.json").unlink()
        config = folder / "config.json"
        write(config, json.loads(config.read_text()) | {"architectures": [STANFORD]})


@settings(max_examples=200)
@given(data=st.data(), kind=st.sampled_from(sorted(KEYS)))
def test_any_setting_value_is_read_or_refused(data: st.DataObject, kind: str) -> None:
    file = data.draw(st.sampled_from(sorted(KEYS[kind])))
    key, value = data.draw(st.sampled_from(KEYS[kind][file])), data.draw(json_values)
    tokenizer = small_tokenizer()
    tokenizer.add_tokens(["[Q] ", "[D] ", "[unused0]", "[unused1]"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, kind)
        changed = json.loads((folder / file).read_text())
        place, _, inner = key.rpartition(".")
        (changed[place] if place else changed)[inner] = value
        write(folder / file, changed)
        try:
            recipe = read_recipe(folder)
            rules = role_rules(recipe.roles, folder, tokenizer.to_str(), 64, None)
        except Refused:
            return
    assert set(rules) == {"query", "document"}
    for role in rules.values():
        assert 0 <= role.expanded_length <= role.max_length <= 64
        assert (role.expansion is None) == (not role.expanded_length)
        ids = {role.marker or 0, role.expansion or 0, *role.skiplist}
        assert all(0 <= number < len(VOCABULARY) + 4 for number in ids)
