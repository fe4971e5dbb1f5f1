"""Two models in one process: added, replaced and removed, with real engines."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headlight.errors import NotFound, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from headlight_service.app.assembly import assemble, drop, limits
from headlight_service.app.executor import Executor
from headlight_service.app.model_versions import check_replaces
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config
from headlight_service.core.handle import Handle
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.request import Request
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.contract.answer_forms import UnaryForm
from headlight_service.frontends.contract.request_decoding import decode_outputs
from headlight_service.telemetry.metrics import Metrics
from tests.conftest import MakeBundle
from tests.service.batching import fitted
from tests.service.fakes import FakeRuntime, manifest

TEXTS = ["abc", "a longer text, of more tokens than the others", "def ghi"]
INFO, TOKENS = "headlight_model_info", "headlight_tokens_total"


class Gate:
    """Holds the batches of an engine while it is closed."""

    def __init__(self, runtime: Runtime) -> None:
        self.begun, self.opened = threading.Semaphore(0), threading.Event()
        self.opened.set()
        self._run = runtime.engine.run

    def run(self, *batch: Any, **options: Any) -> Any:
        self.begun.release()
        assert self.opened.wait(30)
        return self._run(*batch, **options)


class Process:
    """What one process has, without its doors. A model's name is its kind of positions."""

    def __init__(self, make_bundle: MakeBundle) -> None:
        self._make_bundle = make_bundle
        self.executor = Executor(Config(bundle=Path("b")), 2)
        self.models, self.metrics, self._tokenizers = Models(), Metrics(), TokenizerThreads(1)
        self.pipeline = Pipeline(self.models, self._tokenizers)
        self.gates = dict[str, Gate]()

    def load(self, kind: str, *names: str, streams: int = 2) -> ServedModel:
        """Return a model that takes no requests yet."""
        config = Config(bundle=self._make_bundle(kind), served_model_name=(*names, kind))
        runtime = Runtime(self._make_bundle(kind), provider="cpu", threads=1, streams=streams)
        self.gates[kind] = gate = Gate(runtime)
        runtime.engine.run = gate.run  # type: ignore[method-assign]
        return assemble(runtime, config, self.metrics, self.executor)

    def submit(self, model: str, *texts: str) -> Handle[Any]:
        form = UnaryForm(self.models.limits)
        return self.pipeline.submit(Request(list(texts or TEXTS), model=model), form)

    def embed(self, model: str) -> Floats:
        return vectors(self.submit(model))

    def close(self) -> None:
        for gate in self.gates.values():
            gate.opened.set()
        self.executor.close()
        self._tokenizers.close()
        self.pipeline.close()


@contextlib.contextmanager
def running(make_bundle: MakeBundle) -> Iterator[Process]:
    process = Process(make_bundle)
    try:
        yield process
        admission = process.executor.admission
        pools = (admission.requests, admission.tokens, admission.outputs)
        assert [pool.held for pool in pools] == [0, 0, 0]
        assert not any(sum(each.queued.values()) for each in admission.estimates)
    finally:
        process.close()


@pytest.fixture
def process(make_bundle: MakeBundle) -> Iterator[Process]:
    with running(make_bundle) as made:
        yield made


@pytest.fixture(scope="module")
def expected(make_bundle: MakeBundle) -> dict[str, Floats]:
    """The vectors of TEXTS by each model, without a service."""
    found = {}
    for kind in ("rope", "sinusoidal"):
        runtime = Runtime(make_bundle(kind), provider="cpu", threads=1, streams=1)
        found[kind] = runtime.encode(TEXTS)
        runtime.close()
    assert np.abs(found["rope"] - found["sinusoidal"]).max() > 1e-2
    return found


def vectors(handle: Handle[Any]) -> Floats:
    [found] = handle.result().pooled()
    handle.close()
    return np.asarray(found)


def test_each_request_is_answered_by_the_model_that_it_names(
    process: Process, expected: dict[str, Floats]
) -> None:
    for kind in ("rope", "sinusoidal"):
        process.models.add(process.load(kind))
    asked = ["rope", "sinusoidal"] * 20
    handles = [process.submit(name) for name in asked]
    for name, handle in zip(asked, handles, strict=True):
        np.testing.assert_allclose(vectors(handle), expected[name], atol=1e-6)
    counted = process.metrics.registry.get_sample_value
    for model in process.models.all:
        labels = {"model": model.ref.name, "priority": "interactive"}
        assert counted("headlight_texts_total", labels) == 20 * len(TEXTS)


def test_a_model_with_another_number_of_workers_is_refused(process: Process) -> None:
    process.load("rope")
    with pytest.raises(ConfigError, match=r"1 workers on cpu, .* have 2; give --streams"):
        process.load("sinusoidal", streams=1)
    assert [model.ref.name for model in process.executor.models] == ["small-rope"]


def test_a_request_ends_on_the_version_that_it_was_admitted_for(
    process: Process, expected: dict[str, Floats]
) -> None:
    old, new = process.load("rope", "search"), process.load("sinusoidal", "search")
    process.models.add(old)
    process.gates["rope"].opened.clear()
    admitted = list[Handle[Any]]()
    for _ in range(2):  # both slots compute
        admitted.append(process.submit("search"))
        assert process.gates["rope"].begun.acquire(timeout=30)
    admitted.append(process.submit("search"))  # is queued
    assert process.models.swap("search", new) is old
    later = [process.submit("search"), process.submit("")]
    with pytest.raises(NotFound):
        process.embed("rope")
    assert not old.gone.is_set()
    process.gates["rope"].opened.set()
    for handle in admitted:
        np.testing.assert_allclose(vectors(handle), expected["rope"], atol=1e-6)
    for handle in later:
        np.testing.assert_allclose(vectors(handle), expected["sinusoidal"], atol=1e-6)
    assert old.gone.wait(30)
    drop(old, process.metrics, process.executor)
    [info] = [each for each in process.metrics.registry.collect() if each.name == INFO]
    assert [each.labels["model"] for each in info.samples] == [new.ref.name]


def test_a_removed_model_gives_its_engine_up(process: Process) -> None:
    """No cache, lane, thread or metric refers to it any more."""
    process.models.add(process.load("rope"))
    process.models.add(process.load("sinusoidal"))
    removed = process.models.get("rope")
    for wanted in (pb.Outputs(), pb.Outputs(attention=pb.AttentionOutput())):
        request = Request(["abc"], decode_outputs(wanted, removed), model="rope")
        handle = process.pipeline.submit(request, UnaryForm(removed.limits))
        handle.result()
        handle.close()
    handle = process.submit("rope")
    vectors(handle)
    process.models.remove("rope")
    drop(removed, process.metrics, process.executor)
    del process.gates["rope"]
    left = [weakref.ref(each) for each in (removed, removed.runtime, removed.runtime.engine)]
    del removed, handle, request
    gc.collect()
    assert [ref() for ref in left] == [None] * 3
    families = process.metrics.registry.collect()
    named = {each.labels.get("model") for family in families for each in family.samples}
    assert named == {None, "small-sinusoidal"}, "its series have ended"
    assert process.models.get("").name == "sinusoidal", "the default one is the first of the others"
    process.embed("sinusoidal")


def test_an_engine_stays_while_it_computes_for_a_caller_that_left(process: Process) -> None:
    process.models.add(process.load("rope"))
    process.gates["rope"].opened.clear()
    handle = process.submit("rope")
    assert process.gates["rope"].begun.acquire(timeout=30)
    handle.cancel()
    old = process.models.remove("rope")
    assert old.bound == 0
    assert not old.gone.is_set()
    process.gates["rope"].opened.set()
    assert old.gone.wait(30)
    drop(old, process.metrics, process.executor)
    with pytest.raises(NotFound, match="no model is served here any more"):
        process.embed("rope")


def test_a_request_that_is_refused_binds_no_model(process: Process) -> None:
    process.models.add(process.load("rope"))
    model = process.models.get("rope")
    with pytest.raises(NotFound):
        process.embed("other")
    with pytest.raises(Exception, match="empty"):
        process.submit("rope", "").result()
    assert model.bound == 0


def test_a_name_that_two_models_have_is_of_the_first_and_both_have_name_at_version(
    process: Process, expected: dict[str, Floats]
) -> None:
    first, second = process.load("rope", "search"), process.load("sinusoidal", "search")
    process.models.add(first)
    process.models.add(second)
    its = f"search@{second.ref.version}"
    assert (first.name, second.name) == ("search", its)
    for name, kind in (
        ("search", "rope"),
        (f"search@{first.ref.version}", "rope"),
        (its, "sinusoidal"),
    ):
        np.testing.assert_allclose(process.embed(name), expected[kind], atol=1e-6)
    with pytest.raises(ValueError, match="search is a name of another model"):
        process.models.add(process.load("rope", "search"))
    assert process.models.all == (first, second)
    process.models.remove("search")
    assert process.models.get("search") is second
    with pytest.raises(ValueError, match="other is not named search"):
        process.models.swap("search", process.load("rope", "other"))
    assert not second.retired


def test_an_alias_moves_in_one_step_and_stays_with_the_next_version(
    process: Process, expected: dict[str, Floats]
) -> None:
    first, second = process.load("rope", "a", "stable"), process.load("sinusoidal", "b")
    process.models.add(first)
    process.models.add(second)
    assert process.models.get("stable") is first
    assert process.models.set_alias("stable", f"b@{second.ref.version}") is second
    np.testing.assert_allclose(process.embed("stable"), expected["sinusoidal"], atol=1e-6)
    newer = process.load("sinusoidal", "b")
    process.models.swap("b", newer)
    assert process.models.get("stable") is newer
    for own in ("a", first.ref.name, f"a@{first.ref.version}"):
        with pytest.raises(ValueError, match="is the name of a model"):
            process.models.set_alias(own, "b")
    with pytest.raises(NotFound):
        process.models.set_alias("stable", "nobody")
    process.models.remove("b")
    assert process.models.get("stable") is first, "as its entry says"


def test_models_are_renamed_and_removed_in_one_step(process: Process) -> None:
    first, second = process.load("rope", "a", "stable"), process.load("sinusoidal", "b")
    third = process.load("rope", "c")
    for each in (first, second, third):
        process.models.add(each)
    with pytest.raises(ValueError, match="is a name of another model"):
        process.models.arrange({first: ["a"], third: ["a"]}, first)
    assert process.models.get("stable") is first
    process.models.set_alias("canary", "a")
    assert process.models.arrange({second: ["b", "stable"], first: ["a"]}, second) == [third]
    assert process.models.get("canary") is first, "until it is moved again"
    assert process.models.all == (second, first)
    assert process.models.get("stable") is process.models.get() is second
    assert third.retired
    with pytest.raises(NotFound):
        process.models.get("c")


def test_a_request_keeps_the_version_that_it_was_decoded_for(
    process: Process, expected: dict[str, Floats]
) -> None:
    old, new = process.load("rope", "search"), process.load("sinusoidal", "search")
    process.models.add(old)
    process.gates["rope"].opened.clear()
    holding = process.submit("search")
    process.models.swap("search", new)
    late = process.submit(old.key)
    process.gates["rope"].opened.set()
    for handle in (holding, late):
        np.testing.assert_allclose(vectors(handle), expected["rope"], atol=1e-6)
    assert old.gone.wait(30)
    with pytest.raises(Unavailable, match="repeat the request"):
        process.embed(old.key)
    with pytest.raises(Unavailable, match="repeat the request"):
        process.embed(f"{new.key}0")  # of a version that nothing refers to any more
    np.testing.assert_allclose(process.embed(new.key), expected["sinusoidal"], atol=1e-6)


def test_the_largest_model_sets_the_limits_of_the_process() -> None:
    config = Config(bundle=Path("b"), max_queue_tokens=64, max_request_tokens=8)
    small, large = (limits(config, manifest(max_length=length)) for length in (16, 512))
    alone, both = fitted(config, small), fitted(config, small, large)
    assert (alone.tokens.limit, both.tokens.limit) == (64, 512)
    assert both.bulk.limit == 512
    assert both.outputs.limit >= alone.outputs.limit


def test_a_version_with_other_labels_takes_no_place() -> None:
    """Clients keep the labels, and would give them to other numbers."""
    config, runtimes = Config(bundle=Path("none")), dict[tuple[str, ...], Runtime]()
    for labels in (("good", "bad"), ("bad", "good")):
        runtimes[labels] = cast(Runtime, FakeRuntime(labels=labels))
    executor = Executor(config, 2)
    old = assemble(runtimes["good", "bad"], config, Metrics(), executor)
    executor.scheduler.close()
    check_replaces(old, runtimes["good", "bad"], old.names)
    with pytest.raises(ValueError, match="its list of labels is"):
        check_replaces(old, runtimes["bad", "good"], old.names)
