"""Faults that an input or a GPU may cause.

A probe decides, results wait for it, and only the faulty item is refused.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.errors import DeviceFull, DeviceLost, EngineError, NotFinite
from headlight.outputs.maps.resolved_spec import whole
from headlight.outputs.vector_forms import VectorForm
from headlight.runtime import EncodeItem, Engine, Runtime, Selection
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.engine.batches import finite_rows
from headlight.runtime.values import Arrays
from headlight.spec import TokensSpec
from tests.headlight.runtime.on_cpu import OnCpu, items
from tests.headlight.runtime.providers.test_cuda_session import REFUSED

BAD = 89  # an id that makes a text overflow
Change = Callable[[Arrays, Arrays], None]  # of the outputs of a batch with these feeds


def overflow(feeds: Arrays, found: Arrays) -> None:
    """Make rows with BAD non-finite everywhere."""
    rows = (feeds["ids"] == BAD).any(axis=1)
    for values in found.values():
        if values.dtype == np.float32 and len(values) == len(rows):
            values[rows] = np.nan


def zero(feeds: Arrays, found: Arrays) -> None:
    """Make vectors with BAD zeros."""
    rows = (feeds["ids"] == BAD).any(axis=1)
    for name in {"pooled", "tokens"} & found.keys():
        found[name][rows] = 0


def refuse(feeds: Arrays, found: Arrays) -> None:
    if (feeds["ids"] == BAD).any():
        raise REFUSED[0]


def change(engine: Engine, how: Change) -> None:
    """Change the results of batches, on whichever provider."""
    for session in engine._sessions.values():
        inner = session.run

        @contextlib.contextmanager
        def run(
            names: Sequence[str],
            feeds: Arrays,
            buffers: Arrays,
            *,
            wide: bool = False,
            inner: Any = inner,
        ) -> Iterator[Arrays]:
            with inner(names, feeds, {}, wide=wide) as found:
                copies = {name: np.array(value) for name, value in found.items()}
                how(feeds, copies)
                for name, buffer in buffers.items():
                    buffer[...] = copies[name]
                yield copies

        session.run = run  # type: ignore[method-assign]  # of the one session


def texts(*first: int, **selection: Any) -> list[EncodeItem]:
    """Return texts of different lengths, each of one id."""
    return [
        EncodeItem(np.full(3 + at, id_), Selection(**selection)) for at, id_ in enumerate(first)
    ]


@pytest.fixture(params=["cuda", "cpu"])
def runtime(request: pytest.FixtureRequest, bundle_path: Path) -> Runtime:
    if request.param == "cuda":
        request.getfixturevalue("device")
    found = Runtime(bundle_path, provider=request.param, threads=1)
    found.check_golden()
    return found


@pytest.fixture
def on_gpu(device: type[OnCpu], bundle_path: Path) -> Runtime:
    # Batches are told apart by their lengths.
    opened = Runtime(bundle_path, provider="cuda", round_lengths=1)
    opened.check_golden()
    return opened


def assert_same(got: ItemResult | None, expected: ItemResult) -> None:
    assert got is not None
    assert got.keys() == expected.keys()
    for name, array in got.items():
        np.testing.assert_allclose(array, expected[name], atol=1e-5)


@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"tokens": True},
        {"vector": VectorForm(16, unit=True)},
        {"pooled": False, "tokens": TokensSpec(normalize=True)},
    ],
    ids=str,
)
def test_a_vector_of_zeros_is_refused_where_unit_length_is_due(
    selection: dict[str, Any], runtime: Runtime
) -> None:
    batch = texts(5, BAD, 7, **selection)
    change(runtime.engine, zero)
    with pytest.raises(NotFinite, match=r"^a vector of zeros has no unit length; see ") as caught:
        runtime.engine.run(batch)
    assert [at for at, each in enumerate(caught.value.results) if each is None] == [1]
    plain = texts(5, BAD, pooled=VectorForm(16, unit=False), tokens=True)  # as they are
    [_, found] = runtime.engine.run(plain)
    assert found.pooled is not None
    assert not found.pooled.any()


def test_zeros_in_the_entries_that_are_left_do_not_suspect_the_gpu(on_gpu: Runtime) -> None:
    """As after a ReLU."""

    def zero_first(feeds: Arrays, found: Arrays) -> None:
        found["pooled"][:, :4] = 0

    change(on_gpu.engine, zero_first)
    on_gpu.engine.run(texts(5))
    with pytest.raises(NotFinite, match="no unit length"):
        on_gpu.engine.run(texts(5, pooled=VectorForm(4)))
    on_gpu.engine.run(texts(5))  # it is not lost, though a probe would find it so


@pytest.mark.parametrize(
    "selection",
    [{}, {"tokens": True}, {"pooled": False, "attention": whole((0,), 3)}],
    ids=" ".join,
)
def test_an_overflowing_text_fails_alone_every_time(
    selection: dict[str, Any], runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    batch = texts(5, BAD, 7, BAD, 9, **selection)
    expected = runtime.engine.run(batch)
    change(runtime.engine, overflow)
    for _ in range(4):
        with pytest.raises(
            NotFinite,
            match=r"^a result is not finite; see error id [0-9a-f]{12} in the server's log$",
        ) as caught:
            runtime.engine.run(batch)
        got = caught.value.results
        assert [at for at, each in enumerate(got) if each is None] == [1, 3]
        for at in (0, 2, 4):
            assert_same(got[at], expected[at])
    with pytest.raises(NotFinite) as caught:  # alone
        runtime.engine.run(batch[1:2])
    assert list(caught.value.results) == [None]
    runtime.engine.run(texts(5))
    told = [record for record in caplog.records if getattr(record, "event", "") == "engine_failed"]
    manifest = runtime.bundle.manifest
    details = told[0].details  # type: ignore[attr-defined]  # an extra
    assert details.startswith("2 of 5 rows, role ")
    assert f"{manifest.name} {manifest.version} on {runtime.provider}/fp32" in details
    probes = [record for record in caplog.records if getattr(record, "event", "") == "engine_probe"]
    assert len(probes) == (5 if runtime.provider == "cuda" else 0)


def test_non_finite_padding_and_unrequested_outputs_are_ignored() -> None:
    pooled, tokens = np.zeros((4, 2), np.float32), np.zeros((4, 6, 2), np.float32)
    tokens[0, 3] = np.inf  # beyond its three tokens
    tokens[1, 0], tokens[2, 4], pooled[3] = np.nan, np.nan, np.nan
    batch = [*texts(1, tokens=True), *texts(1, 1, 1, tokens=True)[1:], *texts(1)]
    batch[1] = EncodeItem(batch[1].ids, Selection())
    assert finite_rows(batch, {"pooled": pooled, "tokens": tokens}).tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert finite_rows(batch, {"pooled": pooled}).tolist() == [True, True, True, False]


def test_non_finite_padding_is_ignored_once_the_probe_passes(on_gpu: Runtime) -> None:
    batch = [*texts(5, tokens=True), *texts(6, 7, tokens=True)[1:]]
    expected = on_gpu.engine.run(batch)

    def padding(feeds: Arrays, found: Arrays) -> None:
        if "tokens" in found:
            found["tokens"][feeds["mask"] == 0] = np.inf

    change(on_gpu.engine, padding)
    on_gpu.self_test.known = on_gpu.self_test.known[:1]  # unpadded
    for got, each in zip(on_gpu.engine.run(batch), expected, strict=True):
        assert_same(got, each)


def wrong(feeds: Arrays, found: Arrays) -> None:
    overflow(feeds, found)
    found["pooled"][:, 0] += 1


def none_finite(feeds: Arrays, found: Arrays) -> None:
    found["pooled"][0, 0] = np.inf


def full(feeds: Arrays, found: Arrays) -> None:
    overflow(feeds, found)
    if not (feeds["ids"] == BAD).any():
        raise MemoryError


def test_a_probe_without_memory_does_not_lose_the_gpu(on_gpu: Runtime) -> None:
    """Concurrent batches may use all memory.

    A text that triggered this could otherwise end replica after replica.
    """
    run = on_gpu.engine.run
    change(on_gpu.engine, full)
    with pytest.raises(NotFinite):
        run(texts(5, BAD))
    with pytest.raises(DeviceFull):
        run(texts(5))


@pytest.mark.parametrize("how", [wrong, none_finite])
def test_a_gpu_whose_probe_fails_is_lost(how: Change, on_gpu: Runtime) -> None:
    change(on_gpu.engine, how)
    with pytest.raises(
        DeviceLost, match=r"^a result is not finite; see error id [0-9a-f]{12} in the server's log$"
    ):
        on_gpu.engine.run(texts(5, BAD))
    with pytest.raises(DeviceLost):
        on_gpu.engine.run(texts(5))


def test_a_gpu_that_cannot_be_probed_is_lost(device: type[OnCpu], bundle_path: Path) -> None:
    engine = Runtime(bundle_path, provider="cuda").engine
    change(engine, overflow)
    with pytest.raises(DeviceLost):
        engine.run(texts(BAD))


def test_a_runtime_is_released_without_the_garbage_collector(bundle_path: Path) -> None:
    gc.disable()
    try:
        runtime = Runtime(bundle_path, threads=1)
        engine = weakref.ref(runtime.engine)
        del runtime
        assert engine() is None, (
            "its sessions would keep their memory, and on a GPU there is little"
        )
    finally:
        gc.enable()


def test_a_cuda_refusal_fails_only_its_batch(on_gpu: Runtime) -> None:
    change(on_gpu.engine, refuse)
    for _ in range(4):
        with pytest.raises(EngineError, match="the engine failed; see error id") as caught:
            on_gpu.engine.run(texts(5, BAD))
        assert not isinstance(caught.value, DeviceLost)
        on_gpu.engine.run(texts(5))


class Beside:
    """Batch that is computed while another is suspected, and returns during the probe."""

    def __init__(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runtime, self.faults = runtime, runtime.engine.faults
        self.computing, self.suspected, self.waits = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.batch: Future[list[ItemResult]] = Future()
        wait_for = self.faults._settled.wait_for

        def told(*arguments: Any) -> bool:
            self.waits.set()
            return bool(wait_for(*arguments))

        monkeypatch.setattr(self.faults._settled, "wait_for", told)
        change(runtime.engine, self._held)

    def _held(self, feeds: Arrays, found: Arrays) -> None:
        overflow(feeds, found)
        if feeds["ids"].shape[1] == 40:  # of no golden input
            self.computing.set()
            assert self.suspected.wait(30)

    def probe(self) -> None:
        self.suspected.set()
        assert self.waits.wait(30), "it was answered before the verdict"
        assert not self.batch.done()
        self.runtime.probe()


@pytest.mark.parametrize("right", [True, False])
def test_concurrent_batches_wait_for_the_probe(
    right: bool, on_gpu: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    beside = Beside(on_gpu, monkeypatch)
    expected = on_gpu.self_test.known

    def probe() -> None:
        if not right:
            on_gpu.self_test.known = tuple(
                one._replace(answers={name: value + 1 for name, value in one.answers.items()})
                for one in expected
            )
        beside.probe()

    on_gpu.engine.faults.probe = probe
    with ThreadPoolExecutor(1) as pool:
        beside.batch = pool.submit(on_gpu.engine.run, items(40))
        assert beside.computing.wait(30)
        with pytest.raises(NotFinite if right else DeviceLost):
            on_gpu.engine.run(texts(BAD))
        if right:
            assert len(beside.batch.result(30)) == 1
        else:
            with pytest.raises(DeviceLost):
                beside.batch.result(30)


def test_two_suspected_batches_do_not_wait_for_each_other(on_gpu: Runtime) -> None:
    both, probe = threading.Barrier(2), on_gpu.probe

    def computed_at_once(feeds: Arrays, found: Arrays) -> None:
        overflow(feeds, found)
        if (feeds["ids"] == BAD).any():
            both.wait(30)

    change(on_gpu.engine, computed_at_once)

    def together() -> None:
        both.wait(30)
        probe()

    on_gpu.engine.faults.probe = together
    with ThreadPoolExecutor(2) as pool:
        for batch in [pool.submit(on_gpu.engine.run, texts(BAD)) for _ in range(2)]:
            with pytest.raises(NotFinite):
                batch.result(30)


def test_a_probe_with_full_memory_is_reported_as_full_memory(on_gpu: Runtime) -> None:
    """The service runs it after failures that do not prove a lost device."""
    change(on_gpu.engine, full)
    with pytest.raises(DeviceFull):
        on_gpu.probe()
    change(on_gpu.engine, lambda feeds, found: None)
