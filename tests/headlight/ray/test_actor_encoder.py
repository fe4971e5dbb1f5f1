"""Encoders of actors: services that fail, CPUs, threads, imports."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from headlight import Client
from headlight.errors import BundleError, InvalidInput, MixedWeights, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.ray import Embedder
from headlight.ray.actor_encoder import assigned_cpus
from headlight.runtime import Runtime
from tests.headlight.fake_model import DIM, OTHER_REF
from tests.headlight.fake_server import FakeServicer, Refusal, shed
from tests.headlight.ray.tables import TEXTS, Options, array, table
from tests.tampering import scale_weights


def test_requests_are_bulk_and_within_the_limit_of_the_service(
    servicer: FakeServicer, target: str
) -> None:
    Embedder(target=target)(table([*TEXTS] * 4))
    assert {request.priority for request in servicer.encoded} == {pb.PRIORITY_BULK}
    assert {len(request.inputs) for request in servicer.encoded} == {servicer.limits.max_items}


def test_a_model_with_another_digest_is_refused(target: str) -> None:
    Embedder(target=target, sha256="ab" * 32)
    with pytest.raises(
        InvalidInput, match=r"^sha256: the service serves fake 1 with the digest ab"
    ):
        Embedder(target=target, sha256="cd" * 32)


def test_weights_replaced_during_a_run_end_it(servicer: FakeServicer, target: str) -> None:
    embedder = Embedder(target=target)
    embedder(table([*TEXTS]))
    servicer.ref = lambda call: OTHER_REF
    with pytest.raises(MixedWeights, match="weights were replaced meanwhile"):
        embedder(table([*TEXTS]))


def test_a_worker_answers_only_with_numbers_of_pytorch(bundle_path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(bundle_path, bundle)
    scale_weights(bundle, 1.0005)
    with pytest.raises(BundleError, match=r"embed\.fused\.onnx: golden pooled is off by"):
        Embedder(bundle=str(bundle))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of the retry policy, which take no time."""
    found: list[float] = []
    monkeypatch.setattr("headlight.bulk.row_blocks.time.sleep", found.append)
    return found


def test_pushback_is_waited_for(
    servicer: FakeServicer, target: str, client: Client, pauses: list[float]
) -> None:
    """Longer than the client itself retries."""
    embedder = Embedder(target=target, at_once=1)
    servicer.refusals.extend([shed(1)] * 20)
    found = embedder(table([*TEXTS]))
    np.testing.assert_array_equal(array(found["embedding"]), client.encode(TEXTS))
    assert pauses


def test_a_service_that_stays_away_ends_the_batch_and_not_the_actor(
    servicer: FakeServicer, target: str, client: Client, pauses: list[float]
) -> None:
    embedder = Embedder(target=target, retry_for=0.0)
    away = Refusal(grpc.StatusCode.UNAVAILABLE, "draining")
    servicer.refusals.extend([away] * 200)
    with pytest.raises(Unavailable, match="draining"):
        embedder(table([*TEXTS]))
    servicer.refusals.clear()
    found = embedder(table([*TEXTS]))
    np.testing.assert_array_equal(array(found["embedding"]), client.encode(TEXTS))


def test_arguments_can_be_pickled_and_client_arguments_are_passed_on(target: str) -> None:
    options: Options = {"target": target, "client": {"timeout": 20, "token": "t"}, "tokens": True}
    found = Embedder(**pickle.loads(pickle.dumps(options)))(table(["one"]))
    assert found["embedding"].type == pa.list_(pa.float32(), DIM)
    with pytest.raises(TypeError, match="colour"):
        Embedder(target=target, client={"colour": 1})


def test_several_threads_may_call_one_embedder(bundle_path: Path, runtime: Runtime) -> None:
    embedder, found = Embedder(bundle_path), dict[int, pa.Table]()

    def call(number: int) -> None:
        found[number] = embedder(table([f"text {number}", "other"]))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        expected = runtime.encode([f"text {number}", "other"])
        np.testing.assert_allclose(array(found[number]["embedding"]), expected, atol=1e-6)


def fake_ray(actor: str | None, **resources: float) -> types.SimpleNamespace:
    context = types.SimpleNamespace(
        get_actor_id=lambda: actor, get_assigned_resources=lambda: resources
    )
    return types.SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: context)


@pytest.mark.parametrize(
    ("ray", "cpus"),
    [
        (None, 8),
        (fake_ray(None, CPU=2.0), 8),  # the driver
        (fake_ray("a", CPU=2.0), 2),
        (fake_ray("a", CPU=0.5), 1),
        (fake_ray("a", GPU=1.0), 1),
        (fake_ray("a", CPU=64.0), 8),
    ],
)
def test_an_actor_uses_its_cpus(monkeypatch: pytest.MonkeyPatch, ray: Any, cpus: int) -> None:
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert assigned_cpus(8) == cpus


@pytest.mark.parametrize(
    ("imported", "loaded"), [("headlight.ray", False), ("headlight.ray, headlight.runtime", True)]
)
def test_importing_it_loads_no_engine_and_no_ray(imported: str, loaded: bool) -> None:
    code = f"import sys, {imported}; print({{'ray', 'onnxruntime'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.strip() == ("{'onnxruntime'}" if loaded else "set()")


def test_a_missing_library_names_the_extra() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import headlight.ray"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50
    )
    assert "MissingExtra: headlight.ray needs pyarrow, which is not installed: " in done.stderr
    assert ".[ray]" in done.stderr
