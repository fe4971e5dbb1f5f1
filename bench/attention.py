"""Cost of each form of attention: time beside embeddings alone, bytes and time on the wire, memory.

`nox -s bench` runs it and writes bench/results/attention.md. The contestants of a row take turns
within one run.
"""

from __future__ import annotations

import contextlib
import functools
import random
import tempfile
import urllib.request
from pathlib import Path

import grpc

from bench.attention_forms import (
    FORMS,
    MOST_IDS,
    VECTORS_ALONE,
    attention_request,
    random_ids,
    suited,
)
from bench.encoder import bundle
from bench.frame.machine import machine
from bench.frame.processes import ANY_PORTS, Service, serve
from bench.frame.report import parser, publish, table
from bench.frame.rounds import Contestants, medians
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime import EncodeItem, Runtime
from headlight.runtime.values import Tokenized
from headlight.spec import AttentionSpec

SHAPES = ((1, 128), (8, 128), (1, 512), (4, 512))
LENGTHS = (32, 128, 512)
TARGETS = {
    "one row of all heads": 1.15,
    "mean of heads": 1.15,
    "rollout": 1.25,
    "8 largest of each row": 1.4,
}
REPEATS = 20  # of the largest answer, for memory


def engine_table(runtime: Runtime, rounds: int) -> list[str]:
    """Return milliseconds of each form and its ratio to vectors alone, by batch and length."""
    columns = [medians(contestants(runtime, *shape), rounds) for shape in SHAPES]
    rows = [
        (
            name,
            *(f"{each[name]:.1f} ms ({each[name] / each[VECTORS_ALONE]:.2f}x)" for each in columns),
            str(TARGETS.get(name, "")),
        )
        for name in columns[0]
    ]
    return table(("", *(f"{batch} x {length}" for batch, length in SHAPES), "at most"), rows)


def contestants(runtime: Runtime, batch: int, length: int) -> Contestants:
    """Return vectors alone, and each form of attention, of one batch."""
    known = runtime.bundle.manifest.architecture.vocab_size
    tokenized = Tokenized(random_ids(length, min(known, MOST_IDS)), length, None)
    made: Contestants = {}
    pooling = runtime.bundle.manifest.pooling
    for name, form in {VECTORS_ALONE: None, **FORMS}.items():
        spec = None if form is None else suited(form, pooling)
        items = [runtime.item(tokenized, runtime.select(attention=spec))] * batch
        made[name] = functools.partial(run, runtime, items)
    return made


def run(runtime: Runtime, items: list[EncodeItem]) -> None:
    """Run one batch and drop its results."""
    runtime.engine.run(items)


def request(spec: AttentionSpec | None, length: int) -> pb.EncodeStreamRequest:
    """Return the request for one input."""
    return pb.EncodeStreamRequest(id="1", encode=attention_request(spec, [length]))


def received(stub: pb_grpc.HeadlightServiceStub, request: pb.EncodeStreamRequest) -> int:
    """Return the bytes of messages that a stock client receives, each dropped before the next."""
    return sum(frame.ByteSize() for frame in stub.EncodeStream(iter([request])))


def wire_table(stub: pb_grpc.HeadlightServiceStub, rounds: int) -> list[str]:
    """Return bytes on the wire and time of each form of one text, a stream each."""
    columns = []
    for length in LENGTHS:
        requests = {
            name: request(spec, length) for name, spec in {VECTORS_ALONE: None, **FORMS}.items()
        }
        milliseconds = medians(
            {name: functools.partial(received, stub, one) for name, one in requests.items()}, rounds
        )
        columns.append(
            {
                name: f"{received(stub, one):,} B, {milliseconds[name]:.1f} ms"
                for name, one in requests.items()
            }
        )
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return table(("", *(f"{length} tokens" for length in LENGTHS)), rows)


def memory_line(stub: pb_grpc.HeadlightServiceStub, service: Service) -> str:
    """Return resident memory over repeated whole maps of 512 tokens."""
    base, whole_maps = service.resident, request(AttentionSpec(), 512)
    peaks = [
        (max(service.resident for _ in stub.EncodeStream(iter([whole_maps]))) - base) / 1e6
        for _ in range(REPEATS)
    ]
    return (
        f"Whole maps of 512 tokens (75.5 MB) {REPEATS} times in a row, read frame by frame: "
        "resident memory of the service over what it was after 50 vectors: at most "
        f"{max(peaks):.0f} MB; {peaks[0]:.0f} MB in the first, {peaks[-1]:.0f} MB in the last."
    )


def attention_sent(http: str) -> str:
    """Return the service's own metric of attention bytes after embed-only traffic."""
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    lines = (line for line in text.splitlines() if line.startswith("headlight_output_bytes_total"))
    return next(line for line in lines if 'output="attention"' in line)


def main() -> None:
    made = parser("bench.attention", __doc__, "attention.md", rounds=15)
    made.add_argument(
        "--bundle", type=Path, help="default: 6 layers, 12 heads, d=384, random weights, made here"
    )
    options = made.parse_args()
    random.seed(0)
    path = options.bundle or bundle(Path("build/bench"))
    engine = engine_table(Runtime(path), options.rounds)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Service(serve(path, *ANY_PORTS), Path(folder) / "serve.log")) as service,
        grpc.insecure_channel(service.address()) as channel,
    ):
        stub = pb_grpc.HeadlightServiceStub(channel)
        for _ in range(50):
            received(stub, request(None, 128))
        metric = attention_sent(service.address("metrics"))
        memory = memory_line(stub, service)
        wire = wire_table(stub, max(5, options.rounds // 3))
    report = [
        "# What each form of attention costs",
        "",
        (
            f"`nox -s bench` on {machine(['onnxruntime', 'grpcio', 'numpy'])}; 6 layers, 12 heads, "
            "d=384, random weights, cpu, fp32. All layers in each form. Medians of "
            f"{options.rounds} interleaved rounds; in brackets the ratio to vectors alone, "
            "and behind each row what was set as the most at 1 x 128 and 8 x 128."
        ),
        "",
        "In one process, copying out of the batch included:",
        "",
        *engine,
        "",
        "Over the wire, one text a request, by a stock client (EncodeStream):",
        "",
        *wire,
        "",
        memory,
        "",
        f"After 50 requests for vectors alone the service says `{metric}`.",
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
