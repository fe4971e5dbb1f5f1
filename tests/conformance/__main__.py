"""Check what clients rely on: python -m tests.conformance URL --dialect openai|tei|cohere|oip."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.checks import Options, Outcome, Result, Suite
from tests.conformance.cohere import COHERE, Cohere
from tests.conformance.http_client import NoAnswer
from tests.conformance.oip import OIP, Oip
from tests.conformance.openai import OPENAI, OpenAI
from tests.conformance.tei import TEI, Tei
from tests.conformance.transports import http_server, transport

Made = Callable[[str, str, Options], Any]
DIALECTS: dict[str, tuple[Suite[Any], Made]] = {
    "openai": (OPENAI, lambda url, token, o: OpenAI(http_server(url, token, o.seconds), o)),
    "tei": (TEI, lambda url, token, o: Tei(http_server(url, token, o.seconds), o)),
    "cohere": (COHERE, lambda url, token, o: Cohere(http_server(url, token, o.seconds), o)),
    "oip": (OIP, lambda url, token, o: Oip(transport(url, token, o.seconds), o)),
}
WIDTH = 15  # of "not applicable" and a space


def run(
    dialect: str,
    url: str,
    options: Options,
    token: str = "",
    only: Sequence[str] = (),
    show: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """Return the results of a dialect's checks; `only`: of these.

    Raises:
        ValueError: the URL or an option is wrong.
        NoAnswer: nothing answers there.
    """
    suite, make = DIALECTS[dialect]
    api = make(url, token, options)
    results = []
    for check in suite.checks:
        if not only or check.name in only:
            results.append(check.result(api))
            show(results[-1])
    return results


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    made.add_argument(
        "url", metavar="URL", help="as a client of the dialect gets it; oip: also grpc://HOST:PORT"
    )
    made.add_argument("--dialect", choices=sorted(DIALECTS), required=True)
    made.add_argument("--model", default="", help="name of the model; openai: by default the first")
    made.add_argument("--rerank-model", default="", help="cohere: model that reranks, if another")
    made.add_argument("--token", default="", help="sent as Authorization: Bearer TOKEN")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file")
    made.add_argument("--name", default="", help="name of the server in that file")
    made.add_argument("--only", nargs="+", default=[], metavar="CHECK", help="names of checks")
    made.add_argument(
        "--tolerance",
        type=float,
        default=Options.tolerance,
        help="largest difference of numbers that should be equal (%(default)s)",
    )
    made.add_argument(
        "--words",
        type=int,
        default=Options.words,
        help="words of a text that is too long (%(default)s)",
    )
    made.add_argument(
        "--seconds",
        type=float,
        default=Options.seconds,
        help="longest wait for an answer (%(default)s)",
    )
    made.add_argument(
        "--overload",
        type=int,
        default=0,
        metavar="N",
        help="send up to N requests at once (by default none)",
    )
    made.add_argument(
        "--list", action="store_true", help="list the checks with their sources, and send nothing"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; return 1 if one fails, and 2 if they cannot run."""
    given = parser().parse_args(arguments)
    suite = DIALECTS[given.dialect][0]
    if given.list:
        for check in suite.checks:
            print(f"{check.name:24} {check.source}")
        return 0
    unknown = set(given.only) - {each.name for each in suite.checks}
    if unknown:
        print(
            f"--only: {', '.join(sorted(unknown))} is not a check; --list names them",
            file=sys.stderr,
        )
        return 2
    options = Options(
        model=given.model,
        rerank_model=given.rerank_model,
        tolerance=given.tolerance,
        words=given.words,
        seconds=given.seconds,
        overload=given.overload,
    )

    def show(each: Result) -> None:
        print(f"{each.outcome:{WIDTH}}{each.name:24}{each.reason}", flush=True)

    try:
        results = run(given.dialect, given.url, options, given.token, given.only, show)
    except (ValueError, NoAnswer) as error:
        print(f"{given.url}: {error}", file=sys.stderr)
        return 2
    counts = {outcome: sum(each.outcome is outcome for each in results) for outcome in Outcome}
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    if given.json is not None:
        rows = [vars(each) for each in results]
        named = {"server": given.name or given.url, "model": given.model}
        body = {"dialect": given.dialect, **named, "checks": rows}
        given.json.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return int(counts[Outcome.FAIL] > 0)


if __name__ == "__main__":
    sys.exit(main())
