"""Reranking of 100 documents of 128 tokens beside its peers, and the cost of evidence.

    python -m bench.rerank

`nox -s rerank-bench` runs it and writes bench/results/rerank.md. The model has the weights of
all-MiniLM-L6-v2 and a head of random numbers, so it ranks nothing well; its speed is that of a
trained one. All compute in fp32, in turns, on an idle machine: documents that fill their pair, then
docstrings as they are. Among the first are other options of ours, and the matrix products alone:
no engine that computes them in fp32 on these cores can be much faster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import sys
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
from bench.frame.rounds import ratios, times
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
REMEDIES = ("--batch-tokens 2048", "--streams 1 --threads 2", "--attention off")
FILLED, AS_THEY_ARE = f"Documents that fill a pair of {TOKENS} tokens", "Docstrings as they are"
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


def documents(tokenizer: Path, filled: bool) -> list[str]:
    """Return docstrings of Python; joined until each fills a pair, if `filled`."""
    reader, texts, current = Tokenizer(tokenizer, 1 << 20), list[str](), ""
    for each in docstrings(1 << 20):
        current = f"{current} {' '.join(each.split())}".strip()
        if not filled or len(reader.encode(current, with_info=False).ids) >= TOKENS:
            texts.append(current)
            current = ""
        if len(texts) == DOCUMENTS:
            return texts
    raise SystemExit(f"the library of this Python has {len(texts)} of {DOCUMENTS} documents")


def products(folder: Path) -> Contestant:
    """Return the matrix products of all layers alone, by numpy's library, on all cores."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    dim, inner, heads = (
        config[each] for each in ("hidden_size", "intermediate_size", "num_attention_heads")
    )
    texts = 8  # as the fastest peers
    shapes = [(texts * TOKENS, dim, columns) for columns in (dim, dim, dim, dim, inner)]
    shapes.append((texts * TOKENS, inner, dim))
    ones = [(np.ones((n, k), np.float32), np.ones((k, m), np.float32)) for n, k, m in shapes]
    query, key = (np.ones((texts, heads, TOKENS, dim // heads), np.float32) for _ in range(2))
    keys, weights = key.swapaxes(2, 3), np.ones((texts, heads, TOKENS, TOKENS), np.float32)

    def ask() -> None:
        for _ in range(config["num_hidden_layers"] * DOCUMENTS // texts):
            for left, right in [*ones, (query, keys), (weights, key)]:
                np.matmul(left, right)

    return Contestant("matrix products alone, numpy", ask)


def headlight(
    stack: contextlib.ExitStack,
    bundle: Path,
    provider: str,
    texts: Sequence[str],
    work: Path,
    options: str = "",
) -> list[Contestant]:
    """Serve a bundle; return it asked over gRPC and over HTTP, and the evidence of some scores."""
    name = f"Headlight, {provider} {options}".strip()
    flags = ("--provider", provider, *options.split(), *ANY_PORTS)
    service = Service(serve(bundle, *flags), work / f"{name.replace(' ', '')}.log")
    stack.callback(service.close)
    client = stack.enter_context(Client(service.address()))

    def scores() -> list[float]:
        ranked = client.rerank(QUERY, texts, truncate="end")
        return [each.logit for each in sorted(ranked, key=lambda each: each.index)]

    url = f"http://{service.address('api')}/rerank"
    body = {"query": QUERY, "texts": texts, "truncate": True}
    sentences = [EvidenceSpec(method="occlusion", unit="sentence")]
    some = texts[:EXPLAINED]
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
    described, tuned = worker.ask("describe"), worker.ask("tune")
    versions = ", ".join(f"{name} {each}" for name, each in described["versions"].items())
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


def prepared(work: Path) -> tuple[Path, Path]:
    """Return the folder of the model and its bundle."""
    folder, bundle = work / "cross", work / "cross-bundle"
    python = str(installed(Path(BACKENDS["torch"]) / "bin/python"))
    if not (folder / "config.json").is_file():
        run([python, "-m", "bench.peers.cross", "make", str(work / "model"), str(folder)])
    options = ("--max-length", str(TOKENS), "--provider", "openvino", "--if-missing", "--quiet")
    run([sys.executable, "-m", "headlight", "export", str(folder), "--out", str(bundle), *options])
    return folder, bundle


def measured(title: str, work: Path, rounds: int) -> list[str]:
    """Return the part of the report on one kind of documents."""
    folder, bundle = prepared(work)
    texts, pairs = documents(folder / "tokenizer.json", title == FILLED), work / "pairs.json"
    pairs.write_text(json.dumps({"query": QUERY, "documents": texts}), encoding="utf-8")
    left_out = list[str]()
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
        if title == FILLED:
            everyone.append(products(folder))
            for each in REMEDIES:
                everyone += headlight(stack, bundle, PROVIDERS[0], texts, work, each)[:1]
        for start in starts:
            try:
                everyone.append(start())
            except Failed as failure:
                left_out.append(str(failure))
        spent = times({each.name: each.ask for each in everyone}, rounds, warm_up=2)
        logits = {each.name: each.scores() for each in everyone if each.scores}
    lines = [
        f"## {title}",
        "",
        *scored(spent, logits, {one.name: one.details for one in everyone}),
    ]
    lines += ["", f"Evidence by sentences of {EXPLAINED} documents, beside their scores:", ""]
    return [*lines, *explained(spent), *(f"\nLeft out: {each}" for each in left_out), ""]


def main() -> None:
    options = parser("bench.rerank", __doc__, out="rerank.md", rounds=7)
    options.add_argument(
        "--work", type=Path, default=Path("build/serving"), help="of `nox -s serving-model`"
    )
    chosen = options.parse_args()
    others = Others()
    parts = [measured(title, chosen.work, chosen.rounds) for title in (FILLED, AS_THEY_ARE)]
    model = Bundle(prepared(chosen.work)[1]).manifest.architecture
    about = (
        f"{DOCUMENTS} documents in one call; {model.layers} layers of {model.dim}; pairs of at "
        f"most {TOKENS} tokens; fp32; medians of {chosen.rounds} rounds in turns, and the least "
        f"and largest ratio of a round. On {machine(('onnxruntime', 'openvino', 'numpy'))}; others "
        f"used {others.share():.0%} of the CPUs."
    )
    lines = ["# Reranking beside its peers", "", f"`{command('bench.rerank')}`", "", about, ""]
    publish(chosen.out, [*lines, *parts[0], *parts[1]])


def scored(
    spent: dict[str, list[float]], logits: dict[str, Sequence[float]], details: dict[str, str]
) -> list[str]:
    """Return a table of those that score all documents, the fastest first; `spent` is in ms."""
    names = sorted(
        (name for name in spent if EVIDENCE not in name), key=lambda name: median(spent[name])
    )
    best = next(name for name in names if name.startswith(CROSS_ENCODER))
    rows = []
    for name in names:
        middle, compared = median(spent[name]), ratios(spent[best], spent[name])
        off = np.abs(np.subtract(logits[name], logits[best])).max() if name in logits else None
        speed = f"{median(compared):.2f} ({min(compared):.2f} to {max(compared):.2f})"
        figures = number(middle), number(1e3 * DOCUMENTS / middle), speed, number(off, ".1e")
        rows.append((name, *figures, details[name]))
    distance = "largest distance of logits from its"
    return table(("", "ms", "documents/s", f"times {best}", distance, "versions"), rows)


def explained(spent: dict[str, list[float]]) -> list[str]:
    """Return a table of the cost of evidence."""
    rows = []
    for provider in PROVIDERS:
        alone, sentences = (spent[f"{EVIDENCE}{each}, {provider}"] for each in (ALONE, WITH))
        ratio = median(ratios(sentences, alone))
        rows.append((provider, number(median(alone)), number(median(sentences)), number(ratio)))
    return table(("provider", "scores, ms", "with evidence, ms", "ratio"), rows)


if __name__ == "__main__":
    main()
