"""`headlight verify` beside transformers and sentence-transformers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import transformers
from huggingface_hub import constants

from headlight.runtime import Runtime
from headlight_export import verify_command
from headlight_export.folders.origin import read_origin
from headlight_export.parity import sentence_comparison
from headlight_export.parity.sentence_comparison import against_sentence_transformers, differences
from headlight_export.writer.bundle_writer import Exported, export_origin
from tests.export.hub.hub_server import Hub, Repository
from tests.families.decoders import TEXT, write_decoder
from tests.families.multi_vectors import write_stanford
from tests.families.scorers import write_scorer
from tests.families.sentences import PROMPTS, write_sentences, write_transformer
from tests.families.test_sparse import sparse_encoder

transformers.logging.set_verbosity_error()


def write(task: str, folder: Path) -> None:
    if task == "rerank":
        write_scorer(folder / "model", "bert", "SequenceClassification", 1)
    elif task == "sparse":
        sparse_encoder(folder, "distilbert", "max", "relu")
    else:
        write_stanford(folder)


@pytest.mark.parametrize(
    ("task", "output"),
    [("rerank", "scores"), ("sparse", "sparse"), ("multi_vector", "multi_vector")],
)
def test_answers_of_each_task_are_compared(task: str, output: str, tmp_path: Path) -> None:
    write(task, tmp_path)
    origin = read_origin(tmp_path / "model")
    exported = export_origin(origin, tmp_path / "bundle")
    with Runtime(tmp_path / "bundle", threads=1) as runtime:
        compared = against_sentence_transformers(origin, runtime)
    assert compared.why_not == ""
    assert compared.errors.keys() == {output}
    assert 0 < compared.errors[output] <= 1e-5
    assert differences(compared, exported.own_error) == []


def test_a_model_of_the_hub_is_compared_with_both_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sentences(tmp_path, dense=True, normalize=True, prompts=PROMPTS, default_prompt="query")
    card = "---\ntags:\n- sentences\nlicense: apache-2.0\n---\n# A model\n"
    (tmp_path / "model" / "README.md").write_text(card, encoding="utf-8")
    hub = Hub()
    hub.repositories["org/model"] = Repository(tmp_path / "model")
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    with hub.running():
        code = verify_command.main(["org/model", "--format", "json"])
    row = json.loads(capsys.readouterr().out)
    assert (code, row["problem"], row["not_compared"]) == (0, "", {})
    assert (row["family"], row["task"], row["licence"]) == ("bert", "embed", "apache-2.0")
    assert row["commit"] == hub.repositories["org/model"].commit
    assert "attention" in row["errors"]["transformers"]
    assert 0 < row["errors"]["sentence-transformers"]["pooled"] <= 1e-5


def test_only_a_failure_of_the_library_prevents_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_transformer(tmp_path / "model")
    origin = read_origin(tmp_path / "model", pooling="cls")
    export_origin(origin, tmp_path / "bundle")
    with Runtime(tmp_path / "bundle", threads=1) as runtime:
        monkeypatch.setattr(sentence_comparison, "POOLING", {})
        with pytest.raises(ValueError, match="not enough values"):
            against_sentence_transformers(origin, runtime)
        (tmp_path / "model" / "model.safetensors").unlink()
        compared = against_sentence_transformers(origin, runtime)
    assert compared.why_not.startswith("it cannot read the folder (OSError: ")


def test_scores_by_a_template_of_a_file_are_not_compared_with_plain_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"num_labels": 1, "pad_token_id": 0}
    write_decoder(tmp_path / "model", "Qwen2", "SequenceClassification", values=values)
    (template := tmp_path / "template.txt").write_text(TEXT, encoding="utf-8")
    assert verify_command.main([str(tmp_path / "model"), "--pair-template", str(template)]) == 0
    reason = "not compared with sentence-transformers: it does not read pairs by --pair-template"
    assert capsys.readouterr().out.splitlines()[-1] == reason


def test_a_difference_from_sentence_transformers_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library pools a folder without modules as it was requested, so only the bundle is off."""
    write_transformer(tmp_path / "model")
    original = export_origin

    def pooled_otherwise(origin, out, **options) -> Exported:  # type: ignore[no-untyped-def]
        other = read_origin(tmp_path / "model", pooling="max")
        return original(dataclasses.replace(origin, encoder=other.encoder), out, **options)

    monkeypatch.setattr(verify_command, "export_origin", pooled_otherwise)
    assert verify_command.main([str(tmp_path / "model"), "--pooling", "cls"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[2].startswith(f"| {tmp_path / 'model'} | bert | embed | pooled, ")
    assert "verify: pooled differs by" in err.splitlines()[-1]
    assert "from sentence-transformers" in err.splitlines()[-1]
