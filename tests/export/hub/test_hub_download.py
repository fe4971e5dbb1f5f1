"""Download from a Hub on loopback: what is fetched, resumed, and refused."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from headlight_export.command import main
from headlight_export.folders.model_folder import Refused
from headlight_export.hub.hub_download import download
from headlight_export.hub.hub_errors import HubUnavailable, explained
from tests.bert_folder import CONFIG
from tests.export.hub.hub_server import Hub, Repository

TINY, WEIGHTS = "org/tiny", "model.safetensors"
Change = Callable[[Repository, pytest.MonkeyPatch], object]


def configure(repository: Repository, **changes: object) -> None:
    path = repository.folder / "config.json"
    path.write_text(json.dumps(CONFIG | changes), encoding="utf-8")


def test_settings_and_weights_are_fetched_and_neither_pickles_nor_code(hub: Hub) -> None:
    folder = download(TINY, "main")
    tiny = hub.repositories[TINY]
    assert folder.name == tiny.commit
    assert {path.name for path in folder.iterdir()} == {"config.json", "vocab.txt", WEIGHTS}
    for path in folder.iterdir():
        assert path.read_bytes() == (tiny.folder / path.name).read_bytes()


def test_a_second_download_fetches_no_file(hub: Hub) -> None:
    folder = download(TINY, "main")
    sent = dict(hub.sent)
    assert download(TINY, "main") == folder
    assert hub.sent == sent


def test_weights_in_several_files_are_fetched_by_their_index(hub: Hub) -> None:
    folder = hub.repositories[TINY].folder
    names = [f"model-0000{part}-of-00002.safetensors" for part in (1, 2)]
    found = sorted(load_file(folder / WEIGHTS).items())
    (folder / WEIGHTS).unlink()
    placed: dict[str, str] = {}
    for name, part in zip(names, (found[::2], found[1::2]), strict=True):
        save_file(dict(part), folder / name)
        placed |= dict.fromkeys(dict(part), name)
    index = json.dumps({"weight_map": placed})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    (folder / "consolidated.safetensors").write_bytes(b"the same once more")
    (folder / "sparse_linear.safetensors").write_bytes(b"a head of BGE-M3")
    fetched = {path.name for path in download(TINY, "main").glob("*.safetensors")}
    assert fetched == {*names, "sparse_linear.safetensors"}


def test_modules_of_sentence_transformers_are_fetched(hub: Hub) -> None:
    folder = hub.repositories[TINY].folder
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "vocab.txt", WEIGHTS):
        (folder / name).rename(folder / "0_Transformer" / name)
    for name in ("1_Pooling", "2_Dense"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}", encoding="utf-8")
    (folder / "2_Dense" / WEIGHTS).write_bytes(b"dense")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}", encoding="utf-8")
    places = (("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"))
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": place} for place, kind in places
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    downloaded = download(TINY, "main", check=lambda _: None)  # no settings
    fetched = {
        str(path.relative_to(downloaded)) for path in downloaded.rglob("*") if path.is_file()
    }
    assert fetched == {
        "modules.json",
        *(f"0_Transformer/{name}" for name in ("config.json", "vocab.txt", WEIGHTS)),
        *("1_Pooling/config.json", "2_Dense/config.json", f"2_Dense/{WEIGHTS}"),
    }


def test_a_connection_that_breaks_off_is_resumed_where_it_was(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # the library's is 10 MB
    tiny = hub.repositories[TINY]
    tiny.cut_after, tiny.cuts = 10_000, 1
    whole = (tiny.folder / WEIGHTS).read_bytes()
    assert (download(TINY, "main") / WEIGHTS).read_bytes() == whole
    assert hub.sent[WEIGHTS] == len(whole)


def says(**changes: object) -> Change:
    """Change config.json."""
    return lambda tiny, _: configure(tiny, **changes)


def without_safetensors(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    (tiny.folder / WEIGHTS).unlink()


def private(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.token = "secret"


def gated(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.token, tiny.gated = "secret", True


def gated_for_this_token(tiny: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    gated(tiny, monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "of somebody else")


def other_revision(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.revisions = ("v1",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            says(model_type="albert"),
            "'albert' is not a supported family: its layers share weights; supported are bert, ",
        ),
        (
            says(model_type="own", auto_map={"AutoModel": "code.Model"}),
            "not a supported family, and the folder's code, code.Model, is never run; supported",
        ),
        (says(is_decoder=True), "is_decoder is True, which makes it causal"),
        (says(architectures=["BertForMaskedLM"]), "fills masks, .* export with --pooling mean or"),
        (
            says(model_type="qwen3", architectures=["Qwen3ForCausalLM"]),
            "Qwen3ForCausalLM is a decoder with a generation head .* --pooling last",
        ),
        (
            says(model_type="qwen3", architectures=["Qwen3Model"]),
            "the model is a decoder and the folder does not name a pooling; .* --pooling last",
        ),
        (
            says(model_type="roformer", architectures=["RoFormerForSequenceClassification"]),
            "heads are not read for roformer yet; .* --task embed",
        ),
        (
            says(model_type="xlm-roberta", lora_adaptations=["retrieval.query"]),
            "lora_adaptations is .*, adapters for each task",
        ),
        (
            says(model_type="nomic_bert", moe_every_n_layers=2),
            "moe_every_n_layers is 2, so that layers choose among experts",
        ),
        (without_safetensors, "only pytorch_model.bin, which is never read; name a revision"),
        (private, "there is no model org/tiny on the Hub, .* set HF_TOKEN if it is private"),
        (gated, "org/tiny is gated: accept its terms on its page, and set HF_TOKEN"),
        (gated_for_this_token, "org/tiny is gated: accept its terms"),
        (other_revision, "org/tiny has no revision main; give a branch, a tag or a commit"),
    ],
)
def test_a_model_that_cannot_be_exported_is_refused_before_its_weights_are_fetched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, change: Change, message: str
) -> None:
    change(hub.repositories[TINY], monkeypatch)
    with pytest.raises(Refused, match=message) as caught:
        download(TINY, "main")
    assert "\n" not in str(caught.value)
    assert WEIGHTS not in hub.sent


def test_a_precision_that_does_not_suit_the_family_is_refused_before_the_weights_are_fetched(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(hub.repositories[TINY], model_type="gemma3_text", num_key_value_heads=1)
    arguments = [TINY, "--out", str(tmp_path / "out"), "--pooling", "last"]
    assert main([*arguments, "--precision", "fp16"]) == 2
    assert (
        "export: --precision fp16 overflows: activations of gemma3_text" in capsys.readouterr().err
    )
    assert WEIGHTS not in hub.sent


def test_a_token_of_the_environment_opens_a_gated_model(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated(hub.repositories[TINY], monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert (download(TINY, "main") / WEIGHTS).is_file()


def limited(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.refusals, tiny.refusal = 100, 429


def broken(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.refusals, tiny.refusal = 100, 501


def offline(_: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def unreachable(_: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # discard: nobody listens


def always_cut(tiny: Repository, _: pytest.MonkeyPatch) -> None:
    tiny.cuts = 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (limited, r"the Hub refuses org/tiny for now \(429, too many requests\); try again later"),
        (broken, "the Hub answered 501 for org/tiny; try again later"),
        (offline, "HF_HUB_OFFLINE is set, and org/tiny is not in .*/cache; unset it"),
        (unreachable, "cannot download org/tiny from http://127.0.0.1:9 .*; check the network"),
        (always_cut, "cannot download org/tiny from .*; check the network and HF_ENDPOINT"),
    ],
)
def test_a_hub_that_fails_for_now_is_named_with_the_remedy(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, change: Change, message: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the library's own attempts
    change(hub.repositories[TINY], monkeypatch)
    with pytest.raises(HubUnavailable, match=message) as caught:
        download(TINY, "main")
    assert "\n" not in str(caught.value)


def test_without_the_hub_a_model_that_came_before_is_found(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = download(TINY, "main")
    offline(hub.repositories[TINY], monkeypatch)
    assert download(TINY, "main") == folder


def test_a_full_disk_is_named_with_the_remedy() -> None:
    with (
        pytest.raises(OSError, match=r"^the disk is full: org/tiny does not fit .* HF_HOME$"),
        explained(TINY, "main"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_bug_is_not_taken_for_a_network(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), explained(TINY, "main"):
        raise ZeroDivisionError
