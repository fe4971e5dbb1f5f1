import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.torch import load_file, save_file

from headlight.outputs.registry import MEASURED
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.values import Floats, Ids
from headlight_export import verify_command
from headlight_export.command import main
from headlight_export.parity import parity_report
from headlight_export.parity.parity_report import cases
from headlight_export.parity.reference import Reference
from headlight_export.writer import bundle_writer, fp32_parts
from headlight_export.writer.bundle_writer import ParityError, export_checkpoint
from headlight_export.writer.weight_file import share_weights
from headlight_model.encoder import Encoder
from tests.conftest import MakeBundle
from tests.factory import small_config


def test_the_embed_graph_has_no_output_or_node_of_attention(
    bundle_path: Path,
) -> None:
    embed, attend = (
        onnx.load(bundle_path / f"{role}.onnx", load_external_data=False)
        for role in ("embed", "attend")
    )
    assert [output.name for output in embed.graph.output] == ["pooled", "tokens"]
    assert len(embed.graph.node) < len(attend.graph.node)
    produced = {name for node in embed.graph.node for name in node.output}
    used = {name for node in embed.graph.node for name in node.input} | {"pooled", "tokens"}
    assert produced <= used


def test_graphs_share_one_copy_of_the_weights_and_hold_no_build_paths(
    bundle_path: Path,
) -> None:
    encoder_bytes = 4 * sum(p.numel() for p in Encoder(small_config()).parameters())
    # Page alignment included.
    assert (bundle_path / "weights.bin").stat().st_size < 2 * encoder_bytes
    for role in ("embed", "attend"):
        model = onnx.load(bundle_path / f"{role}.onnx", load_external_data=False)
        assert not any(node.metadata_props or node.doc_string for node in model.graph.node)


def test_equal_tensors_are_stored_once(tmp_path: Path) -> None:
    def model(value: float) -> onnx.ModelProto:
        tensor = onnx.numpy_helper.from_array(np.full(512, value, np.float32), "w")
        return onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], initializer=[tensor]))

    models = [model(1.0), model(1.0), model(2.0)]
    share_weights(models, tmp_path / "weights.bin")
    offsets = [
        {e.key: e.value for e in m.graph.initializer[0].external_data}["offset"] for m in models
    ]
    assert offsets == ["0", "0", "4096"]
    for m, name in zip(models, "abc", strict=True):
        onnx.save(m, tmp_path / name)
        loaded = onnx.load(tmp_path / name)
        assert onnx.numpy_helper.to_array(loaded.graph.initializer[0])[0] == (
            2.0 if name == "c" else 1.0
        )


def test_the_report_covers_all_cases_and_the_manifest_summarises_it(
    bundle_path: Path,
) -> None:
    rows = json.loads((bundle_path / "parity.json").read_text())["rows"]
    assert {row["output"] for row in rows} == set(MEASURED) - {"scores", "sparse", "multi_vector"}
    assert {1, 32, 64, 128} <= {n for row in rows for n in row["lengths"]}
    assert any(row["padding"] for row in rows)
    assert all(row["max_error"] <= row["tolerance"] for row in rows)
    for entry in Bundle(bundle_path).manifest.parity:
        assert entry.max_error == max(
            row["max_error"] for row in rows if row["output"] == entry.output
        )


def test_the_longest_accepted_text_is_tried() -> None:
    longest = [case for case in cases(small_config()) if case.name == "longest"]
    assert [case.lengths for case in longest] == [(160,)]


@pytest.mark.usefixtures("traced_before")
def test_a_graph_outside_the_tolerance_is_not_written(
    make_checkpoint: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: the reference, and so the graph's error, is off by a thousandth."""
    right = Reference.outputs

    def wrong(self: Reference, ids: Ids, *others: Any, **options: Any) -> dict[str, Floats]:
        outputs = right(self, ids, *others, **options)
        return outputs | {"pooled": outputs["pooled"] * np.float32(1.001)}

    monkeypatch.setattr(Reference, "outputs", wrong)
    with pytest.raises(ParityError, match="pooled is off by") as caught:
        export_checkpoint(make_checkpoint("rope"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert " !" in parity_report.table(caught.value.result.rows, caught.value.result.own_error)


def test_a_folder_that_is_no_bundle_is_never_overwritten(
    make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="exists and is not a bundle"):
        export_checkpoint(make_checkpoint("rope"), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_the_command_reports_errors_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("export: ")
    assert "is not a folder; give the folder" in line


def no_use(*_: Any) -> None:
    raise AssertionError("was begun, though it could have been known to be in vain")


@pytest.mark.parametrize(
    ("changes", "max_length", "message"),
    [
        (None, 160, "is not a tokenizer"),
        ({"[MASK]": 500}, 160, "has ids up to 500; the model knows"),
        ({}, 2, "puts 2 special tokens around a text, and the model takes 2; allow more"),
    ],
)
def test_an_unservable_tokenizer_is_reported_before_anything_is_computed(
    changes: dict[str, int] | None,
    max_length: int,
    message: str,
    make_checkpoint: MakeBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(make_checkpoint("rope"), tmp_path / "checkpoint"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= changes or {}
    (folder / "tokenizer.json").write_text("{}" if changes is None else json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text()) | {
        "max_length": max_length,
        "trained_length": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(bundle_writer, "Reference", no_use)
    assert main([str(folder), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"export: tokenizer.json: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("scaled", "problem"),
    [
        (["up"], r"numbers reach \d\.\de\+\d\d in blocks\.1\.feed_forward\.\w+"),
        (["up", "down"], r"blocks\.1\.feed_forward\.down gives numbers that are not finite"),
    ],
)
def test_overflowing_numbers_are_reported_before_tracing(
    scaled: list[str],
    problem: str,
    make_checkpoint: MakeBundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(make_checkpoint("rope"), tmp_path / "checkpoint"))
    tensors = {
        name: value.float() for name, value in load_file(folder / "model.safetensors").items()
    }
    for name in scaled:
        tensors[f"encoder.blocks.1.feed_forward.{name}.weight"] *= 1e30
    save_file(tensors, folder / "model.safetensors")
    monkeypatch.setattr(fp32_parts, "trace", no_use)
    assert main([str(folder), "--out", str(tmp_path / "out")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        rf"export: the model's results overflow float32: {problem}, and the largest weight is "
        r".*e\+\d\d, in blocks\.1\.feed_forward\.\w+\.weight; did the training diverge\? Export .*",
        line,
    )
    assert not (tmp_path / "out").exists()


def test_a_graph_whose_numbers_are_not_finite_is_not_written(
    make_checkpoint: MakeBundle,
    bundle_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def trace(_: object) -> onnx.ModelProto:
        model = onnx.load(bundle_path / "attend.onnx")
        [bias] = [t for t in model.graph.initializer if t.name == "encoder.final_norm.bias"]
        values = np.full(bias.dims, np.nan, np.float32)
        bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
        return model

    monkeypatch.setattr(fp32_parts, "trace", trace)
    model = str(make_checkpoint("rope"))
    problem = (
        "fp32 on cpu gives numbers that are not finite, or zeros (alone, 1), "
        "unlike PyTorch; installed: torch "
    )
    for command, arguments, effect in (
        (main, ["--out", str(tmp_path / "out")], "export: not written: "),
        (verify_command.main, ["--format", "json"], "verify: "),
    ):
        assert command([model, *arguments]) == 1
        out, err = capsys.readouterr()
        assert "tolerance" not in out
        assert "\ntolerance " in err
        assert err.splitlines()[-1].startswith(effect + problem)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("traced_before")
def test_a_checkpoint_without_a_tokenizer_becomes_a_bundle_that_takes_ids_alone(
    make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    shutil.copytree(make_checkpoint("rope"), tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "tokenizer.json").unlink()
    for _ in range(2):  # the second replaces the first, and leaves no other files
        export_checkpoint(
            tmp_path / "checkpoint", tmp_path / "bundle", name="ids-only", version="7"
        )
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint", "bundle"}
    runtime = Runtime(tmp_path / "bundle", threads=1)
    manifest = runtime.bundle.manifest
    assert (manifest.name, manifest.version, manifest.accepts) == ("ids-only", "7", ("ids",))
    assert runtime.tokenizer is None
    [result] = runtime.encode_items([[2, 9, 3]])
    assert result.pooled is not None
    assert abs(float(np.linalg.norm(result.pooled)) - 1) < 1e-6


def test_wrong_usage_names_what_may_have_been_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, says in (
        (("--precison", "int8"), "there is no option --precison (did you mean --precision?)"),
        (("--precision", "int9"), "--precision: is 'int9'; choose fp32, bf16, fp16 or int8 (did"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["folder", "--out", "x", *wrong])
        usage, error = capsys.readouterr().err.splitlines()
        assert (ended.value.code, usage) == (
            2,
            "usage: headlight export MODEL --out DIR [OPTION]...",
        )
        assert error.startswith(f"headlight export: {says}")
