"""Parity and speed on a GPU, beside PyTorch in the same run, in less than 8 minutes.

    python -m bench.gpu --prepare     # once: the bundles, below build/gpu
    python -m bench.gpu               # writes bench/results/gpu.json after each step, and gpu.md
    python -m bench.gpu --provider cpu [--prepare]   # a rehearsal in small, into build/gpu

It needs onnxruntime-gpu, PyTorch for CUDA, the packages of the service and of the export, and no
network. Bundles of random weights are large, and soon made on the machine itself. Each step is a
process of its own with a time limit. One that fails is reported, with what it measured until then,
and the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf.json_format import MessageToJson
from torch.nn import functional

import headlight_model.layers.attention as model_attention
from bench.attention_forms import attention_request, suited
from bench.encoder import random_encoder
from bench.frame.machine import flops, machine, revision
from bench.frame.processes import ANY_PORTS, ROOT, Service, serve
from bench.frame.report import command, publish, save, table
from bench.frame.rounds import Contestants, times
from bench.serving.load import attended, grpc_closed, http_closed, requests_of
from bench.serving.peak import best
from bench.serving.workloads import order, percentile, write_texts
from headlight.pb import headlight_pb2 as pb
from headlight.runtime import EncodeItem, Runtime, Selection, Tokenizer
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.engine.batches import pad, plan
from headlight.runtime.providers.cuda_session import (
    CPU,
    CUDA,
    Gpu,
    load_libraries,
    provider_options,
)
from headlight.runtime.providers.onnx_session import library as onnxruntime
from headlight.runtime.providers.onnx_session import session_options
from headlight.runtime.values import Floats, Ids
from headlight.spec import AttentionSpec
from headlight_model.checkpoint import load_checkpoint
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

Row = dict[str, Any]
CHECKPOINTS = Path("model/headlight_model/checkpoints")
TRAINED = "docs-rope"
SIZES = {"bert-base": (12, 12, 768), "minilm": (6, 12, 384), "tiny": (2, 2, 32)}
TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ENGINE, RECORDED = "engine", "engine, CUDA graphs"
PADDED, PACKED = "torch, SDPA and mask", "torch, flash without padding"
VECTORS = Selection()  # one object for all items, as in the service
PACKAGES = ("torch", "numpy", "grpcio")
LONGEST = 8192
SINGLES, LISTS = "singles", "lists"
# Names of a step's environment variable, and of its output, in ONNX Runtime's documentation.
KERNELS, CHOSEN = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO", "SdpaKernel="


@dataclasses.dataclass(frozen=True)
class Run:
    """Options of a run, and what follows from them."""

    provider: str
    gpu: int
    bundles: Path
    out: Path

    @property
    def small(self) -> bool:
        return self.provider == "cpu"

    @property
    def logs(self) -> Path:
        return self.bundles / "logs"

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("tiny",) if self.small else ("bert-base", "minilm")

    @property
    def served(self) -> str:
        return self.sizes[-1]

    @property
    def precision(self) -> str:
        """The precision that is timed."""
        return "fp32" if self.small else "fp16"

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.small else torch.device("cuda", self.gpu)

    @property
    def longest(self) -> int:
        """Tokens of a long text, of the models with random weights."""
        return 256 if self.small else LONGEST

    def runtime(self, name: str, precision: str | None = None, **options: Any) -> Runtime:
        chosen = precision or self.precision
        where = {"provider": self.provider, "gpu": Gpu(self.gpu), "streams": 1}
        return Runtime(self.bundles / name, precision=chosen, **where | options)  # type: ignore[arg-type]

    def wait(self) -> None:
        """Wait for the end of all work of the device."""
        if not self.small:
            torch.cuda.synchronize(self.gpu)

    def used(self) -> int:
        """Return the bytes of the device's memory in use, by anybody."""
        if self.small:
            return 0
        free, whole = torch.cuda.mem_get_info(self.gpu)
        return whole - free


# Models


def encoder_of(name: str, longest: int) -> Encoder:
    """Return an encoder in float32: the trained one, or a size with the same random weights."""
    if name not in SIZES:
        return load_checkpoint(CHECKPOINTS / name)
    layers, heads, dim = SIZES[name]
    config = EncoderConfig(
        vocab_size=30522,
        dim=dim,
        heads=heads,
        layers=layers,
        ffn_dim=4 * dim,
        positions="learned",
        norm="post",
        pooling="cls",
        trained_length=64,  # the export tries up to four times as many, with maps
        max_length=longest,
    )
    return random_encoder(config)


def prepare(run: Run) -> None:
    """Make the missing bundles."""
    from headlight_export.folders.origin import read_origin  # noqa: PLC0415 -- not everywhere
    from headlight_export.writer.bundle_writer import export_origin  # noqa: PLC0415

    if not (run.bundles / TRAINED / "manifest.json").is_file():
        origin = read_origin(CHECKPOINTS / TRAINED)
        export_origin(origin, run.bundles / TRAINED, precisions=("fp16", "bf16"))
    for name in run.sizes:
        if not (run.bundles / name / "manifest.json").is_file():
            write_random(run.bundles / name, encoder_of(name, run.longest))


def write_random(out: Path, encoder: Encoder) -> None:
    """Write the bundle of an encoder in fp32 and fp16, without the minutes of its measurement.

    The tolerance of fp16 is that of bf16, which rounds more.
    """
    from headlight.outputs.registry import FLOORS  # noqa: PLC0415
    from headlight_export.folders.origin import OURS, Origin  # noqa: PLC0415
    from headlight_export.folders.sentence_folder import Recipe  # noqa: PLC0415
    from headlight_export.parity.reference import Reference  # noqa: PLC0415
    from headlight_export.precision.graph_files import convertible, write_precision  # noqa: PLC0415
    from headlight_export.progress import silent  # noqa: PLC0415
    from headlight_export.writer.draft import put_in_place, save  # noqa: PLC0415
    from headlight_export.writer.fp32_parts import write_parts  # noqa: PLC0415

    config, folder = encoder.config, CHECKPOINTS / TRAINED
    recipe = Recipe(transformer=folder, pooling=config.pooling, normalize=config.normalize)
    tokenizer = (folder / "tokenizer.json").read_text(encoding="utf-8")
    origin = Origin(encoder, tokenizer, OURS, "", recipe)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as above:
        draft = Path(above) / "bundle"
        draft.mkdir()
        floors = dict.fromkeys(FLOORS, 0.0)
        manifest = write_parts(draft, origin, Reference(encoder), floors, silent)
        half = write_precision(draft, convertible(manifest.graphs), "fp16", encoder)
        [rounded] = [each for each in manifest.tolerances if each.precision == "bf16"]
        manifest = dataclasses.replace(
            manifest,
            name=out.name,
            version="random",
            graphs=(*manifest.graphs, *half),
            tolerances=(*manifest.tolerances, dataclasses.replace(rounded, precision="fp16")),
        )
        save(draft, manifest)
        put_in_place(out, draft)


class Torch:
    """PyTorch's contestants: the same weights, all in one precision."""

    def __init__(self, encoder: Encoder, run: Run) -> None:
        self._run = run
        self._encoder = encoder.to(run.device, TYPES[run.precision])

    def padded(self, texts: Sequence[Ids]) -> Floats:
        """Encode one batch by scaled_dot_product_attention; a batch of one length has no mask."""
        ids, mask = (torch.from_numpy(each).to(self._run.device) for each in pad(texts))
        equal = len({len(text) for text in texts}) == 1
        with torch.inference_mode(), attention_of(unmasked) if equal else contextlib.nullcontext():
            return self._on_host(self._encoder(ids, mask).pooled)

    def packed(self, texts: Sequence[Ids]) -> Floats:
        """Encode one batch without padding: all tokens in one row, attention by offsets."""
        lengths = list(map(len, texts))
        rows, at = [], 0
        while at < len(texts):  # as many as the model's longest text
            fits = np.cumsum(lengths[at:]) <= self._encoder.config.max_length
            rows.append(texts[at : at + int(fits.sum())])
            at += len(rows[-1])
        return np.concatenate([self._row(row) for row in rows])

    def _row(self, texts: Sequence[Ids]) -> Floats:
        device, lengths = self._run.device, list(map(len, texts))
        ids = torch.from_numpy(np.concatenate(texts)).to(device)
        positions = torch.from_numpy(np.concatenate([np.arange(n) for n in lengths])).to(device)
        ends = np.cumsum([0, *lengths])
        with torch.inference_mode(), attention_of(functools.partial(by_offsets, ends)):
            tokens = self._encoder(ids[None], positions=positions[None]).tokens[0]
            first = tokens[torch.from_numpy(ends[:-1]).to(device)][:, None]
            seen = torch.ones(first.shape[:2], dtype=torch.bool, device=device)
            return self._on_host(self._encoder.pool(first, seen))

    def _on_host(self, values: torch.Tensor) -> Floats:
        vectors: Floats = values.float().cpu().numpy()
        return vectors


@contextlib.contextmanager
def attention_of(attend: Callable[..., Any]) -> Iterator[None]:
    """Let the model compute attention by another function."""
    before = model_attention.attend
    model_attention.attend = attend
    try:
        yield
    finally:
        model_attention.attend = before


def unmasked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, fused: bool
) -> tuple[torch.Tensor, None]:
    return functional.scaled_dot_product_attention(query, key, value), None


def by_offsets(
    ends: np.ndarray,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: Any,
    fused: bool,
) -> tuple[torch.Tensor, None]:
    """Compute attention within the texts of a row: [1, H, T, d]."""
    if query.device.type == "cpu":  # which has no such kernel: text by text
        contexts = [
            functional.scaled_dot_product_attention(
                query[:, :, a:b], key[:, :, a:b], value[:, :, a:b]
            )
            for a, b in itertools.pairwise(ends)
        ]
        return torch.cat(contexts, dim=2), None
    from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 -- not in older releases

    offsets = torch.from_numpy(ends).to(query.device, torch.int32)
    longest = int(np.diff(ends).max())
    rows = (each[0].transpose(0, 1).contiguous() for each in (query, key, value))
    context = varlen_attn(*rows, offsets, offsets, longest, longest)  # type: ignore[call-arg, arg-type]
    assert isinstance(context, torch.Tensor)
    return context.transpose(0, 1)[None], None


# Texts


def random_texts(lengths: Sequence[int]) -> list[Ids]:
    rng = np.random.default_rng(0)
    return [rng.integers(5, 8000, size=n, dtype=np.int64) for n in lengths]


def read_texts(run: Run) -> tuple[list[str], list[Ids]]:
    """Return docstrings of Python's library, and their ids."""
    file, tokenizer = run.bundles / "texts.json", CHECKPOINTS / TRAINED / "tokenizer.json"
    write_texts(file, tokenizer, 48 if run.small else 1024)
    texts = json.loads(file.read_text(encoding="utf-8"))["texts"]
    reader = Tokenizer(tokenizer, 512)
    return texts, [reader.encode(text, with_info=False).ids for text in texts]


def pooled(results: Sequence[ItemResult]) -> Floats:
    return np.stack([each["pooled"] for each in results])


def cosines(a: Floats, b: Floats) -> float:
    """Return the least cosine of rows; -1 if one is not finite."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    values = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return float(values.min()) if np.isfinite(values).all() else -1.0


# Steps: each yields rows of one table.


def device(run: Run) -> Iterator[Row]:
    """The best matrix rate in each precision, of products as large as BERT-base's."""
    for precision, dtype in TYPES.items():
        rates = []
        for m, k, n in ((256, 256, 256),) if run.small else ((8192, 8192, 8192), (8192, 768, 3072)):
            a, b = (torch.randn(shape, device=run.device).to(dtype) for shape in ((m, k), (k, n)))

            def several(a: torch.Tensor = a, b: torch.Tensor = b) -> None:
                for _ in range(5):
                    a @ b
                run.wait()

            rates.append(5 * 2 * m * k * n / best(several, 0.02 if run.small else 1.0) / 1e12)
        yield {"precision": precision, "TFLOP/s": max(rates)}


def parity(run: Run) -> Iterator[Row]:
    """Every output against PyTorch in float32 on the CPU, as the export measures it."""
    from headlight_export.parity.parity_report import measure, summary  # noqa: PLC0415
    from headlight_export.parity.reference import Reference  # noqa: PLC0415

    reference = Reference(load_checkpoint(CHECKPOINTS / TRAINED))
    for precision in ("fp32", "fp16", "bf16"):
        try:
            runtime = run.runtime(TRAINED, precision, self_test=False)
            golden = words_of(runtime.check_golden)
            for worst in summary(measure(runtime, reference)):
                row = {"precision": precision, "output": worst.output}
                yield row | {
                    "largest error": worst.max_error,
                    "tolerance": worst.tolerance,
                    "passed": worst.max_error <= worst.tolerance,
                }
            yield {"precision": precision, "output": "golden gate", "passed": not golden} | (
                {"error": golden} if golden else {}
            )
        except Exception as error:  # a precision that fails is a finding
            yield {"precision": precision, "error": words(error)}


def invariance(run: Run) -> Iterator[Row]:
    """The vectors of texts alone, and in a batch that pads them."""
    texts = random_texts([1, 2, 7, 64, 65, 127, 200] if run.small else [1, 2, 7, 64, 127, 300, 512])
    for name in run.sizes:
        for precision in dict.fromkeys(("fp32", run.precision)):
            engine = run.runtime(name, precision, attend=False).engine
            items = [EncodeItem(ids, VECTORS) for ids in texts]
            together = pooled(engine.run(items))
            alone = pooled([engine.run([item])[0] for item in items])
            yield {
                "model": name,
                "precision": precision,
                "largest difference": float(np.abs(together - alone).max()),
                "least cosine": cosines(together, alone),
            }


def contestants(
    runtimes: Mapping[str, Runtime], peer: Torch, batches: Sequence[Sequence[Ids]]
) -> Contestants:
    """Return functions that encode batches, and give the vectors of all texts."""
    items = [[EncodeItem(ids, VECTORS) for ids in batch] for batch in batches]

    def run(runtime: Runtime) -> Floats:
        return pooled([each for batch in items for each in runtime.engine.run(batch)])

    engines: Contestants = {
        name: functools.partial(run, runtime) for name, runtime in runtimes.items()
    }
    return engines | {
        PADDED: lambda: np.concatenate([*map(peer.padded, batches)]),
        PACKED: lambda: np.concatenate([*map(peer.packed, batches)]),
    }


def speed(run: Run) -> Iterator[Row]:
    """The engine beside torch, which holds all of its values in the precision."""
    _, ragged = read_texts(run)
    budget = 256 if run.small else 16384  # tokens of a batch
    long, rounds = (32, 2) if run.small else (512, 15)
    shapes: dict[str, list[list[Ids]]] = {
        f"16 x {long}": [random_texts([long] * 16)],
        "ragged": [
            [ragged[row] for row in rows]
            for rows in plan([*map(len, ragged)], squared=False, tokens=budget)
        ],
        "one caller, 16 tokens": [random_texts([16])],
        "one caller, 128 tokens": [random_texts([128])],
    }
    for name in run.sizes:
        runtimes = {ENGINE: run.runtime(name, attend=False)}
        try:
            runtimes[RECORDED] = run.runtime(name, attend=False, gpu=Gpu(run.gpu, record=True))
        except Exception as error:  # the others go on
            yield {"model": name, "shape": RECORDED, "error": words(error)}
        peer = Torch(encoder_of(name, run.longest), run)
        for shape, batches in shapes.items():
            everyone = contestants(runtimes, peer, batches)
            lengths = [len(ids) for batch in batches for ids in batch]
            row: Row = {"model": name, "precision": run.precision, "shape": shape}
            row |= {"texts": len(lengths), "tokens": sum(lengths)}
            vectors = dict[str, Any]()
            for one in list(everyone):
                try:
                    vectors[one] = everyone[one]()
                except Exception as error:  # the others take part
                    row[f"{one}: error"] = words(error)
                    del everyone[one]
            taken = {one: statistics.median(ms) for one, ms in times(everyone, rounds, 3).items()}
            row |= {f"{one}, ms": ms for one, ms in taken.items()}
            if ENGINE in taken:
                work = sum(flops(runtimes[ENGINE].bundle.manifest, lengths))
                row["engine, tokens/s"] = 1000 * sum(lengths) / taken[ENGINE]
                row["engine, TFLOP/s"] = work / taken[ENGINE] / 1e9
                for one in set(taken) - {ENGINE}:
                    row[f"{one}: cosine"] = cosines(vectors[ENGINE], vectors[one])
            yield row


def kernels(run: Run) -> Iterator[Row]:
    """The kernels of attention, and the time of nodes, by provider and operator."""
    length = 32 if run.small else 512
    ids = np.stack(random_texts([length] * 16))
    for precision in dict.fromkeys(("fp32", run.precision)):
        manifest = run.runtime(run.served, precision, attend=False, self_test=False).bundle.manifest
        graph = manifest.graph("embed", run.provider, precision)
        with tempfile.TemporaryDirectory() as folder:
            options = session_options(0)
            options.enable_profiling, options.profile_file_prefix = True, f"{folder}/nodes"
            providers: list[Any] = [CPU]
            if not run.small:
                load_libraries()
                providers = [(CUDA, provider_options(Gpu(run.gpu))), CPU]
            path = run.bundles / run.served / graph.file
            with reported(Path(folder) / "said") as said:
                session = onnxruntime.InferenceSession(str(path), options, providers=providers)
                feeds = {"ids": ids, "mask": np.ones_like(ids), "pool_mask": np.ones_like(ids)}
                names = {each.name for each in session.get_inputs()}
                for _ in range(3):
                    session.run(["pooled"], {name: feeds[name] for name in names})
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
            chosen = [part.split()[0] for part in said.read_text().split(CHOSEN)[1:]]
        ms = collections.Counter[tuple[str, str]]()
        for event in events:
            if event.get("cat") == "Node" and "provider" in event["args"]:
                kind = event["args"]["provider"], event["args"]["op_name"]
                ms[kind] += event["dur"] / 1000 / 3
        yield {
            "precision": precision,
            "kernels of attention": collections.Counter(chosen) or "none reported",
        }
        for (provider, operator), spent in ms.most_common(8):
            yield {"precision": precision, "provider": provider, "operator": operator, "ms": spent}
        if not run.small:
            on_cpu = sorted({operator for provider, operator in ms if provider == CPU})
            yield {"precision": precision, "operators on the CPU": ", ".join(on_cpu) or "none"}


def served(run: Run) -> Iterator[Row]:
    """The service over loopback, with its clients in this process, by gRPC and HTTP."""
    texts, _ = read_texts(run)
    budget = str(512 if run.small else 16384)
    flags = ["--provider", run.provider, "--precision", run.precision, "--batch-tokens", budget]
    flags += ["--max-request-tokens", "1048576", "--max-queue-tokens", "1048576", *ANY_PORTS]
    flags += [] if run.small else ["--gpu-device", str(run.gpu)]
    calls, many = (2, 4) if run.small else (24, 64)
    pooling = run.runtime(run.served, self_test=False, attend=False).bundle.manifest.pooling
    forms = {
        "one row of all heads": AttentionSpec(reduce=("pooled_row",)),
        "8 largest of each row": AttentionSpec(top_k=8),
        "whole maps": AttentionSpec(),
    }
    cases = {
        SINGLES: (many, requests_of(texts, order(calls * many, len(texts), 1), 1)),
        LISTS: (8, requests_of(texts, order(calls * many * 4, len(texts), 2), 4 * many)),
    }
    for name, spec in forms.items():
        outputs = attention_request(suited(spec, pooling), [1]).outputs
        requests = requests_of(texts, order(calls * 8, len(texts), 3), 8)
        for request in requests:
            request.outputs.CopyFrom(outputs)
        cases[name] = (4, requests)
    service = Service(serve(run.bundles / run.served, *flags), run.logs / "service.log", 60)
    try:
        for name, (callers, requests) in cases.items():
            for door in ("grpc", "api"):
                row: Row = {"requests": name, "over": {"grpc": "gRPC", "api": "HTTP"}[door]}
                try:
                    send = functools.partial(ask, service.address(door), door, requests, callers)
                    send()  # the first is not counted
                    taken = send()
                    count = sum(len(each.inputs) for each in requests)
                    row |= {
                        "callers": callers,
                        "texts/s": count / taken["seconds"],
                        "p50, ms": percentile(taken["latencies"], 50),
                        "p99, ms": percentile(taken["latencies"], 99),
                        "CPU of this process": taken["cpu"] / taken["seconds"],
                    }
                except Exception as error:  # the other requests go on
                    row["error"] = words(error)
                yield row
    finally:
        service.close()


def ask(target: str, door: str, requests: Sequence[pb.EncodeRequest], callers: int) -> Row:
    """Send the requests in a closed loop, and return the cost."""
    if door == "api":
        bodies = [
            MessageToJson(each, preserving_proto_field_name=True).encode() for each in requests
        ]
        return asyncio.run(http_closed(target, bodies, callers, "/v1/encode"))
    if not requests[0].outputs.HasField("attention"):
        bodies = [each.SerializeToString() for each in requests]
        return asyncio.run(grpc_closed(target, bodies, callers))
    frames = [pb.EncodeStreamRequest(id="1", encode=each) for each in requests]
    return asyncio.run(attended(target, [each.SerializeToString() for each in frames], callers))


def device_error(run: Run) -> Iterator[Row]:
    """An error of the device that lasts: nothing is answered after it."""
    engine = run.runtime(run.served, attend=False).engine
    items = [EncodeItem(ids, VECTORS) for ids in random_texts([16, 5])]
    engine.run(items)
    if run.small:  # no device to break: an exception as ONNX Runtime raises it
        engine.faults.gpu = True
        session: Any = engine._sessions["embed"]

        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("CUDA failure 710: device-side assert triggered")

        working, session.run = session.run, fail
    else:
        with contextlib.suppress(RuntimeError):
            torch.ones(4, device=run.device)[torch.full((1,), 1 << 20, device=run.device)]
            run.wait()
    for after in ("the error", "that, once the session works again" if run.small else "that"):
        begun, raised = time.perf_counter(), words_of(lambda: engine.run(items))
        ms = 1000 * (time.perf_counter() - begun)
        yield {"batch after": after, "raised": raised, "ms": ms}
        if run.small:
            session.run = working


def long_texts(run: Run) -> Iterator[Row]:
    """Texts as long as the models with random weights take."""
    for name in run.sizes:
        runtime = run.runtime(name, attend=False, self_test=False)
        peer = Torch(encoder_of(name, run.longest), run)
        heads = runtime.bundle.manifest.architecture.heads
        for count in (1, 4):
            everyone = contestants({ENGINE: runtime}, peer, [random_texts([run.longest] * count)])
            before = run.used()
            got: Any = everyone[ENGINE]()
            more = run.used() - before
            beside: Any = everyone[PACKED]()
            taken = times(
                {each: everyone[each] for each in (ENGINE, PACKED)}, 1 if run.small else 5
            )
            yield {
                "model": name,
                "precision": run.precision,
                "texts": f"{count} x {run.longest}",
                **{f"{one}, ms": statistics.median(ms) for one, ms in taken.items()},
                "cosine": cosines(got, beside),
                "more memory, MiB": more / 2**20,
                "one layer's maps, MiB": 2 * count * heads * run.longest**2 / 2**20,
            }


# In the order of their importance; seconds at most.
STEPS: dict[str, tuple[Callable[[Run], Iterator[Row]], float]] = {
    "device": (device, 30),
    "parity": (parity, 90),
    "invariance": (invariance, 45),
    "speed": (speed, 110),
    "kernels": (kernels, 45),
    "served": (served, 90),
    "device error": (device_error, 30),
    "long texts": (long_texts, 40),
}


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}"


def words_of(call: Callable[[], object]) -> str:
    """Return the error of a call in one line; empty if it has none."""
    try:
        call()
    except Exception as error:  # which are what is reported
        return words(error)
    return ""


@contextlib.contextmanager
def reported(path: Path) -> Iterator[Path]:
    """Write to a file what libraries print on standard output."""
    before = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield path
        finally:
            os.dup2(before, 1)
            os.close(before)


# A run


def run_step(name: str, run: Run, seconds: float, arguments: Sequence[str]) -> Row:
    """Run one step in its own process, and end all of that after so many seconds."""
    run.logs.mkdir(parents=True, exist_ok=True)
    rows, log = (run.logs / f"{name.replace(' ', '-')}.{end}" for end in ("rows", "log"))
    rows.write_text("", encoding="utf-8")
    line = [sys.executable, "-m", "bench.gpu", *arguments, "--step", name, "--rows", str(rows)]
    begun, error = time.monotonic(), ""
    with log.open("w", encoding="utf-8") as said:
        child = subprocess.Popen(
            line,
            cwd=ROOT,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=os.environ | ({KERNELS: "1"} if name == "kernels" else {}),
        )
        try:
            if child.wait(seconds):
                lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
                error = next((each[:400] for each in reversed(lines) if each.strip()), "failed")
        except subprocess.TimeoutExpired:
            error = f"ended after {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # the service, too
            child.wait()
    taken = [json.loads(each) for each in rows.read_text(encoding="utf-8").splitlines()]
    step: Row = {"seconds": time.monotonic() - begun, "rows": taken}
    return step | ({"error": error} if error else {})


def write_rows(name: str, run: Run, path: Path) -> None:
    """Run a step in this process, and write each row as soon as there is one."""
    torch.backends.cuda.matmul.allow_tf32 = False
    with path.open("a", encoding="utf-8") as file:
        for row in STEPS[name][0](run):
            file.write(json.dumps(row) + "\n")
            file.flush()


def criteria(numbers: Row) -> Iterator[tuple[str, str, float | None, bool]]:
    """Yield what was to be reached, its limit, what was measured, and whether it was reached."""

    def rows(step: str) -> list[Row]:
        measured: list[Row] = numbers["steps"].get(step, {}).get("rows", [])
        return measured

    checks = [row for row in rows("parity") if row["precision"] in ("fp32", "fp16")]
    failed = sum(not row.get("passed") for row in checks)
    yield "checks of parity that fail, fp32 and fp16", "0", failed if checks else None, not failed
    peaks = {row["precision"]: row["TFLOP/s"] for row in rows("device")}
    for row in (each for each in rows("speed") if "texts" in each):
        title = f"{row['model']}, {row['shape']}"
        ours, theirs = row.get(f"{ENGINE}, ms"), row.get(f"{PACKED}, ms")
        ratio = theirs / ours if ours and theirs else None
        yield f"{title}: speed beside {PACKED}", "at least 1", ratio, (ratio or 0) >= 1
        peak = peaks.get(row["precision"])
        if row["shape"].startswith("16 x"):
            share = row["engine, TFLOP/s"] / peak if peak and ours else None
            yield f"{title}: share of the matrix rate", "at least 0.45", share, (share or 0) >= 0.45
    for row in rows("long texts"):
        memory, maps = row["more memory, MiB"], row["one layer's maps, MiB"]
        title = f"{row['model']}, {row['texts']}: memory beside one layer's maps"
        yield title, "at most 1", memory / maps, memory <= maps


def page(numbers: Row) -> list[str]:
    """Return the report: the criteria, and a table of each step."""
    rehearsal = numbers["provider"] == "cpu"
    title = "# A rehearsal on a CPU" if rehearsal else f"# On a GPU: {numbers['name']}"
    warning = ["**Its figures say nothing of a GPU.**", ""] if rehearsal else []
    lines = [title, "", *warning, f"`{numbers['command']}` on {numbers['machine']};"]
    lines += [
        f"commit {numbers['commit']}; {numbers['seconds']:.0f} s. {numbers.get('smi', '')}",
        "",
    ]
    rows = []
    for what, limit, value, reached in criteria(numbers):
        verdict = "rehearsal" if rehearsal else "reached" if reached else "**missed**"
        cells = ("not measured", "") if value is None else (f"{value:.3g}", verdict)
        rows.append((what, limit, *cells))
    lines += table(("to be reached", "limit", "measured", ""), rows)
    for name, (step, _) in STEPS.items():
        about = " ".join((step.__doc__ or "").split())
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", about, ""]
        taken = numbers["steps"].get(name, {"rows": [], "error": "there was no time left"})
        if taken["rows"]:
            heading = list(dict.fromkeys(key for row in taken["rows"] for key in row))
            cells_of = ([cell(row.get(key, "")) for key in heading] for row in taken["rows"])
            lines += table(heading, cells_of)
        if "error" in taken:
            lines += ["", f"Not measured to its end: {taken['error']}"]
    return lines


def cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "/")


def about(run: Run) -> Row:
    """Return the names of the device and of the machine; nothing is set."""
    names: Row = {"command": command("bench.gpu"), "provider": run.provider}
    library = "onnxruntime" if run.small else "onnxruntime-gpu"
    names |= {"machine": machine((library, *PACKAGES)), "commit": revision(ROOT)}
    if not run.small:
        names["name"] = torch.cuda.get_device_name(run.gpu)
        fields = "name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.draw"
        line = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        with contextlib.suppress(OSError):
            names["smi"] = subprocess.run(line, capture_output=True, text=True, check=False).stdout
    return names


def main() -> int:
    """Return 0 if all steps went to their end."""
    parser = argparse.ArgumentParser(
        "python -m bench.gpu", None, __doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--provider", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpu-device", type=int, default=0)
    parser.add_argument("--bundles", type=Path, default=Path("build/gpu/bundles"))
    parser.add_argument("--out", type=Path, help="a folder; default bench/results, or build/gpu")
    parser.add_argument("--seconds", type=float, default=450, help="of all steps")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    out = options.out or Path("build/gpu" if options.provider == "cpu" else "bench/results")
    run = Run(options.provider, options.gpu_device, options.bundles.absolute(), out.absolute())
    if options.prepare:
        prepare(run)
        return 0
    if options.step:
        write_rows(options.step, run, options.rows)
        return 0
    begun, numbers = time.monotonic(), about(run) | {"steps": {}}
    for name, (_, most) in STEPS.items():
        left = options.seconds - (time.monotonic() - begun)
        if left > 0:
            numbers["steps"][name] = run_step(name, run, min(most, left), sys.argv[1:])
        numbers["seconds"] = time.monotonic() - begun
        save(run.out / "gpu.json", numbers)
    publish(run.out / "gpu.md", page(numbers))
    steps = numbers["steps"].values()
    return int(len(steps) < len(STEPS) or any("error" in step for step in steps))


if __name__ == "__main__":
    sys.exit(main())
