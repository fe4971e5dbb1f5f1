"""Headlight beside its peers: the same weights, texts and machine, in turns within one run.

    nox -s serving
    python -m bench.serving --quick --no-peers --bundle build/bundles/docs-rope
    python -m bench.serving --size base --texts 128

writes serving.md, serving.json and plots into bench/results; for BERT-base's size serving-base.md
and serving-base.json, of the closed loops alone.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.frame.processes import ROOT, Failed
from bench.frame.report import command, parser, publish, save
from bench.serving import plots, report
from bench.serving.contestants import Contestant, setting_of
from bench.serving.field import REAL, contestants
from bench.serving.measure import Run
from bench.serving.plots import quality
from bench.serving.workloads import COUNT

FEWEST = 32  # texts: those of one request
NAMES = {"minilm": "serving", "base": "serving-base"}  # of the work folder and the report
QUICK = "everything small: to see that it runs, not to measure"
MAKERS = {"minilm": ("bench.minilm",), "base": ("bench.random_bert", "--size", "base")}


def parse() -> argparse.Namespace:
    """Parse the options; --quick changes the defaults of the others."""
    quick = argparse.ArgumentParser(add_help=False)
    quick.add_argument("--quick", action="store_true")
    small = quick.parse_known_args()[0].quick
    made = parser("bench.serving", __doc__, "", rounds=1 if small else 3)
    made.add_argument("--quick", action="store_true", help=QUICK)
    made.add_argument("--size", choices=NAMES, default="minilm", help="of the model")
    made.add_argument("--texts", type=int, default=64 if small else COUNT, help="how many")
    made.add_argument(
        "--open-seconds", type=float, default=2.0 if small else 20.0, help="of each open loop"
    )
    made.add_argument(
        "--flood-seconds", type=float, default=2.0 if small else 30.0, help="of each flood"
    )
    made.add_argument(
        "--deadline", type=float, default=2.0, help="seconds that a request of an open loop waits"
    )
    made.add_argument("--no-peers", action="store_true", help="Headlight alone")
    made.add_argument(
        "--only", nargs="*", metavar="TEXT", help="contestants whose names hold one of these"
    )
    made.add_argument(
        "--bundle", type=Path, help="default: the model of --size, made and exported here"
    )
    made.add_argument(
        "--tuned", type=Path, nargs="*", default=[], help="what `make tune` wrote: contestants more"
    )
    made.add_argument(
        "--core-hour",
        type=float,
        default=0.04,
        metavar="PRICE",
        help="of one core, in your currency, for the table of costs",
    )
    made.add_argument("--note", default="", help="what else ran on the machine, for the report")
    made.add_argument(
        "--report",
        action="store_true",
        help="write the tables and plots of the last run's numbers anew",
    )
    options = made.parse_args()
    if options.texts < FEWEST:
        made.error(f"--texts must be at least {FEWEST}")
    return options


def prepared(options: argparse.Namespace, work: Path) -> tuple[Path, Path]:
    """Return model and bundle, made if missing."""
    model, bundle = work / "model", options.bundle or work / "bundle"
    if options.bundle is None and not (model / "modules.json").is_file():
        made = [f"{REAL}/bin/python", "-m", *MAKERS[options.size], str(work)]
        subprocess.run(made, cwd=ROOT, check=True)
    if not (bundle / "manifest.json").is_file():
        export = [sys.executable, "-m", "headlight", "export", str(model), "--out", str(bundle)]
        export += ["--provider", "openvino", "--precision", "int8"]
        subprocess.run(export, cwd=ROOT, check=True)
    return model.absolute(), bundle.absolute()


def started(everyone: Sequence[Contestant], skipped: dict[str, str]) -> list[Contestant]:
    """Return the contestants that can take part; the others are noted with the reason."""
    result = []
    for one in everyone:
        try:
            one.start()
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            skipped[one.name] = str(error).replace(f"{ROOT}/", "")
            one.close()
            print(f"without {one.name}: {error}", flush=True)
        else:
            result.append(one)
            print(f"with {one.name}", flush=True)
    return result


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Return the results of the whole run."""
    begun = time.monotonic()
    work = Path("build") / NAMES[options.size]
    model, bundle = prepared(options, work)
    setting = setting_of(work, model, bundle, options.texts)
    everyone = contestants(setting, options)
    skipped: dict[str, str] = {}
    taking_part = started(everyone, skipped)
    try:
        run = Run(setting, taking_part, options)
        result = run.all()
    finally:
        for one in taking_part:
            one.close()
        setting.load.close()
    seconds = time.monotonic() - begun
    return result | {
        "skipped": skipped | run.dropped,
        "seconds": seconds,
        "tokens": setting.tokens,
        "note": options.note,
        "size": options.size,
    }


def main() -> None:
    # Ending the run ends its servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = parse()
    random.seed(0)
    numbers = options.out / f"{NAMES[options.size]}.json"
    if options.report:
        result = json.loads(numbers.read_text(encoding="utf-8"))
    else:
        result = measured(options) | {
            "command": command("bench.serving") if sys.argv[1:] else "nox -s serving"
        }
        save(numbers, result)
    result["core_hour"] = options.core_hour
    if result["size"] != "base":
        plots.throughput(result, options.out / "serving-throughput.png")
        plots.open_loop(result, options.out / "serving-open-loop.png")
        quality(result, options.out / "serving-quality.png")
    publish(options.out / f"{NAMES[options.size]}.md", report.lines(result))


if __name__ == "__main__":
    main()
