from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from headlight_service.core.scheduler.cpu_time import Stopwatch, cpu_seconds_of_workers
from tests.service.batching import Clock


def cpu_seconds(took: float, worked: float, *, before: int = 1, after: int = 1) -> float:
    """Return the CPU time of a batch with so many concurrent ones, itself included."""
    clock, processor = Clock(), Clock()
    watch = Stopwatch(clock, processor)
    begun = watch.begin(before)
    clock.now += took
    processor.now += worked
    return watch.cpu_seconds(begun, clock.now, after)


def test_cpu_time_is_the_elapsed_time_if_processors_were_free() -> None:
    assert cpu_seconds(2.0, 2.0) == cpu_seconds(2.0, 3.9) == 2.0


def test_waiting_for_a_processor_does_not_count_as_cpu_time() -> None:
    assert cpu_seconds(2.0, 0.5) == 0.5


def test_concurrent_batches_share_cpu_time() -> None:
    assert cpu_seconds(2.0, 2.0, before=2, after=2) == 1.0
    assert (
        cpu_seconds(2.0, 2.0, before=1, after=2) == cpu_seconds(2.0, 2.0, before=2, after=1) == 2.0
    ), "rather too much than too little"


def test_elapsed_time_is_used_for_devices_other_than_the_cpu() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    begun = watch.begin(1)
    clock.now += 3.0
    assert watch.cpu_seconds(begun, clock.now, 1) == 3.0


def burn(seconds: float) -> None:
    """Keep a processor busy so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_cpu_time_excludes_the_event_loop() -> None:
    with ThreadPoolExecutor(1) as other:
        begin = cpu_seconds_of_workers()
        other.submit(burn, 0.1).result()
        between = cpu_seconds_of_workers()
        burn(0.1)
        end = cpu_seconds_of_workers()
    assert between - begin >= 0.09
    assert end - between < 0.05


def test_a_computing_thread_counts_its_own_cpu_time_only() -> None:
    def measured() -> float:
        begin = cpu_seconds_of_workers()
        burn(0.1)
        return cpu_seconds_of_workers() - begin

    with ThreadPoolExecutor(1) as other:
        assert other.submit(measured).result() >= 0.09
        begin = other.submit(cpu_seconds_of_workers).result()
        burn(0.1)
        assert other.submit(cpu_seconds_of_workers).result() - begin < 0.05
