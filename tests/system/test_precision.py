"""A reduced precision, from the export command to the answers of the service."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import onnx
import pytest

from headlight import Client
from headlight.cli.result_output import info_text
from headlight.runtime import Runtime
from headlight_export.writer import fp32_parts
from tests.conftest import MakeBundle
from tests.system.processes import Service, exit_code

TEXTS = [f"{'some words of text '[: 3 + i % 16]}{i}" for i in range(30)]


@pytest.fixture(scope="module")
def exported(
    make_checkpoint: MakeBundle, make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """Return a bundle of fp32, fp16 and int8, and the exporter's output.

    Its graphs are those of make_bundle, because tracing takes seconds.
    """
    folder, out = tmp_path_factory.mktemp("precision"), io.StringIO()
    (folder / "texts").write_text("\n".join(TEXTS), encoding="utf-8")
    options = ["--precision", "fp16", "--precision", "int8", "--texts", str(folder / "texts")]
    checkpoint, traced = make_checkpoint("sinusoidal"), make_bundle("sinusoidal")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(fp32_parts, "trace", lambda _: onnx.load(traced / "attend.onnx"))
        command = ("export", str(checkpoint), "--out", str(folder / "bundle"), *options)
        assert exit_code(*command) == 0
    return folder / "bundle", out.getvalue()


def test_the_exporter_prints_the_quality_of_each_precision(exported: tuple[Path, str]) -> None:
    lines = exported[1].splitlines()
    [begin] = [
        i
        for i, line in enumerate(lines)
        if line.startswith("against fp32 on 30 texts: lines of texts")
    ]
    assert [line.split()[0] for line in lines[begin + 2 : begin + 5]] == ["fp32", "fp16", "int8"]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_every_answer_names_its_precision(exported: tuple[Path, str], precision: str) -> None:
    bundle, _ = exported
    exact = np.stack(
        [
            result.pooled
            for result in Runtime(bundle, threads=1).encode_items(TEXTS)
            if result.pooled is not None
        ]
    )
    with (
        Service(bundle, "--precision", precision, "--threads", "1") as service,
        Client(service.target) as client,
    ):
        vectors, attention, model = client.encode(TEXTS), client.attend(TEXTS[0]), client.model()
    assert {model.precision, attention.model.precision} == {precision}
    assert set(model.variants) == {
        ("cpu", "fp32"),
        ("cpu", "fp16"),
        ("cpu", "int8"),
        ("cuda", "fp16"),
        ("cuda", "fp32"),
        ("openvino", "bf16"),
        ("openvino", "fp32"),
    }
    assert precision in {row.precision for row in model.parity}
    [fp32, *others] = model.quality
    assert (fp32.precision, fp32.nearest_kept, fp32.count) == ("fp32", 1, 30)
    assert fp32.cosine_min == pytest.approx(1)
    assert {found.precision for found in others} == {"fp16", "int8"}
    assert f"cpu {precision}" in info_text(model).partition("Precisions beside fp32")[2]
    assert (vectors * exact).sum(-1).min() > 0.99
    np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
