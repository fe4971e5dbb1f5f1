"""Wrong uses of `headlight serve`: how each is made, and the line that names the remedy.

docs/troubleshooting.md has a row for each.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from tests.bert_folder import CONFIG, write_bert
from tests.export.hub.hub_server import Hub, Repository
from tests.tampering import scale_weights

TINY = "org/tiny"


@dataclasses.dataclass
class Scene:
    """The surroundings of one wrong use.

    Attributes:
        folder: of a small BERT.
        bundle: a copy that may be changed.
        hub: a Hub on loopback with that BERT as org/tiny.
        taken: a socket that listens.
    """

    folder: Path
    bundle: Path
    hub: Hub
    taken: socket.socket

    @classmethod
    def make(cls, place: Path, bundle: Path, hub: Hub, taken: socket.socket) -> Scene:
        folder = write_bert(place / "bert")
        hub.repositories[TINY] = Repository(folder)
        return cls(folder, Path(shutil.copytree(bundle, place / "bundle")), hub, taken)

    @property
    def repository(self) -> Repository:
        return self.hub.repositories[TINY]

    def configure(self, **changes: object) -> str:
        path = self.folder / "config.json"
        path.write_text(json.dumps(CONFIG | changes), encoding="utf-8")
        return str(self.folder)

    def without(self, name: str) -> str:
        (self.folder / name).unlink()
        return str(self.folder)

    def manifest(self, **changes: object) -> str:
        path = self.bundle / "manifest.json"
        told = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(told | changes), encoding="utf-8")
        return str(self.bundle)


@dataclasses.dataclass(frozen=True)
class WrongUse:
    """One wrong use.

    Attributes:
        arguments: makes it, and returns those of `headlight serve`.
        line: a regular expression for the one line that is said.
        variables: of the environment.
        check: with --check, which needs no port.
    """

    arguments: Callable[[Scene], list[str]]
    line: str
    code: int = 2
    variables: tuple[tuple[str, str], ...] = ()
    check: bool = True


def gated(scene: Scene) -> list[str]:
    scene.repository.token, scene.repository.gated = "secret", True
    return [TINY]


def pickled(scene: Scene) -> list[str]:
    (scene.folder / "model.safetensors").rename(scene.folder / "pytorch_model.bin")
    return [TINY]


def scaled(scene: Scene) -> list[str]:
    scale_weights(scene.bundle, 1.0005)
    return [str(scene.bundle)]


def altered(scene: Scene) -> list[str]:
    with (scene.bundle / "weights.bin").open("r+b") as file:
        file.write(b"\1")
    return [str(scene.bundle)]


def classifier(scene: Scene) -> list[str]:
    return [scene.configure(architectures=["BertForSequenceClassification"])]


WRONG_USES = {
    "a model that the Hub does not have": WrongUse(
        lambda _: ["org/none"], "there is no model org/none on the Hub, .*; correct the name"
    ),
    "a folder that is not there": WrongUse(
        lambda _: ["./modle"], r"'./modle' does not exist, .*; name a bundle, a model's folder, or"
    ),
    "a folder without a model": WrongUse(
        lambda scene: [str(scene.folder.parent)], "is neither a bundle .* nor a model's folder"
    ),
    "no network": WrongUse(
        lambda _: [TINY],
        "cannot download org/tiny from .*; check the network and HF_ENDPOINT",
        code=1,
        variables=(("HF_ENDPOINT", "http://127.0.0.1:9"),),
    ),
    "offline, and nothing in the cache": WrongUse(
        lambda _: [TINY],
        "HF_HUB_OFFLINE is set, and org/tiny is not in .*; unset it",
        code=1,
        variables=(("HF_HUB_OFFLINE", "1"),),
    ),
    "a gated model": WrongUse(gated, "org/tiny is gated: accept its terms .* set HF_TOKEN"),
    "an unknown revision": WrongUse(
        lambda _: [TINY, "--revision", "v9"], "org/tiny has no revision v9; give a branch, a tag"
    ),
    "a revision of a folder": WrongUse(
        lambda scene: [str(scene.folder), "--revision", "v9"], "--revision is for a Hub id"
    ),
    "no safetensors": WrongUse(
        pickled, "org/tiny has no model.safetensors, only pytorch_model.bin, which is never read"
    ),
    "a family that is not supported": WrongUse(
        lambda scene: [scene.configure(model_type="xlnet")],
        "'xlnet' is not a supported family: its positions are relative, .*; supported are bert, ",
    ),
    "a model whose head was not saved": WrongUse(
        classifier, "have no classifier.weight, .* with --task embed --pooling mean or cls"
    ),
    "quantized weights": WrongUse(
        lambda scene: [scene.configure(quantization_config={"quant_method": "awq"})],
        "quantized weights are not read; export the folder that they were made from",
    ),
    "a size that no model has": WrongUse(
        lambda scene: [scene.configure(num_hidden_layers=10**9)],
        "num_hidden_layers is 1000000000; at most 1024 is read",
    ),
    "a longer text than the model has positions for": WrongUse(
        lambda scene: [str(scene.folder), "--max-length", "4096"], "--max-length 4096 is more than"
    ),
    "a folder without a tokenizer": WrongUse(
        lambda scene: [scene.without("vocab.txt"), "--pooling", "mean"],
        r"has no tokenizer; save it there with tokenizer.save_pretrained",
    ),
    "options of an export for a bundle": WrongUse(
        lambda scene: [str(scene.bundle), "--pooling", "cls"],
        "is a bundle already; leave out --pooling",
    ),
    "two models": WrongUse(
        lambda scene: [TINY, "--bundle", str(scene.bundle)], "MODEL is .*; give one$"
    ),
    "a bundle of another format": WrongUse(
        lambda scene: [scene.manifest(format_version=99)], "format_version", code=3
    ),
    "an altered bundle": WrongUse(altered, "weights.bin", code=3),
    "other numbers than PyTorch's": WrongUse(
        scaled,
        r"golden pooled is off by .*; installed: onnxruntime \S+, .*; tested: onnxruntime >=",
        code=3,
    ),
    "a precision that the bundle lacks": WrongUse(
        lambda scene: [str(scene.bundle), "--precision", "int8"],
        "no embed graph for cpu/int8; the bundle has cpu/fp32",
        code=3,
    ),
    "a provider that is not installed": WrongUse(
        lambda scene: [str(scene.bundle), "--provider", "cuda"], "onnxruntime-gpu", code=3
    ),
    "a port in use": WrongUse(
        lambda scene: [
            *(str(scene.bundle), "--metrics", "127.0.0.1:0", "--api", "off"),
            *("--grpc", f"127.0.0.1:{scene.taken.getsockname()[1]}"),
        ],
        "--grpc .* is in use",
        code=1,
        check=False,
    ),
    "a misspelt option": WrongUse(lambda _: ["--gprc", "127.0.0.1:1"], "--gprc"),
    "a cache that cannot be written": WrongUse(
        lambda scene: [str(scene.folder)],
        "set HEADLIGHT_CACHE to a folder that can be written",
        variables=(("HEADLIGHT_CACHE", "/proc/none"),),
    ),
}
