from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from headlight_model.checkpoint import load_checkpoint, load_tensors
from headlight_model.train.__main__ import main
from headlight_model.train.loop import HEAD_PREFIX, Job, train
from headlight_model.train.objectives import MaskedTokenHead
from headlight_model.train.recipe import QUICK


@pytest.mark.usefixtures("small_library")
def test_the_command_line_trains_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["--positions", "sinusoidal", "--out", "small", "--quick", "--seed", "3", "--stage", "1"])
    assert json.loads((tmp_path / "small/training.json").read_text(encoding="utf-8"))[
        "steps"
    ] == QUICK.end(1)
    main(["--positions", "sinusoidal", "--out", "small", "--quick", "--seed", "3", "--resume"])
    out = tmp_path / "small"
    assert sorted(path.name for path in out.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "training.json",
    ]
    encoder = load_checkpoint(out)
    MaskedTokenHead(encoder.config, QUICK.guess_dim).load_state_dict(load_tensors(out, HEAD_PREFIX))
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == encoder.config.vocab_size
    assert torch.isfinite(
        encoder(torch.tensor([tokenizer.encode("def f(x): return x").ids])).pooled
    ).all()
    facts = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert (facts["seed"], facts["steps"], facts["recipe"]["dim"]) == (3, 6, 32)
    assert facts["validation"]["retrieval_candidates"] > 10
    assert (tmp_path / "build/train/small/state.safetensors").is_file()
    weights = (out / "model.safetensors").read_bytes()
    # Nothing left to do.
    main(["--positions", "sinusoidal", "--out", "small", "--quick", "--seed", "3", "--resume"])
    assert (out / "model.safetensors").read_bytes() == weights


@pytest.mark.usefixtures("small_library")
def test_the_figures_are_those_of_the_written_weights(tmp_path: Path) -> None:
    report = train(
        Job(positions="rope", out=tmp_path / "out", recipe=QUICK, state=tmp_path / "state")
    )
    assert report == json.loads((tmp_path / "out/training.json").read_text(encoding="utf-8"))


def test_a_seed_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"seed is -1; it must lie between 0 and 4294967295"):
        Job(positions="rope", out=tmp_path, recipe=QUICK, seed=-1)


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"stage is 3; it must lie between 0 and 2"):
        Job(positions="rope", out=tmp_path, recipe=QUICK, stage=3)


def test_an_unknown_scheme_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--positions", "spiral", "--out", "x"])
    assert "'spiral'" in capsys.readouterr().err
