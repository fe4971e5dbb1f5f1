"""Reranking of 100 documents of 128 tokens beside its peers, and the cost of evidence.

    python -m bench.rerank

`nox -s rerank-bench` runs it and writes bench/results/rerank.md. The model has the weights of
all-MiniLM-L6-v2 and a head of random numbers, so it ranks nothing well; its speed is that of a
trained one. All compute in fp32, in turns, on an idle machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.frame.machine import Others, machine
from bench.frame.processes import (
    ANY_PORTS,
    START_SECONDS,
    Failed,
    Process,
    Service,
    Worker,
    installed,
    run,
    serve,
    wait_for,
)
from bench.frame.report import command, number, parser, publish, table
from bench.frame.rounds import ratios, turns
from headlight import Client
from headlight.comparison import EvidenceSpec
from headlight.runtime import Bundle, Tokenizer
from headlight_export.precision.sample_texts import docstrings

DOCUMENTS, TOKENS = 100, 128
QUERY = "return the first line of a text file without its end"
BACKENDS = {"torch": ".nox/peer-torch", "onnx": ".nox/peer-onnx", "openvino": ".nox/peer-openvino"}
INFINITY = Path(".nox/peer-infinity/bin/infinity_emb")
EXPLAINED = 10  # documents
PROVIDERS = ("openvino", "cpu")
CROSS_ENCODER, EVIDENCE, ALONE, WITH = "CrossEncoder, ", "evidence: ", "scores", "sentences"
Ask = Callable[[], object]


@dataclasses.dataclass
class Contestant:
    """One way to score the documents.

    Attributes:
        name: in the report.
        ask: scores them once.
        scores: returns their logits, in the order of the documents; None: not compared.
        details: what else the report says of it.
    """

    name: str
    ask: Ask
    scores: Callable[[], Sequence[float]] | None = None
    details: str = ""


def documents(tokenizer: Path) -> list[str]:
    """Return texts that each fill a pair of `TOKENS` tokens: docstrings of Python, joined."""
    reader, texts, current = Tokenizer(tokenizer, 1 << 20), list[str](), ""
    for each in docstrings(1 << 20):
        current = f"{current} {' '.join(each.split())}".strip()
        if len(reader.encode(current, with_info=False).ids) >= TOKENS:
            texts.append(current)
            current = ""
        if len(texts) == DOCUMENTS:
            return texts
    raise SystemExit(f"the library of this Python fills {len(texts)} documents of {DOCUMENTS}")


def headlight(
    stack: contextlib.ExitStack, bundle: Path, provider: str, texts: Sequence[str], work: Path
) -> list[Contestant]:
    """Serve a bundle; return it asked over gRPC and over HTTP, and the evidence of some scores."""
    flags = ("--provider", provider, *ANY_PORTS)
    service = Service(serve(bundle, *flags), work / f"headlight-{provider}.log")
    stack.callback(service.close)
    client = stack.enter_context(Client(service.address()))

    def scores() -> list[float]:
        ranked = client.rerank(QUERY, texts, truncate="end")
        return [each.logit for each in sorted(ranked, key=lambda each: each.index)]

    url = f"http://{service.address('api')}/rerank"
    body = {"query": QUERY, "texts": texts, "truncate": True}
    sentences = [EvidenceSpec(method="occlusion", unit="sentence")]
    name, some = f"Headlight, {provider}", texts[:EXPLAINED]
    explain = partial(client.compare, QUERY, some, truncate="end")
    return [
        Contestant(f"{name}, gRPC", scores, scores),
        Contestant(f"{name}, HTTP", partial(posted, url, body)),
        Contestant(f"{EVIDENCE}{ALONE}, {provider}", explain),
        Contestant(f"{EVIDENCE}{WITH}, {provider}", partial(explain, evidence=sentences)),
    ]


def cross_encoder(
    stack: contextlib.ExitStack, folder: Path, pairs: Path, backend: str, work: Path
) -> Contestant:
    """Start sentence-transformers with a backend."""
    python = installed(Path(BACKENDS[backend]) / "bin/python")
    worker = Worker(
        python,
        "bench.peers.cross",
        *("rank", str(folder), str(pairs), backend),
        log=work / f"{backend}.log",
    )
    stack.callback(worker.close)
    told, tuned = worker.ask("describe"), worker.ask("tune")
    versions = ", ".join(f"{name} {each}" for name, each in told["versions"].items())
    return Contestant(
        f"{CROSS_ENCODER}{backend}",
        lambda: worker.ask("run"),
        lambda: worker.ask("scores")["scores"],
        f"{versions}, batches of {tuned['batch_size']}",
    )


def infinity(
    stack: contextlib.ExitStack, folder: Path, texts: Sequence[str], work: Path
) -> Contestant:
    """Start infinity-emb with its torch engine."""
    installed(INFINITY.with_name("python"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--device", "cpu", "--dtype", "float32", "--engine", "torch")
    address = ("--host", "127.0.0.1", "--port", str(port), "--log-level", "warning")
    process = Process(
        [str(INFINITY.absolute()), "v2", "--model-id", ".", *options, *address],
        work / "infinity.log",
        {"INFINITY_ANONYMOUS_USAGE_STATS": "0"},
        folder,
    )
    stack.callback(process.close)
    url = f"http://127.0.0.1:{port}/rerank"
    body = {"model": ".", "query": QUERY, "documents": list(texts), "raw_scores": True}

    def scores() -> list[float]:
        results = json.loads(posted(url, body))["results"]
        return [each["relevance_score"] for each in sorted(results, key=lambda each: each["index"])]

    def ready() -> bool:
        try:
            posted(url, body | {"documents": ["one text"]})
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    wait_for(ready, process, START_SECONDS)
    return Contestant("infinity, torch, HTTP", partial(posted, url, body), scores)


def posted(url: str, body: Any) -> bytes:
    """Return the answer to a JSON body."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as response:
        answer: bytes = response.read()
    return answer


def prepared(work: Path) -> tuple[Path, Path, list[str], Path]:
    """Return the folder of the model, its bundle, the documents and the file of all pairs."""
    folder, bundle, pairs = work / "cross", work / "cross-bundle", work / "pairs.json"
    python = str(installed(Path(BACKENDS["torch"]) / "bin/python"))
    if not (folder / "config.json").is_file():
        run([python, "-m", "bench.peers.cross", "make", str(work / "model"), str(folder)])
    options = ("--max-length", str(TOKENS), "--provider", "openvino", "--if-missing", "--quiet")
    run([sys.executable, "-m", "headlight", "export", str(folder), "--out", str(bundle), *options])
    texts = documents(folder / "tokenizer.json")
    pairs.write_text(json.dumps({"query": QUERY, "documents": texts}), encoding="utf-8")
    return folder, bundle, texts, pairs


def main() -> None:
    options = parser("bench.rerank", __doc__, out="rerank.md", rounds=7)
    options.add_argument(
        "--work", type=Path, default=Path("build/serving"), help="of `nox -s serving-model`"
    )
    chosen = options.parse_args()
    work: Path = chosen.work
    folder, bundle, texts, pairs = prepared(work)
    left_out, others = list[str](), Others()
    with contextlib.ExitStack() as stack:
        everyone = [
            each
            for provider in PROVIDERS
            for each in headlight(stack, bundle, provider, texts, work)
        ]
        starts: list[Callable[[], Contestant]] = [
            *(partial(cross_encoder, stack, folder, pairs, each, work) for each in BACKENDS),
            partial(infinity, stack, folder, texts, work),
        ]
        for start in starts:
            try:
                everyone.append(start())
            except Failed as failure:
                left_out.append(str(failure))
        seconds: dict[str, list[float]] = {each.name: [] for each in everyone}
        for round_, one in turns(everyone, chosen.rounds, warm_up=2):
            begin = time.perf_counter()
            one.ask()
            if round_ >= 0:
                seconds[one.name].append(time.perf_counter() - begin)
        logits = {each.name: each.scores() for each in everyone if each.scores}
    model = Bundle(bundle).manifest.architecture
    about = (
        f"{DOCUMENTS} documents, each a pair of {TOKENS} tokens with the query; {model.layers} "
        f"layers of {model.dim}; fp32; one call for all; medians of {chosen.rounds} rounds in "
        f"turns, and the least and largest ratio of a round. "
        f"On {machine(('onnxruntime', 'openvino', 'numpy'))}; others used {others.share():.0%} of "
        "the CPUs."
    )
    lines = ["# Reranking beside its peers", "", f"`{command('bench.rerank')}`", "", about, ""]
    lines += scored(seconds, logits, {each.name: each.details for each in everyone})
    lines += ["", f"Evidence by sentences of {EXPLAINED} documents, beside their scores:", ""]
    lines += explained(seconds)
    publish(chosen.out, [*lines, *(f"\nLeft out: {each}" for each in left_out)])


def scored(
    seconds: dict[str, list[float]], logits: dict[str, Sequence[float]], details: dict[str, str]
) -> list[str]:
    """Return a table of those that score all documents, the fastest first."""
    names = sorted(
        (name for name in seconds if EVIDENCE not in name), key=lambda name: median(seconds[name])
    )
    best = next(name for name in names if name.startswith(CROSS_ENCODER))
    rows = []
    for name in names:
        middle, compared = median(seconds[name]), ratios(seconds[best], seconds[name])
        off = np.abs(np.subtract(logits[name], logits[best])).max() if name in logits else None
        speed = f"{median(compared):.2f} ({min(compared):.2f} to {max(compared):.2f})"
        figures = number(1000 * middle), number(DOCUMENTS / middle), speed, number(off, ".1e")
        rows.append((name, *figures, details[name]))
    distance = "largest distance of logits from its"
    return table(("", "ms", "documents/s", f"times {best}", distance, "versions"), rows)


def explained(seconds: dict[str, list[float]]) -> list[str]:
    """Return a table of the cost of evidence."""
    rows = []
    for provider in PROVIDERS:
        alone, sentences = (seconds[f"{EVIDENCE}{each}, {provider}"] for each in (ALONE, WITH))
        times = median(ratios(sentences, alone))
        rows.append(
            (provider, number(1e3 * median(alone)), number(1e3 * median(sentences)), number(times))
        )
    return table(("provider", "scores, ms", "with evidence, ms", "ratio"), rows)


if __name__ == "__main__":
    main()
