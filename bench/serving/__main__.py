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
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.frame.processes import ROOT, Failed
from bench.serving.contestants import Contestant, setting_of
from bench.serving.field import REAL, contestants
from bench.serving.measure import Run
from bench.serving.publish import write
from bench.serving.texts import COUNT

FEWEST = 32  # texts: those of one request
NAMES = {"minilm": "serving", "base": "serving-base"}  # of the work folder and the report
MAKERS = {"minilm": ("bench.minilm",), "base": ("bench.random_bert", "--size", "base")}


def parse() -> argparse.Namespace:
    """Parse the options; --quick changes the defaults of the others."""
    quick = argparse.ArgumentParser(add_help=False)
    quick.add_argument(
        "--quick", action="store_true", help="everything small: to see that it runs, not to measure"
    )
    small = quick.parse_known_args()[0].quick
    parser = argparse.ArgumentParser(
        prog="python -m bench.serving", description=__doc__, parents=[quick]
    )
    parser.add_argument("--size", choices=NAMES, default="minilm", help="of the model")
    parser.add_argument("--rounds", type=int, default=1 if small else 3)
    parser.add_argument("--texts", type=int, default=64 if small else COUNT, help="how many")
    parser.add_argument(
        "--open-seconds", type=float, default=2.0 if small else 20.0, help="of each open loop"
    )
    parser.add_argument(
        "--flood-seconds", type=float, default=2.0 if small else 30.0, help="of each flood"
    )
    parser.add_argument(
        "--deadline", type=float, default=2.0, help="seconds that a request of an open loop waits"
    )
    parser.add_argument("--no-peers", action="store_true", help="Headlight alone")
    parser.add_argument(
        "--only", nargs="*", metavar="TEXT", help="contestants whose names hold one of these"
    )
    parser.add_argument(
        "--bundle", type=Path, help="default: the model of --size, made and exported here"
    )
    parser.add_argument(
        "--tuned", type=Path, nargs="*", default=[], help="what `make tune` wrote: contestants more"
    )
    parser.add_argument(
        "--core-hour",
        type=float,
        default=0.04,
        metavar="PRICE",
        help="of one core, in your currency, for the table of costs",
    )
    parser.add_argument("--note", default="", help="what else ran on the machine, for the report")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    parser.add_argument(
        "--report",
        action="store_true",
        help="write the tables and plots of the last run's numbers anew",
    )
    options = parser.parse_args()
    if options.texts < FEWEST:
        parser.error(f"--texts must be at least {FEWEST}")
    return options


def prepared(options: argparse.Namespace, work: Path) -> tuple[Path, Path]:
    """Return model and bundle, made if missing."""
    model, bundle = work / "model", options.bundle or work / "bundle"
    if options.bundle is None and not (model / "modules.json").is_file():
        command = [f"{REAL}/bin/python", "-m", *MAKERS[options.size], str(work)]
        subprocess.run(command, cwd=ROOT, check=True)
    if not (bundle / "manifest.json").is_file():
        command = [sys.executable, "-m", "headlight", "export", str(model), "--out", str(bundle)]
        command += ["--provider", "openvino", "--precision", "int8"]
        subprocess.run(command, cwd=ROOT, check=True)
    return model.absolute(), bundle.absolute()


def started(everyone: Sequence[Contestant], skipped: dict[str, str]) -> list[Contestant]:
    """Return the contestants that can take part; the others are noted with the reason."""
    found = []
    for one in everyone:
        try:
            one.start()
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            skipped[one.name] = str(error).replace(f"{ROOT}/", "")
            one.close()
            print(f"without {one.name}: {error}", flush=True)
        else:
            found.append(one)
            print(f"with {one.name}", flush=True)
    return found


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
        found = run.all()
    finally:
        for one in taking_part:
            one.close()
        setting.load.close()
    seconds = time.monotonic() - begun
    return found | {
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
    numbers = options.out / f"{NAMES[options.size]}.json"
    if options.report:
        found = json.loads(numbers.read_text(encoding="utf-8"))
    else:
        found = measured(options) | {
            "command": shlex.join(["python", "-m", "bench.serving", *sys.argv[1:]])
            if sys.argv[1:]
            else "nox -s serving"
        }
        options.out.mkdir(parents=True, exist_ok=True)
        numbers.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write(options.out, NAMES[options.size], found | {"core_hour": options.core_hour})


if __name__ == "__main__":
    main()
