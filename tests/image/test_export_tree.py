"""A model by its name, as in a pod of deploy/components/bundle-export.

The image variant `export` fills the volume from a Hub on loopback; the image of the service, which
has no exporter, serves from it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deploy.image.locked import IMAGE, canonical, read_lock, read_names, requirements_file
from headlight import Client
from headlight.runtime import Runtime
from tests.bert_folder import write_bert
from tests.export.hub.hub_server import Hub, Repository
from tests.image.conftest import USER, Tree
from tests.image.test_tree import TEXTS, installed

TINY, TOKEN = "org/tiny", "hf_of-a-secret"
CHECK = ("-m", "headlight", "serve", "--check")
ARGUMENTS = ("--revision", "v2", "--pooling", "mean", "--warm-up-lengths", "4")


@pytest.fixture
def pod() -> Iterator[Path]:
    """Return the folders of a pod, writable by its user: `volume`, `tmp`; and the Secret's."""
    with tempfile.TemporaryDirectory(prefix="headlight-pod-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each in ("volume", "tmp"):
            (folder / each).mkdir()
            shutil.chown(folder / each, USER, USER)
        (folder / "token").write_text(f"{TOKEN}\n", encoding="ascii")
        yield folder


def variables(pod: Path, **added: str) -> dict[str, str]:
    return {
        "HEADLIGHT_CACHE": str(pod / "volume"),
        "HF_HOME": str(pod / "tmp/hub"),
        "HF_TOKEN_PATH": str(pod / "token"),
        "TMPDIR": str(pod / "tmp"),
        **added,
    }


def served(tree: Tree, pod: Path, model: str, *options: str) -> np.ndarray:
    """Return vectors of the image of the service, which cannot write to the volume."""
    subprocess.run(["chmod", "-R", "a-w", pod / "volume"], check=True)
    with (
        tree.served(model, *options, environment=variables(pod)) as (target, _),
        Client(target) as client,
    ):
        return client.encode(TEXTS)


def test_a_model_by_name_is_exported_once_and_served_without_an_exporter(
    export_tree: Tree, tree: Tree, pod: Path
) -> None:
    """A gated one, by the token of a file; a second pod asks the Hub nothing."""
    hub = Hub()
    hub.repositories[TINY] = Repository(
        write_bert(pod / "tiny"), token=TOKEN, gated=True, revisions=("v2",)
    )
    with hub.running():
        for reaches_hub in (True, False):
            before = len(hub.requests)
            done = export_tree.end(
                *CHECK, TINY, *ARGUMENTS, environment=variables(pod, HF_ENDPOINT=hub.address)
            )
            assert done.returncode == 0, done.stderr
            assert (len(hub.requests) > before) == reaches_hub
    [bundle] = (pod / "volume").glob("*/bundle")
    expected = Runtime(bundle, threads=1, attend=False).encode(TEXTS)
    np.testing.assert_allclose(served(tree, pod, TINY, *ARGUMENTS), expected, atol=1e-6)
    # The options decide what is read: another revision was not exported.
    absent = tree.end(
        *CHECK, TINY, "--revision", "v3", "--pooling", "mean", environment=variables(pod)
    )
    assert absent.returncode == 2
    assert "exporting it needs torch" in absent.stderr


def test_a_file_of_the_volume_that_was_changed_is_refused(
    export_tree: Tree, tree: Tree, pod: Path
) -> None:
    """Also: a folder on the volume needs no Hub."""
    folder = write_bert(pod / "volume/minilm")
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    options = ("--pooling", "mean", "--warm-up-lengths", "4")
    offline = variables(pod, HF_HUB_OFFLINE="1")
    done = export_tree.end(*CHECK, str(folder), *options, environment=offline)
    assert done.returncode == 0, done.stderr
    assert served(tree, pod, str(folder), *options).shape[0] == len(TEXTS)
    [weights] = (pod / "volume").glob("*/bundle/weights*")
    weights.chmod(0o644)
    with weights.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read()
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    refused = tree.end(*CHECK, str(folder), *options, environment=variables(pod))
    assert refused.returncode == 3, refused.stderr


def test_the_export_image_holds_the_locked_packages_and_no_more(export_tree: Tree) -> None:
    pins = read_lock(requirements_file("export"))
    versions = {name: found.version for name, found in installed(export_tree).items()}
    assert set(versions) <= set(pins)
    assert versions["torch"] == f"{pins['torch'].version}+cpu"
    assert not {name for name in versions if name.startswith(("nvidia-", "cuda-", "triton"))}
    left_out = set(read_names(IMAGE / "excluded-export.txt")) - {"torch"}
    assert left_out & {canonical(name) for name in versions} == set()
