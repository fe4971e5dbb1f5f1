"""Run the program on Headlight and its peers; writes docs/conformance.md and bench/results.

python -m tests.conformance.record            Headlight, and peers whose nox sessions were run
python -m tests.conformance.record --page     only the page, from the results of the last runs
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.conformance.__main__ import DIALECTS
from tests.ports import free_address
from tests.system.processes import ROOT, Service

RESULTS = ROOT / "bench/results/conformance"
PAGE = ROOT / "docs/conformance.md"
TITLES = {
    "openai": "OpenAI's embeddings",
    "tei": "text-embeddings-inference",
    "cohere": "Cohere's embed and rerank",
    "oip": "Open Inference Protocol v2",
}
INFINITY, MODEL = ROOT / ".nox/peer-infinity/bin", ROOT / "build/serving/model"
NOT_RUN = {"openai": ("vLLM",)}  # servers without results, by dialect
HEAD = """\
# Conformance

`tests/conformance` is a program that checks what clients rely on, against any server of these
dialects. It needs a clone and Python 3.11; `grpc://` also needs the packages `grpcio` and
`protobuf`. It imports nothing of Headlight.

```sh
python -m tests.conformance http://127.0.0.1:8000/v1 --dialect openai
python -m tests.conformance http://127.0.0.1:8000 --dialect tei
python -m tests.conformance http://127.0.0.1:8000 --dialect cohere --model docs-rope
python -m tests.conformance grpc://127.0.0.1:50051 --dialect oip --model docs-rope
```

It prints a line for each check, with a reason. The exit status is 1 if one fails. `--json FILE`
writes the results, `--list` shows the checks and their sources, `--only` chooses some. `--token`
also checks that a wrong token is refused. `--overload N` sends N requests at once: only for a
server of your own.

| result | meaning |
|---|---|
| pass | the server keeps it |
| fail | a client that relies on it breaks, or gets wrong numbers |
| not offered | the server refuses an optional part of the dialect |
| not applicable | the check needs an option, another transport, or a limit that is absent |

`tests/conformance/test_conformance.py` runs each check on a toy server that keeps every promise,
and on one that breaks the promise: there it must fail. `make system` runs all dialects on
Headlight.

## Results

`nox -s conformance` wrote this page. Headlight serves `docs-rope` and `docs-rerank`, infinity the
real `all-MiniLM-L6-v2`, each with its defaults. infinity has only OpenAI's dialect: its rerank is
at another address than Cohere's. TEI is text-embeddings-inference 1.9.

vLLM was not run: its build for CPUs takes gigabytes. `nox -s peer-vllm` installs it. Then start
`vllm serve MODEL --runner pooling`, and run the first line above with its address.
"""


def write_page() -> None:
    """Write the page from the results."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    runs = [json.loads(each.read_text("utf-8")) for each in sorted(RESULTS.glob("*.json"))]
    parts = [HEAD]
    for dialect, title in TITLES.items():
        of_dialect = [each for each in runs if each["dialect"] == dialect]
        parts.append(section(dialect, title, of_dialect))
    return "\n".join(parts)


def section(dialect: str, title: str, runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of a dialect, and the reasons of all but passes."""
    _, checks = DIALECTS[dialect]
    servers = [each["server"] for each in runs]
    columns = [*servers, *NOT_RUN.get(dialect, ())]
    rows = [f"| check | source | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    by_server = [{each["name"]: each for each in run["checks"]} for run in runs]
    for check in checks:
        cells = [results[check.name]["outcome"] for results in by_server if check.name in results]
        cells += ["not run"] * (len(columns) - len(cells))
        rows.append(f"| {check.name} | {check.source} | {' | '.join(cells)} |")
    reasons = [
        f"| {server} | {each['name']} | {each['outcome']} | `{quotable(each['reason'])}` |"
        for server, results in zip(servers, by_server, strict=True)
        for each in results.values()
        if each["outcome"] in ("fail", "not offered")
    ]
    if reasons:
        rows += ["", "| server | check | result | reason |", "|---|---|---|---|", *reasons]
    return "\n".join([f"## {title}\n", *rows]) + "\n"


def quotable(reason: str) -> str:
    """Return the start of a reason, as code in a table."""
    return reason.replace("`", "").replace("|", "/")[:160]


def check(server: str, url: str, dialect: str, *options: str) -> None:
    """Run the program, and keep its results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / f"{server.split(maxsplit=1)[0].lower()}-{dialect}.json"
    command = [sys.executable, "-m", "tests.conformance", url, "--dialect", dialect]
    command += ["--name", server, "--json", str(out), *options]
    print(f"== {server}, {dialect}", flush=True)
    subprocess.run(command, cwd=ROOT, check=False, timeout=1800)


@contextmanager
def infinity(address: str) -> Iterator[None]:
    """Serve the real all-MiniLM-L6-v2 with infinity."""
    host, port = address.split(":")
    command = [str(INFINITY / "infinity_emb"), "v2", "--model-id", ".", "--engine", "torch"]
    command += ["--served-model-name", "all-MiniLM-L6-v2", "--device", "cpu", "--dtype", "float32"]
    command += ["--log-level", "warning", "--host", host, "--port", port]
    quiet = {"INFINITY_ANONYMOUS_USAGE_STATS": "0", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, cwd=MODEL, env={**os.environ, **quiet})
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{address}/health", timeout=5).close()
                break
            except (OSError, urllib.error.URLError):
                time.sleep(1)
        yield
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    """Run what is installed, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--skip", nargs="*", default=[], help="headlight, infinity")
    given = parser.parse_args()
    if not given.page and "headlight" not in given.skip:
        models = [ROOT / f"build/bundles/docs-{each}" for each in ("rope", "rerank")]
        with Service(models) as service:
            server, named = "Headlight", ("--model", "docs-rope")
            check(server, f"http://{service.rest}/v1", "openai", *named)
            check(server, f"http://{service.rest}", "tei")
            ranking = ("--rerank-model", "docs-rerank")
            check(server, f"http://{service.rest}", "cohere", *named, *ranking)
            check(server, f"grpc://{service.target}", "oip", *named)
    peer = (INFINITY / "infinity_emb").is_file() and MODEL.is_dir()
    if not given.page and "infinity" not in given.skip and peer:
        with infinity(address := free_address()):
            check("infinity 0.0.78", f"http://{address}", "openai", "--model", "all-MiniLM-L6-v2")
    write_page()


if __name__ == "__main__":
    main()
