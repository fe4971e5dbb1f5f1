"""Parallel trainings.

Each has a process and one thread of its own, so that its weights do not depend on the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tqdm import tqdm

from lab.experiments import causal, extrapolation, reversal, scaling, variants
from lab.plans import Training

EXPERIMENTS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (reversal, extrapolation, scaling, variants, causal)
}
Job = tuple[str, Training]  # name of the experiment, training
_steps: Any = None  # queue for finished steps, set in each worker process


def all_jobs(experiments: Sequence[str], seeds: range, *, quick: bool) -> list[Job]:
    """Return every training of some experiments.

    If `quick`, they are so short that they only show that the code runs.
    """
    jobs = [
        (name, training) for name in experiments for training in EXPERIMENTS[name].trainings(seeds)
    ]
    if not quick:
        return jobs
    return [
        (name, dataclasses.replace(training, steps=training.steps // 100, tested=512))
        for name, training in jobs
    ]


def comparisons() -> list[str]:
    """Return the names of all comparisons, in the order of the experiments."""
    jobs = all_jobs(list(EXPERIMENTS), range(1), quick=False)
    return list(dict.fromkeys(name for _, training in jobs for name in training.comparisons))


def run_all(
    jobs: Sequence[Job], checkpoints: Path, workers: int | None = None, *, again: bool = False
) -> dict[str, list[dict[str, object]]]:
    """Train and measure, with a progress bar on standard error.

    Args:
        jobs: the trainings.
        checkpoints: folder for their checkpoints.
        workers: processes; None: one for each core.
        again: see `training.trained`.

    Returns:
        The results of each experiment, in the order of the jobs, each with task, scheme, seed,
        theta and variant.
    """
    context = multiprocessing.get_context("spawn")
    steps = context.Queue()
    total = sum(planned(job) for job in jobs)
    results: dict[str, list[dict[str, object]]] = {name: [] for name, _ in jobs}
    count = workers or len(os.sched_getaffinity(0))
    with (
        ProcessPoolExecutor(count, context, initializer=_begin, initargs=(steps,)) as pool,
        tqdm(total=total, desc="lab", unit="step", smoothing=0.05, mininterval=2.0) as bar,
    ):
        futures = [pool.submit(_run, job, checkpoints, again) for job in jobs]
        for taken in _taken(steps, futures):
            bar.update(taken)
        for (name, training), future in zip(jobs, futures, strict=True):
            about = {
                "task": training.task,
                "scheme": training.scheme,
                "seed": training.seed,
                "theta": training.rope_theta,
                "variant": training.variant,
            }
            results[name].append(about | future.result())
    return results


def planned(job: Job) -> int:
    """Return how many steps a job takes."""
    name, training = job
    more = scaling.more_steps(training) * len(scaling.KINDS) if name == "scaling" else 0
    return training.steps + more


def _taken(steps: Any, futures: Sequence[Future[Any]]) -> Iterator[int]:
    """Yield the steps as they are reported, until all jobs are done.

    The first failure is raised at once, and jobs that have not begun are cancelled.
    """
    pending: set[Future[Any]] = set(futures)
    while pending:
        with contextlib.suppress(queue.Empty):
            yield steps.get(timeout=1)
        done, pending = wait(pending, timeout=0)
        for future in done:
            if future.exception() is not None:
                for other in pending:
                    other.cancel()
                future.result()


def _begin(steps: Any) -> None:
    global _steps  # noqa: PLW0603 # a pool's initialiser has no other place to keep it
    _steps = steps
    torch.set_num_threads(1)


REPORTED = 20  # steps per report


def _run(job: Job, checkpoints: Path, again: bool) -> dict[str, object]:
    name, training = job
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1
        if taken % REPORTED == 0:
            _steps.put(REPORTED)

    result: dict[str, object] = EXPERIMENTS[name].run(training, checkpoints, step, again=again)
    _steps.put(taken % REPORTED)
    return result
