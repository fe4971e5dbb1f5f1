"""BGE-M3 in this process: dense, sparse and multi-vectors, compared with FlagEmbedding's formulas.

FlagEmbedding takes forty packages more than this environment has. `expected` restates what its
`BGEM3FlagModel` computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from headlight.runtime import Runtime
from headlight_export.folders import convert_bge_m3
from headlight_export.folders.bge_m3 import HEADS
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin
from tests.factory import VOCABULARY, small_tokenizer
from tests.families.scorers import LONGEST, scorer
from tests.families.sentences import SPECIAL

transformers.logging.set_verbosity_error()

# Ragged, with repeated tokens and an unknown one, and one of more tokens than the model takes.
TEXTS = ["a planet is red", "mars", "é green grass", "x y " * 30, "mars"]
VECTOR = 20  # numbers


class Vectors(NamedTuple):
    """Three forms of one text."""

    dense: Any
    sparse: dict[int, float]
    multi: Any


def write_bge_m3(folder: Path) -> Path:
    """Write a small random model as FlagEmbedding saves it: pickles alone."""
    model = scorer("roberta", "MaskedLM", 2, len(VOCABULARY), pad_token_id=0).base_model
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=small_tokenizer(),
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
        eos_token="[SEP]",
        **SPECIAL,
    ).save_pretrained(folder)
    torch.manual_seed(3)
    for name, width in zip(HEADS, (1, VECTOR), strict=True):
        torch.save(nn.Linear(model.config.hidden_size, width).state_dict(), folder / f"{name}.pt")
    return folder


def expected(folder: Path, texts: Sequence[str]) -> list[Vectors]:
    """Return the vectors of FlagEmbedding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    sparse, colbert = (torch.load(folder / f"{name}.pt", weights_only=True) for name in HEADS)
    roles = ("cls_token", "eos_token", "pad_token", "unk_token")
    unused = tokenizer.convert_tokens_to_ids([tokenizer.special_tokens_map[role] for role in roles])
    rows = []
    for text in texts:
        inputs = tokenizer([text], truncation=True, max_length=LONGEST, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state[0]
            weights = functional.linear(hidden, **sparse).relu()[:, 0].tolist()
            vectors = functional.linear(hidden[1:], **colbert)
        largest = dict[int, float]()
        for token, weight in zip(inputs["input_ids"][0].tolist(), weights, strict=True):
            if token not in unused and weight > largest.get(token, 0):
                largest[token] = weight
        dense, vectors = (functional.normalize(each, dim=-1) for each in (hidden[0], vectors))
        rows.append(Vectors(dense.numpy(), largest, vectors.numpy()))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, with safetensors beside the pickles."""
    folder = write_bge_m3(tmp_path_factory.mktemp("bge-m3"))
    assert convert_bge_m3.main([str(folder)]) == 0
    return folder


def test_the_three_vectors_are_those_of_the_reference(folder: Path, tmp_path: Path) -> None:
    exported = export_origin(read_origin(folder), tmp_path / "bundle", precisions=("int8",))
    heads = {"sparse", "multi_vector"}
    assert max(row.max_error for row in exported.rows if row.output in heads) <= 1e-5
    with Runtime(tmp_path / "bundle") as runtime:
        parity = runtime.bundle.manifest.parity
        [int8] = [each for each in parity if (each.output, each.precision) == ("sparse", "int8")]
        assert int8.max_error < 0.01  # 0.015 with the head of weights in int8, too
        model = runtime.model()
        dense = runtime.encode(TEXTS, truncate="end")
        sparse = runtime.encode_sparse(TEXTS, truncate="end")
        multi = runtime.encode_multi_vector(TEXTS, truncate="end")
        queries = runtime.encode_multi_vector(TEXTS, truncate="end", role="query")
        [short] = runtime.encode_sparse(TEXTS[0], top_k=2)
    assert model.task == "embed"
    assert {"pooled"} | heads <= {*model.outputs}
    for at, row in enumerate(expected(folder, TEXTS)):
        np.testing.assert_allclose(dense[at], row.dense, rtol=1e-5, atol=1e-6)
        assert sparse[at].indices.tolist() == sorted(row.sparse)
        weights = [row.sparse[term] for term in sorted(row.sparse)]
        np.testing.assert_allclose(sparse[at].values, weights, rtol=1e-5)
        for vectors in (multi[at], queries[at]):  # without that of the first token
            np.testing.assert_allclose(vectors, row.multi, rtol=1e-5, atol=1e-6)
    first = expected(folder, TEXTS[:1])[0].sparse
    assert set(short.indices) == set(sorted(first, key=first.__getitem__)[-2:])


def test_pickles_are_refused_with_the_name_of_the_converter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_bge_m3(tmp_path)
    with pytest.raises(Refused, match=r"sparse_linear\.pt.* `python -m .*convert_bge_m3 "):
        read_origin(folder)
    (folder / "sparse_linear.pt").write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")
    assert convert_bge_m3.main([str(folder)]) == 2
    assert "sparse_linear.pt is damaged or holds more than tensors" in capsys.readouterr().err
    torch.save([torch.ones(1)], folder / "sparse_linear.pt")
    assert convert_bge_m3.main([str(folder)]) == 2
    assert "does not hold tensors by name" in capsys.readouterr().err
    assert not [*folder.glob("sparse_linear.safetensors"), *folder.glob(".*")]


def test_heads_that_do_not_fit_are_refused_unless_dense_vectors_alone_are_exported(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with pytest.raises(Refused, match="leave --task sparse out, or export with --task embed"):
        read_origin(tmp_path, task="sparse")
    with pytest.raises(Refused, match="leave --ids-only out"):
        read_origin(tmp_path, ids_only=True)
    weight = torch.ones(2, 30)
    for tensors, message in (
        ({"weight": weight, "bias": torch.ones(2)}, r"a weight of \[2, 30\].* takes \[1, 30\]"),
        ({"weight": weight[:1, :9], "bias": torch.ones(1)}, r"takes \[1, 30\]"),
        ({"weight": weight}, r"expected weight \[n, width\] and bias"),
    ):
        save_file(tensors, tmp_path / "sparse_linear.safetensors")
        with pytest.raises(Refused, match=message):
            read_origin(tmp_path)
    (tmp_path / "sparse_linear.safetensors").unlink()
    (tmp_path / "sparse_linear.pt").unlink()
    with pytest.raises(Refused, match="sparse_linear is missing"):
        read_origin(tmp_path)
    assert [*read_origin(tmp_path, task="embed").encoder.heads] == []
