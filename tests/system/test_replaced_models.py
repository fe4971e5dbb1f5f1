"""Models replaced without a restart: by SIGHUP, a changed source, and the admin service."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import pty
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import Client
from headlight.errors import NotFound
from headlight.pb import admin_pb2
from headlight.pb.admin_pb2_grpc import AdminServiceStub
from headlight.runtime.values import Floats
from tests.certificates import Authority
from tests.chaos.faults.replaced_models import swapped
from tests.clients.abandoned import until
from tests.ports import free_address
from tests.system.conftest import bundle_of
from tests.system.processes import Service, by_hand, exit_code
from tests.system.shelf import TEXTS, TOLERANCE, Shelf, vectors_of
from tests.tampering import scale_weights

TOKEN = "an-administrator-token"
STATUS = health_pb2.HealthCheckResponse


class Result(NamedTuple):
    """What a command line ended with."""

    returncode: int | str | None
    stdout: str
    stderr: str


@dataclasses.dataclass
class Replaced:
    """A service, the versions that it may serve, and the command line of its administrator."""

    shelf: Shelf
    expected: Mapping[str, Floats]
    service: Service
    address: str
    token_file: Path
    folder: Path

    def answers(self, model: str, version: str) -> None:
        """Check that a model answers with a version, and the vectors of that version."""
        with Client(self.service.target, model=model) as client:
            found = client.encode_with_info(TEXTS)
        assert found.model.version == version
        np.testing.assert_allclose(found.vectors, self.expected[version], atol=TOLERANCE)

    def reload(self, event: str) -> dict[str, Any]:
        self.service.process.send_signal(signal.SIGHUP)
        return self.service.wait_for(event)

    def admin(self, line: str) -> Result:
        """Run `headlight admin`, as a user types it, in this process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setenv("HEADLIGHT_ADMIN_ADDRESS", self.address)
            patch.setenv("HEADLIGHT_TOKEN_FILE", str(self.token_file))
            code = exit_code(*line.split()[1:])
        return Result(code, out.getvalue(), err.getvalue())

    def listed(self) -> dict[str, Any]:
        rows = json.loads(self.admin("headlight admin list --format json").stdout)["models"]
        return {each["name"]: each for each in rows}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def expected(shelf: Shelf) -> Mapping[str, Floats]:
    return vectors_of(shelf.versions)


@pytest.fixture
def replaced(shelf: Shelf, expected: Mapping[str, Floats], tmp_path: Path) -> Iterator[Replaced]:
    """A service of the link, with an admin service whose root has both versions."""
    shelf.show(shelf.versions[0])
    tokens, token_file = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(f"ops {TOKEN}\n", encoding="utf-8")
    token_file.write_text(TOKEN, encoding="utf-8")
    address = free_address()
    options = ("--admin-address", address, "--admin-tokens", str(tokens))
    root = ("--models-root", str(shelf.link.parent))
    with Service(f"--models={shelf.file()}", *options, *root) as service:
        yield Replaced(shelf, expected, service, address, token_file, tmp_path)


def test_swaps_under_callers_fail_no_call_and_mix_no_versions() -> None:
    """The long form: python -m tests.chaos --long --only F27."""
    assert swapped(times=0.75).problems == []


def corrupt(bundle: Path) -> None:
    (bundle / "embed.onnx").write_bytes(b"no graph")


def wrong(bundle: Path) -> None:
    scale_weights(bundle, 1.5)


def vanished(bundle: Path) -> None:
    (bundle / "weights.bin").unlink()


def wider(bundle: Path) -> None:
    shutil.rmtree(bundle)
    shutil.copytree(bundle_of("docs-rope"), bundle)


PROBLEMS: dict[Callable[[Path], None], str] = {
    corrupt: "embed.onnx",
    wrong: "golden",
    vanished: "weights.bin",
    wider: "its width of vectors is 256, that of search 64; serve it beside the other",
}


def test_a_version_that_cannot_be_served_takes_no_request(replaced: Replaced) -> None:
    for count, (harm, problem) in enumerate(PROBLEMS.items(), 1):
        bad = replaced.folder / harm.__name__
        shutil.copytree(replaced.shelf.versions[1], bad)
        harm(bad)
        replaced.shelf.show(bad)
        assert problem in replaced.reload("model_refused")["message"]
        replaced.answers("search", "v0.9")
        refused = 'headlight_model_loads_total{model="search",result="refused"}'
        assert replaced.service.counted(refused) == count
    assert problem in replaced.listed()["search"]["problem"]
    done = replaced.admin("headlight admin load search")
    assert (done.returncode, problem in done.stderr) == (2, True)

    replaced.shelf.show(replaced.shelf.versions[1])
    replaced.reload("model_loaded")
    replaced.answers("search", "v1.1")
    assert "problem" not in replaced.listed()["search"]


def test_a_changed_file_adds_renames_and_removes_models_in_one_reload(
    replaced: Replaced,
) -> None:
    old, new = replaced.shelf.versions
    file = replaced.shelf.file()
    entry = '[[model]]\nsource = "{}"\nname = "{}"\naliases = [{}]\n'
    try:
        file.write_text(entry.format(old, "search", '"stable"') + entry.format(new, "next", ""))
        replaced.reload("model_loaded")  # the source of search is the same version, elsewhere
        replaced.service.wait_for("model_loaded")
        # Aliases hold a moment after the last model of the file is loaded.
        until(lambda: "stable" in replaced.listed()["search"]["names"], "there is no alias")
        replaced.answers("stable", "v0.9")
        replaced.answers("next", "v1.1")

        file.write_text(entry.format(new, "next", '"stable", "search"'))
        replaced.reload("model_unloaded")
        for name in ("stable", "search", "next"):
            replaced.answers(name, "v1.1")
        assert replaced.service.counted('headlight_model_loads_total{model="next"') == 1

        file.write_text("[[model]]\n")
        assert "source is missing" in replaced.reload("model_refused")["message"]
        replaced.answers("search", "v1.1")
    finally:
        replaced.shelf.file()


def test_a_changed_source_is_seen_without_a_signal(
    shelf: Shelf, expected: Mapping[str, Floats], tmp_path: Path
) -> None:
    shelf.show(shelf.versions[0])
    with Service(f"--models={shelf.file()}", "--watch-models=0.1") as service:
        shelf.show(shelf.versions[1])
        service.wait_for("model_loaded")
        Replaced(shelf, expected, service, "", tmp_path, tmp_path).answers("search", "v1.1")


def test_an_administrator_loads_moves_an_alias_and_unloads(replaced: Replaced) -> None:
    done = replaced.admin("headlight admin load v1.1")
    assert done.returncode == 0, done.stderr
    assert "serving reverse-learned@v1.1, version v1.1" in done.stderr
    replaced.answers("reverse-learned@v1.1", "v1.1")
    replaced.answers("search", "v0.9")
    for model, version in (("search", "v0.9"), ("reverse-learned@v1.1", "v1.1")):
        assert replaced.admin(f"headlight admin alias stable {model}").returncode == 0
        replaced.answers("stable", version)
    assert replaced.admin("headlight admin unload search").returncode == 0
    for name in ("stable", "reverse-learned", ""):
        replaced.answers(name, "v1.1")
    with Client(replaced.service.target, model="search") as client, pytest.raises(NotFound):
        client.encode(TEXTS)
    refused = replaced.admin("headlight admin unload reverse-learned")
    assert (refused.returncode, "is the last model" in refused.stderr) == (2, True)
    assert replaced.admin("headlight admin load search").returncode == 0, "the file has it"
    replaced.answers("search", "v0.9")


def test_no_request_names_a_place_outside_the_root_or_lacks_a_token(replaced: Replaced) -> None:
    (replaced.shelf.link.parent / "escape").symlink_to(bundle_of("docs-rope"))
    with grpc.insecure_channel(replaced.address) as channel:
        stub = AdminServiceStub(channel)
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        for name in ("/etc", "../v1.1", "v1.1/../v0.9", "escape", "nobody", ""):
            with pytest.raises(grpc.RpcError) as refused:
                stub.LoadModel(admin_pb2.LoadModelRequest(name=name), metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND, name
        for token in ((), (("authorization", "Bearer another-token-of-nobody"),)):
            with pytest.raises(grpc.RpcError) as denied:
                stub.ListModels(admin_pb2.ListModelsRequest(), metadata=token)
            assert denied.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_watchers_learn_that_a_model_came_was_replaced_and_has_gone(
    replaced: Replaced,
) -> None:
    with grpc.insecure_channel(replaced.service.target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = {
            name: stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=60)
            for name in ("search", "search@v0.9", "search@v1.1")
        }
        first = {name: next(watch).status for name, watch in watches.items()}
        assert first == {
            "search": STATUS.SERVING,
            "search@v0.9": STATUS.SERVING,
            "search@v1.1": STATUS.SERVICE_UNKNOWN,
        }
        replaced.shelf.show(replaced.shelf.versions[1])
        replaced.reload("model_loaded")
        assert next(watches["search@v0.9"]).status == STATUS.SERVICE_UNKNOWN
        assert next(watches["search@v1.1"]).status == STATUS.SERVING
        assert replaced.admin("headlight admin load v0.9").returncode == 0
        assert replaced.admin("headlight admin unload search").returncode == 0
        assert next(watches["search"]).status == STATUS.SERVICE_UNKNOWN, "SERVING did not change"


def test_a_service_killed_in_the_middle_of_a_swap_starts_with_one_version(
    shelf: Shelf, expected: Mapping[str, Floats], tmp_path: Path
) -> None:
    shelf.show(shelf.versions[0])
    file = shelf.file()
    killed = Service(f"--models={file}")
    shelf.show(shelf.versions[1])
    killed.process.send_signal(signal.SIGHUP)
    killed.wait_for("reloading")
    killed.process.kill()
    killed.wait()
    assert killed.process.stderr is not None
    killed.process.stderr.close()
    with Service(f"--models={file}") as service:
        Replaced(shelf, expected, service, "", tmp_path, tmp_path).answers("search", "v1.1")


def test_the_end_of_its_terminal_ends_a_service() -> None:
    """A shell sends SIGHUP then, too."""
    terminal, end = pty.openpty()
    with by_hand(bundle=bundle_of("reverse-learned"), stderr=end) as (process, _, _):
        os.close(end)
        process.send_signal(signal.SIGHUP)
        seen = b""
        while b"looking for changed models" not in seen:
            seen += os.read(terminal, 1024)
        os.close(terminal)
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 0


def test_certificates_admit_administrators_without_tokens(
    shelf: Shelf, expected: Mapping[str, Floats], tmp_path: Path
) -> None:
    authority, address = Authority(tmp_path / "tls"), free_address()
    server, ops = authority.sign("server"), authority.sign("ops")
    files = {
        "--tls-cert": server.cert,
        "--tls-key": server.key,
        "--tls-client-ca": authority.cert,
    }
    options = [f"{option}={file}" for option, file in files.items()]
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    with Service(shelf.versions[0], f"--admin-address={address}", *options) as service:
        mine = Replaced(shelf, expected, service, address, tmp_path / "token", tmp_path)
        trusted = f"--tls-ca {authority.cert} --timeout 10"
        shown = f"--tls-cert {ops.cert} --tls-key {ops.key}"
        done = mine.admin(f"headlight admin list {trusted} {shown}")
        assert (done.returncode, "reverse-learned" in done.stdout) == (0, True), done.stderr
        assert mine.admin(f"headlight admin list {trusted}").returncode == 1
