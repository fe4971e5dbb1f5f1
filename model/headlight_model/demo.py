"""Demo of the service: `python -m headlight_model.demo --bundle DIR`.

Starts the service on one or two bundles, queries it, and prints commands to continue with.

child process (service)  <--gRPC--  functions of the standard library, five questions,
                                    one attention map, the evidence for one score
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import Attention, Client, HeadlightError
from headlight.analysis.terminal_view import attention_map, strongest_links
from headlight.cli.compare.compare_command import BEST
from headlight.cli.compare.comparison_output import comparison_text
from headlight.cli.files import screen
from headlight.comparison import EvidenceSpec
from headlight_model.syntax import links
from headlight_model.texts.functions import Function, document_text, functions

# A part of the library: it is parsed in two seconds, all of it takes eight.
MODULES = """
    argparse base64 bisect calendar collections configparser contextlib copy csv datetime difflib
    fnmatch fractions glob gzip hashlib heapq html http inspect ipaddress json logging mimetypes
    ntpath os pathlib pickle posixpath queue random sched shelve shutil smtplib socket statistics
    string subprocess tarfile tempfile textwrap threading tokenize traceback urllib uuid wave
    zipfile
"""
# As newcomers ask, chosen before they were answered.
QUESTIONS = (
    "remove a directory and everything in it",
    "download a web page",
    "find duplicates in a list",
    "median of a list of numbers",
    "days between two dates",
)
CODE = "names = {user[0]: len(user[1]) for user in users}"
NEAREST = 4
LINKS = 12
RERANKED = 50  # candidates
# Enough for a cold disk and a slow machine; a service that cannot start exits much earlier.
READY_SECONDS = 120
STOP_SECONDS = 60
LOG_LINES = 12


class DemoError(Exception):
    """Failure of the demo; the message is for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Return 0, or 1 with one message on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m headlight_model.demo", description="Start the service and show an answer."
    )
    parser.add_argument("--bundle", required=True, type=Path, help="what `headlight export` wrote")
    parser.add_argument(
        "--reranker", type=Path, help="bundle of a cross-encoder; default: no answer is reranked"
    )
    parser.add_argument(
        "--once", action="store_true", help="end after the answer instead of serving until Ctrl-C"
    )
    parser.add_argument("--grpc", default="127.0.0.1:50051", metavar="HOST:PORT")
    parser.add_argument("--metrics", default="127.0.0.1:8080", metavar="HOST:PORT")
    parser.add_argument("--api", metavar="HOST:PORT|off", help="default: as of the service")
    arguments = parser.parse_args(argv)
    # SIGTERM becomes SystemExit, so that the service is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with (
            tempfile.NamedTemporaryFile(prefix="headlight-demo-") as log,
            service(arguments, log) as child,
        ):
            answer(arguments, child, log)
            print_how_to_go_on(arguments.grpc, arguments.metrics, page_port(log))
            if not arguments.once:
                print("\nServing until Ctrl-C.", flush=True)
                child.wait()
                raise DemoError(f"the service ended by itself; its last lines:\n{last_lines(log)}")
    except (DemoError, HeadlightError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.")
    return 0


@contextlib.contextmanager
def service(arguments: argparse.Namespace, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the service as a child process that logs to `log`, and stop it at the end in any case.

    Raise DemoError if there is no bundle or an address cannot be listened on.
    """
    bundles = [arguments.bundle, *([arguments.reranker] if arguments.reranker else [])]
    for bundle in bundles:
        if not bundle.is_dir():
            raise DemoError(f"there is no bundle at {bundle}; `make export` makes one")
    refuse_taken_port("--grpc", arguments.grpc)
    refuse_taken_port("--metrics", arguments.metrics)
    command = [sys.executable, "-m", "headlight", "serve", *map(str, bundles)]
    command += ["--grpc", arguments.grpc, "--metrics", arguments.metrics]
    command += [] if arguments.api is None else ["--api", arguments.api]
    # A session of its own: Ctrl-C reaches only this process, which then stops the child gracefully.
    child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(
                f"demo: the service did not stop within {STOP_SECONDS} s and was killed",
                file=sys.stderr,
            )
            child.kill()
            child.wait()


def refuse_taken_port(option: str, address: str) -> None:
    """Raise DemoError if an address cannot be listened on.

    Otherwise the demo would talk to the process that already listens there.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # Otherwise a port that was just closed would count as taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except (ValueError, OverflowError):
        raise DemoError(f"{option} {address}: must be HOST:PORT") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = (
                "is taken, perhaps by another Headlight; stop that one, or choose another (make "
                "run GRPC=HOST:PORT HTTP=...)"
            )
        else:
            reason = f"cannot be listened on: {error.strerror}"
        raise DemoError(f"{option} {address} {reason}") from None


def wait_until_serving(target: str, child: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Watch grpc.health.v1 until it reports SERVING.

    Raise DemoError if the service exits first or takes too long.
    """
    reconnect = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
    with grpc.insecure_channel(target, reconnect) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(
            health_pb2.HealthCheckRequest(), timeout=READY_SECONDS, wait_for_ready=True
        )
        threading.Thread(target=lambda: (child.wait(), watch.cancel()), daemon=True).start()
        try:
            if any(update.status == health_pb2.HealthCheckResponse.SERVING for update in watch):
                watch.cancel()
                return
        except grpc.RpcError:
            pass
    ended = child.poll() is not None
    problem = "ended before it could serve" if ended else f"was not ready within {READY_SECONDS} s"
    raise DemoError(f"the service {problem}; its last lines:\n{last_lines(log)}")


def last_lines(log: IO[bytes]) -> str:
    """Return the end of the service's log."""
    return "\n".join(
        Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    )


def answer(arguments: argparse.Namespace, child: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Print the nearest functions for each question, an attention map, and the evidence."""
    width, colour = screen(None)
    corpus = library()  # while the service starts
    wait_until_serving(arguments.grpc, child, log)
    with Client(arguments.grpc) as client:
        model = client.model()
        print(
            heading(
                (
                    f"{model.name}: {model.layers} layers, {model.heads} heads, {model.dim} "
                    "numbers a text"
                ),
                colour,
            )
        )
        documents = client.encode([document_text(each) for each in corpus], truncate="end")
        print(f"{len(documents)} functions of the standard library embedded.")
        vectors = client.encode(QUESTIONS)
        for question, vector in zip(QUESTIONS, vectors, strict=True):
            print(f"\n{heading(question, colour)}\n{nearest(documents @ vector, corpus, width)}")
        print(f"\n{attention_view(client.attend(CODE), width, colour)}")
    if arguments.reranker:
        first = [corpus[at] for at in np.argsort(-(documents @ vectors[0]))[:RERANKED]]
        with Client(arguments.grpc, model=arguments.reranker.name) as client:
            print(f"\n{explained_view(client, QUESTIONS[0], first, width, colour)}")


def library() -> list[Function]:
    """Return the public functions, one of each name.

    Functions without a docstring are included: the searched texts hold none.
    """
    known: dict[tuple[str, str], Function] = {}
    for function in functions(MODULES.split()):
        if not any(part.startswith("_") for part in function.name.split(".")):
            known.setdefault((function.module, function.name), function)
    return list(known.values())


def nearest(scores: np.ndarray, corpus: Sequence[Function], width: int) -> str:
    """Return the functions with the highest scores, one per line.

    Vectors have unit length, so the score is the cosine.
    """
    lines = []
    for index in np.argsort(-scores)[:NEAREST]:
        function = corpus[index]
        line = f"  {scores[index]:.2f}  {signature(function)}  {function.summary}"
        lines.append(line[:width].rstrip())
    return "\n".join(lines)


def signature(function: Function) -> str:
    """Return a function as it is called."""
    return f"{function.module}.{function.name}({', '.join(function.parameters)})"


def explained_view(
    client: Client, question: str, candidates: Sequence[Function], width: int, colour: bool
) -> str:
    """Return the best candidate by a cross-encoder, and the words that its score rests on."""
    texts = [document_text(each) for each in candidates]
    [best] = client.rerank(question, texts, top_n=1, truncate="end")
    evidence = EvidenceSpec(method="occlusion", unit="word")
    comparison = client.compare(question, [best.document], evidence=evidence, truncate="end")
    places = [signature(candidates[best.index])]
    title = heading(f"Why this one of {len(candidates)} candidates: {question}", colour)
    words = comparison_text(
        comparison, question, [best.document], places, "word", BEST, width, colour
    )
    return f"{title}\n{words}"


def attention_view(attention: Attention, width: int, colour: bool) -> str:
    """Return the map of the head that attends most often from a bracket to its partner."""
    labels, special = attention.tokens.labels(CODE), attention.tokens.special
    pairs = [(q, k) for kind, q, k in links(labels) if kind == "matching bracket"]
    queries, keys = zip(*pairs, strict=True)
    matches = attention.weights[..., queries, :].argmax(axis=-1) == keys  # [L, H, brackets]
    layer, head = np.unravel_index(matches.mean(axis=-1).argmax(), matches.shape[:2])
    weights, right = attention.weights[layer, head], matches[layer, head].sum()
    title = heading(f"Attention in {CODE}", colour)
    role = (
        f"Layer {attention.layers[layer]}, head {head}: {right} of {len(keys)} brackets look most "
        "at their partner."
    )
    view = attention_map(weights, labels, width=width, colour=colour)
    strongest = strongest_links(weights, labels, special, most=LINKS)
    return f"{title}\n{role}\n{view}\n\nStrongest links\n{strongest}"


def heading(text: str, colour: bool) -> str:
    """Return `text` in bold, or as it is without colour."""
    return f"\x1b[1m{text}\x1b[0m" if colour else text


def page_port(log: IO[bytes]) -> int | None:
    """Return the port of the page by the service's log; None: there is no page."""
    port = re.search(rb'"api_port": (\d+)', Path(log.name).read_bytes())
    return None if port is None else int(port[1])


def print_how_to_go_on(target: str, metrics: str, page: int | None) -> None:
    """Print commands that call the running service, and the addresses of its pages."""
    beside = Path(sys.executable).parent / "headlight"
    program = beside if beside.is_file() else f"{Path(sys.executable).name} -m headlight"
    method = "headlight.v1.HeadlightService/Encode"
    print(f"""
Call it
  {program} embed --target {target} "parse a json document"
  {program} attend --target {target} "for line in file: print(line)"
  python: from headlight import Client; Client("{target}").encode(["parse a json document"])
  grpcurl -plaintext -d '{{"inputs": [{{"text": "parse a json document"}}]}}' {target} {method}
Metrics
  http://{metrics}/metrics""")
    if page is not None:
        print(f"Look at attention in a browser\n  http://127.0.0.1:{page}")


if __name__ == "__main__":
    sys.exit(main())
