"""Sparse vectors and many vectors of 100 documents, beside their peers.

    python -m bench.vectors

`nox -s vectors-bench` runs it and writes bench/results/vectors.md. The models have the weights of
all-MiniLM-L6-v2 and heads of random numbers. Documents are docstrings as they are, cut at 128
tokens. All compute in fp32, in turns, on an idle machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.frame.machine import Others, machine
from bench.frame.processes import ANY_PORTS, Failed, Service, Worker, installed, run, serve
from bench.frame.report import command, number, parser, publish, table
from bench.frame.rounds import ratios, times
from headlight import Client
from headlight_export.precision.sample_texts import docstrings

DOCUMENTS = 100
KINDS = {"sparse": "Sparse vectors", "multi_vector": "Many vectors"}
PROVIDERS = ("openvino", "cpu")
TORCH, ONNX, FAST = (
    Path(f".nox/peer-{each}/bin/python") for each in ("torch", "onnx", "fastembed")
)


@dataclasses.dataclass
class Contestant:
    """One way to encode the documents.

    Attributes:
        name: in the report.
        ask: encodes them once.
        sums: returns the sum of each document's numbers, to compare.
        details: what else the report says of it.
    """

    name: str
    ask: Callable[[], object]
    sums: Callable[[], Sequence[float]]
    details: str = ""


def headlight(
    stack: contextlib.ExitStack, kind: str, bundle: Path, provider: str, texts: list[str]
) -> Contestant:
    """Serve a bundle, asked over gRPC."""
    flags = ("--provider", provider, *ANY_PORTS)
    service = Service(serve(bundle, *flags), bundle.with_name(f"{kind}-{provider}.log"))
    stack.callback(service.close)
    client = stack.enter_context(Client(service.address()))

    def encode() -> list[Any]:
        if kind == "sparse":
            return [each.values for each in client.encode_sparse(texts, truncate="end")]
        return client.encode_multi_vector(texts, role="document", truncate="end")

    def sums() -> list[float]:
        return [float(np.abs(np.asarray(row, np.float64)).sum()) for row in encode()]

    return Contestant(f"Headlight, {provider}, gRPC", encode, sums)


def library(
    stack: contextlib.ExitStack, name: str, python: Path, module: str, *arguments: str, log: Path
) -> Contestant:
    """Start a library in a process of its own."""
    worker = Worker(installed(python), module, *arguments, log=log)
    stack.callback(worker.close)
    described, tuned = worker.ask("describe"), worker.ask("tune")
    versions = ", ".join(f"{each} {version}" for each, version in described["versions"].items())
    return Contestant(
        name,
        lambda: worker.ask("run"),
        lambda: worker.ask("sums")["sums"],
        f"{versions}, batches of {tuned['batch_size']}",
    )


def prepared(kind: str, work: Path) -> tuple[Path, Path]:
    """Return the folder of a model and its bundle."""
    folder, bundle = work / kind, work / f"{kind}-bundle"
    if not (folder / "onnx/model.onnx").is_file():
        make = ("bench.peers.vectors", "make", str(work / "model"), kind, str(folder))
        run([str(installed(TORCH)), "-m", *make])
        graph = ("bench.peers.vector_graphs", kind, str(folder), str(work / "model"))
        run([str(installed(ONNX)), "-m", *graph])
    options = ("--max-length", "128", "--provider", "openvino", "--if-missing", "--quiet")
    run([sys.executable, "-m", "headlight", "export", str(folder), "--out", str(bundle), *options])
    return folder, bundle


def measured(kind: str, work: Path, rounds: int) -> list[str]:
    """Return the part of the report on one kind of vectors."""
    folder, bundle = prepared(kind, work)
    texts, file = docstrings(DOCUMENTS), work / "documents.json"
    file.write_text(json.dumps({"texts": texts}), encoding="utf-8")
    left_out = list[str]()
    with contextlib.ExitStack() as stack:
        everyone = [headlight(stack, kind, bundle, each, texts) for each in PROVIDERS]
        start = partial(library, stack, log=work / f"{kind}.log")
        for name, python, module, *arguments in (
            ("sentence-transformers, torch", TORCH, "bench.peers.vectors", "encode", kind, folder),
            ("fastembed", FAST, "bench.peers.fast_vectors", kind, folder / "onnx"),
        ):
            try:
                everyone.append(start(name, python, module, *map(str, arguments), str(file)))
            except Failed as failure:
                left_out.append(str(failure))
        spent = times({each.name: each.ask for each in everyone}, rounds, warm_up=2)
        sums = {each.name: np.array(each.sums()) for each in everyone}
    best = min(
        (each.name for each in everyone if each.details), key=lambda name: median(spent[name])
    )
    rows = []
    for one in sorted(everyone, key=lambda each: median(spent[each.name])):
        took, compared = spent[one.name], ratios(spent[best], spent[one.name])
        speed = f"{median(compared):.2f} ({min(compared):.2f} to {max(compared):.2f})"
        reference = sums[next(each.name for each in everyone if "torch" in each.name)]
        off = np.abs(sums[one.name] / reference - 1).max()
        figures = number(median(took)), number(1e3 * len(texts) / median(took)), speed
        rows.append((one.name, *figures, number(off, ".1e"), one.details))
    heading = "", "ms", "documents/s", f"times {best}", "off in the sum of a document", "versions"
    return [f"## {KINDS[kind]}", "", *table(heading, rows), *left_out, ""]


def main() -> None:
    options = parser("bench.vectors", __doc__, out="vectors.md", rounds=7)
    options.add_argument(
        "--work", type=Path, default=Path("build/serving"), help="of `nox -s serving-model`"
    )
    chosen = options.parse_args()
    others = Others()
    parts = [measured(kind, chosen.work, chosen.rounds) for kind in KINDS]
    about = (
        f"{DOCUMENTS} docstrings in one call, of at most 128 tokens; 6 layers of 384; fp32; "
        f"medians of {chosen.rounds} rounds in turns, and the least and largest ratio of a round. "
        f"On {machine(('onnxruntime', 'openvino', 'numpy'))}; others used {others.share():.0%} of "
        "the CPUs. The sizes of a document's numbers are summed, and the sum is compared with that "
        "of sentence-transformers. fastembed cuts texts where its tokenizer's file says, at 512 "
        "tokens: it computes more, and its sums differ."
    )
    lines = [
        "# Sparse and many vectors beside their peers",
        "",
        f"`{command('bench.vectors')}`",
        "",
    ]
    publish(chosen.out, [*lines, about, "", *parts[0], *parts[1]])


if __name__ == "__main__":
    main()
