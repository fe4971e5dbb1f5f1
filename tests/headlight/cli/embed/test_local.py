"""`headlight embed --local`: the same command without a service."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headlight.cli.commands import main
from headlight.runtime import Runtime
from tests.tampering import scale_weights

TEXTS = [f"text {number} of some" for number in range(600)]  # more than two blocks


def test_vectors_are_those_of_the_runtime(
    tmp_path: Path, bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "v.npz"
    texts.write_text("\n".join(TEXTS), encoding="utf-8")
    command = ["embed", "--file", str(texts), "--out", str(out), "--local", str(bundle_path)]
    assert main(command) == 0
    assert capsys.readouterr().err.startswith(f"headlight: wrote {out}: 600 vectors of 36, float32")
    with Runtime(bundle_path) as runtime, np.load(out) as archive:
        np.testing.assert_allclose(archive["embeddings"], runtime.encode(TEXTS), atol=1e-6, rtol=0)
        assert json.loads(str(archive["model"]))["bundle_sha256"] == runtime.model().bundle_sha256


@pytest.mark.parametrize("kind", ["text", "table"])
def test_nothing_is_written_with_other_numbers_than_pytorchs(
    kind: str, tmp_path: Path, bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(bundle_path, bundle)
    scale_weights(bundle, 1.0005)
    pq.write_table(pa.table({"body": TEXTS[:3]}), tmp_path / "in.parquet")
    (tmp_path / "in.txt").write_text("\n".join(TEXTS[:3]), encoding="utf-8")
    given, out = (
        (("--file", str(tmp_path / "in.txt")), tmp_path / "v.npz")
        if kind == "text"
        else ((str(tmp_path / "in.parquet"), "--text-column", "body"), tmp_path / "v.parquet")
    )
    assert main(["embed", *given, "--out", str(out), "--local", str(bundle)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("headlight: embed.fused.onnx: golden pooled is off by "), shown.err
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "in.parquet", "in.txt"}


def test_spans_need_no_service_either(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["embed", "one two. three four.", "--spans", "sentences", "--local", str(bundle_path)]
    assert main(command) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["start"], line["end"]) for line in lines] == [(0, 8), (9, 20)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--provider", "tpu"), "provider 'tpu' is not available; available are auto, cpu, openv"),
        (("--precision", "int4"), "int4"),
        (("--model", "docs-rope"), "--model: is of a connection, and --local makes none; leave o"),
        (("--token-file", "t"), "--token-file: is of a connection"),
    ],
)
def test_wrong_options_are_refused(
    bundle_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    code = main(["embed", "a", "--local", str(bundle_path), *options])
    out, err = capsys.readouterr()
    assert (code in {1, 2}, out, message in err, err.count("\n")) == (True, "", True, 1), err


def test_a_folder_that_is_no_bundle_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["embed", "a", "--local", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "manifest.json" in err


def test_precision_without_local_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", "a", "--precision", "int8"]) == 2
    assert "--precision: is for --local; a service has its own\n" in capsys.readouterr().err
