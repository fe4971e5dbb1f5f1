"""Candidate optimisations on a GPU, each beside the current way.

Output placement, CUDA graphs, memory growth, other graphs. Each is tried by itself: a failure is
reported with its error, and the others go on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.frame.rounds import Contestants
from bench.gpu.bare import Bare, Bound, batch
from bench.gpu.budget import Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.forms import FORMS
from bench.gpu.interleaved import Timing, in_one_line, interleave
from bench.gpu.parity import cosine
from bench.gpu.peers import reference
from bench.gpu.sizes import encoder_of
from bench.gpu.speed import PROMISING, log_normal
from headlight.runtime import Bundle
from headlight.runtime.engine.batches import pad, plan
from headlight_export.parity.reference import random_ids
from headlight_model.encoder import Encoder

SECTION = "experiments"
ARENAS = ("kSameAsRequested", "kNextPowerOfTwo")
GRAPH_SHAPES = ((1, 16), (1, 128), (8, 32), (32, 128))
GRAPH = {"enable_cuda_graph": "1"}
CAPTURING = 2  # runs, at least, before a graph is replayed
PASSES = 3  # over the mix, before memory is measured


class Lab:
    """One encoder's fp16 graph, and batches for it.

    A rehearsal uses fp32: a CPU only imitates fp16.
    """

    def __init__(self, bundle: Path, forms: Path, device: Device, tokens: int) -> None:
        self.device, self.tokens, self.forms = device, tokens, forms
        self.encoder: Encoder = encoder_of(bundle.name)
        self.precision = "fp16" if device.provider == "cuda" else "fp32"
        self.path = (
            bundle / Bundle(bundle).manifest.graph("embed", device.provider, self.precision).file
        )
        self.config = self.encoder.config

    def inputs(self, texts: int, length: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return a batch of one length, and memory for its vectors, on the device."""
        length = min(length, self.config.max_length, self.tokens)
        ids, mask = pad([random_ids(self.config, length, seed) for seed in range(texts)])
        return batch(self.device, ids, mask, self.config.pooled_dim)

    def outputs(self, deadline: Deadline) -> dict[str, Any]:
        """Compare vectors of every token bound to the host, or on the device and copied once."""
        session, (inputs, pooled) = (
            Bare(self.path, self.device),
            self.inputs(max(1, self.tokens // 512), 128),
        )
        shape = (*inputs["ids"].shape, self.config.dim)
        there = self._poisoned(shape)
        pageable, pinned = (
            torch.empty(shape),
            torch.empty(shape, pin_memory=self.device.provider == "cuda"),
        )
        bound = session.bind(inputs, {**pooled, "tokens": there})

        def copied(into: Tensor) -> None:
            session.run(bound)
            into.copy_(there, non_blocking=True)
            self.device.wait()

        def to_host(into: Tensor) -> Callable[[], None]:
            return functools.partial(
                session.run, session.bind(inputs, {**pooled, "tokens": into}, host=("tokens",))
            )

        timings = interleave(
            {
                "bound to the host": to_host(pageable),
                "bound to pinned memory of the host": to_host(pinned),
                "on the device, copied once into pinned memory": lambda: copied(pinned),
                "on the device, copied once into other memory": lambda: copied(pageable),
                "on the device, left there": lambda: session.run(bound),
            },
            deadline,
        )
        return {
            "about": f"vectors of tokens {list(shape)}, {there.nbytes / 1e6:.1f} MB",
            "times": _json(timings),
        }

    def graphs(self, deadline: Deadline) -> dict[str, Any]:
        """Replay warm shapes as CUDA graphs, a session for each: a graph's inputs stay in place."""
        contestants: Contestants = {}
        result: dict[str, Any] = {"times": {}, "cosines": {}}
        plain = Bare(self.path, self.device)
        for shape in (shape for shape in GRAPH_SHAPES if shape[0] * shape[1] <= self.tokens):
            name = f"{shape[0]} x {shape[1]}"
            (inputs, outputs), (_, others) = self.inputs(*shape), self.inputs(*shape)
            bound = plain.bind(inputs, outputs)
            contestants[f"{name}, as it is"] = functools.partial(plain.run, bound)
            try:
                plain.run(bound)
                replay, graph = self._replay(inputs, others)
                result["cosines"][f"{name}, CUDA graph"] = min(
                    map(cosine, graph.pooled(), bound.pooled())
                )
                contestants[f"{name}, CUDA graph"] = replay
            except Exception as error:  # a failed replay is a result
                result["times"][f"{name}, CUDA graph"] = {"error": in_one_line(error)}
        result["times"] |= _json(interleave(contestants, deadline))
        return result

    def _replay(
        self, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> tuple[Callable[[], None], Bound]:
        """Return a replay of a captured graph, and its outputs after one replay."""
        session = Bare(self.path, self.device, GRAPH)
        bound = session.bind(inputs, outputs)
        for _ in range(CAPTURING):
            session.run(bound)
        for value in outputs.values():
            value.fill_(float("nan"))  # so that the values read below come from the replay
        self.device.wait()
        session.run(bound)
        return functools.partial(session.run, bound), bound

    def arenas(self, deadline: Deadline) -> dict[str, Any]:
        """Run a ragged mix under each strategy: time of a pass, and the session's memory then."""
        lengths = log_normal(self.tokens, self.config.max_length)
        texts = [random_ids(self.config, n, seed) for seed, n in enumerate(lengths)]
        padded = [
            pad([texts[row] for row in rows])
            for rows in plan(lengths, squared=False, tokens=self.tokens)
        ]
        contestants: Contestants = {}
        memory: dict[str, int | None] = {}
        # Kernels are loaded on their first run, and stay: not in the memory of the first
        # contestant.
        thrown_away = Bare(self.path, self.device)
        thrown_away.run_all(
            [thrown_away.bind(*batch(self.device, *one, self.config.pooled_dim)) for one in padded]
        )
        del thrown_away
        for name in ARENAS:
            self.device.release()
            before = self.device.used()
            session = Bare(self.path, self.device, {"arena_extend_strategy": name})
            bound = [
                session.bind(*batch(self.device, ids, mask, self.config.pooled_dim))
                for ids, mask in padded
            ]
            contestants[name] = functools.partial(session.run_all, bound)
            for _ in range(PASSES):
                contestants[name]()
            after = self.device.used()
            memory[name] = None if before is None or after is None else after - before
        return {"times": _json(interleave(contestants, deadline)), "memory": memory}

    def written_otherwise(self, deadline: Deadline) -> dict[str, Any]:
        """Compare the bundle's graph with other forms, on batches of 512 (also without a mask)."""
        inputs, _ = self.inputs(max(1, self.tokens // 512), 512)
        exact = reference(self.encoder, self.device)
        with torch.inference_mode():
            expected = exact(inputs["ids"][:4]).pooled.cpu().numpy()
        del exact
        paths = {f"the bundle's, {self.precision}": self.path}
        paths |= {form.name: self.forms / form.file for form in FORMS}
        contestants: Contestants = {}
        result: dict[str, Any] = {"times": {}, "cosines": {}}
        for name, path in paths.items():
            try:
                session, bound = self._opened(path, inputs)
                session.run(bound)
                result["cosines"][name] = min(map(cosine, bound.pooled(), expected))
                contestants[name] = functools.partial(session.run, bound)
            except Exception as error:  # a failed run is a result
                result["times"][name] = {"error": in_one_line(error)}
        result["times"] |= _json(interleave(contestants, deadline))
        return {"about": f"batches of {list(inputs['ids'].shape)}"} | result

    def _opened(self, path: Path, inputs: dict[str, Tensor]) -> tuple[Bare, Bound]:
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there; `python -m bench.gpu prepare` writes it")
        session = Bare(path, self.device)
        return session, session.bind(
            inputs, {"pooled": self._poisoned((len(inputs["ids"]), self.config.pooled_dim))}
        )

    def _poisoned(self, shape: tuple[int, ...]) -> Tensor:
        """Return an output of NaN. Wait for it, as ONNX Runtime uses a stream of its own."""
        tensor = torch.full(shape, float("nan"), device=self.device.torch)
        self.device.wait()
        return tensor


def _json(timings: dict[str, Timing]) -> dict[str, Any]:
    return {name: one.to_json() for name, one in timings.items()}


def experiments(
    bundle: Path, forms: Path, device: Device, tokens: int, budget: Budget, deadline: Deadline
) -> dict[str, Any]:
    """Run all experiments; return their results by name."""
    lab = Lab(bundle, forms, device, tokens)
    todo = {
        "forms of the graph": lab.written_otherwise,
        "CUDA graphs": lab.graphs,
        "where outputs go": lab.outputs,
        "how memory grows": lab.arenas,
    }
    result: dict[str, Any] = {"encoder": bundle.name, "precision": lab.precision}
    for at, (name, experiment) in enumerate(todo.items()):
        if deadline.remaining < PROMISING:
            budget.skip(SECTION, name)
            continue
        device.release()
        try:
            result[name] = experiment(deadline.part(1 / (len(todo) - at)))
        except Exception as error:  # the others go on
            result[name] = {"error": in_one_line(error)}
    return result
