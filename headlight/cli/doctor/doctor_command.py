"""`headlight doctor`: a report of packages, providers, machine, cache and ports."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import headlight
from headlight.archive import to_json
from headlight.cli.cache_command import facts as model_facts
from headlight.cli.doctor.checks import (
    GoldenRun,
    Installed,
    Provider,
    installed_packages,
    machine_facts,
    run_golden_inputs,
    usable_providers,
)
from headlight.cli.doctor.default_ports import Port, default_ports
from headlight.cli.files import show, terminal_width
from headlight.cli.output_files import count_text, size_text
from headlight.cli.result_output import aligned
from headlight.command_parser import examples_text
from headlight.errors import HeadlightError
from headlight.model_store.model_cache import cache_folder, entries
from headlight.model_store.model_source import ModelSourceError

EXAMPLES = ("headlight doctor", "headlight doctor --format json")
TUNING = (
    "`headlight tune BUNDLE` finds the fastest options of a service here; the precision is "
    "never tuned"
)
NO_MODEL = (
    "no model is here to try; `headlight serve BUNDLE --check` runs the golden inputs of a bundle"
)
Rows = list[tuple[str, ...]]


def add_doctor(commands: Any) -> None:
    """Add the command and its options."""
    made = commands.add_parser(
        "doctor",
        help="what is installed here, and what this machine can run",
        usage="headlight doctor [OPTION]...",
        description=(
            "What is installed here, and what this machine can run. No service is needed.\n"
            "Golden inputs of the shipped model, or of the newest in the cache, are run.\n"
            "The exit code is 1 if something that is installed is broken."
        ),
        epilog=examples_text(EXAMPLES),
    )
    made.add_argument("--format", choices=("text", "json"), help="default: text")
    made.set_defaults(run=run_doctor, out=None)


def run_doctor(arguments: argparse.Namespace) -> None:
    """Run `headlight doctor`. Raises HeadlightError, after the report, if something is broken."""
    packages, providers = installed_packages(), usable_providers()
    golden = run_golden_inputs(providers)
    cache, machine, ports = cache_facts(), machine_facts(), default_ports()
    problems = [problem for each in packages for problem in each.problems]
    problems += [f"provider {each.name} {each.detail}" for each in providers if each.broken]
    problems += [
        f"golden inputs on {each.provider}: {each.problem}" for each in golden if each.problem
    ]
    problems += [cache["problem"]] if cache["problem"] else []
    if arguments.format == "json":
        report = {
            "headlight": headlight.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": [dataclasses.asdict(each) for each in packages],
            "providers": [dataclasses.asdict(each) for each in providers],
            "golden_inputs": [dataclasses.asdict(each) for each in golden],
            **machine,
            "cache": cache,
            "ports": [dataclasses.asdict(each) for each in ports],
            "problems": problems,
        }
        show(f"{to_json(report)}\n", "json")
    else:
        sections: dict[str, Rows] = {
            "packages": package_rows(packages),
            "providers": provider_rows(providers),
            "golden inputs": golden_rows(golden),
            "machine": machine_rows(machine),
            "cache": cache_rows(cache),
            "ports": port_rows(ports),
            "tuning": [(TUNING,)],
        }
        width = terminal_width()
        parts = (section_text(name, rows, width) for name, rows in sections.items())
        show("\n\n".join((title(), *parts)) + "\n")
    if problems:
        raise HeadlightError("; ".join(dict.fromkeys(problems)))


def title() -> str:
    """Return the versions of Headlight, Python and the system."""
    python, system = platform.python_version(), f"{platform.system()} {platform.machine()}"
    return f"headlight {headlight.__version__}, Python {python}, {system}"


def section_text(name: str, rows: Rows, width: int | None) -> str:
    """Return a section: its name, and its rows of aligned columns below it."""
    return "\n".join((name, *aligned([("", *row) for row in rows], width)))


def package_rows(packages: list[Installed]) -> Rows:
    """Return a row for each extra."""
    rows = Rows()
    for each in packages:
        have = ", ".join(f"{name} {version}" for name, version in each.versions.items())
        lacks = f"{', '.join(each.missing)}: {each.remedy}" if each.missing else ""
        state = "broken" if each.problems else "missing" if each.missing else "ok"
        rows.append((each.extra, state, lacks if each.missing else have))
    return rows


def provider_rows(providers: list[Provider]) -> Rows:
    """Return a row for each provider."""
    return [
        (
            each.name,
            "ok" if each.precisions else "broken" if each.broken else "no",
            "; ".join(filter(None, (", ".join(each.precisions), each.detail))),
        )
        for each in providers
    ]


def golden_rows(golden: list[GoldenRun]) -> Rows:
    """Return a row for each provider that ran golden inputs."""
    return [
        (
            each.provider,
            "broken" if each.problem else "ok",
            each.problem or f"{each.model}: PyTorch's answers, within the tolerance",
        )
        for each in golden
    ] or [(NO_MODEL,)]


def machine_rows(machine: dict[str, dict[str, Any]]) -> Rows:
    """Return rows for CPU, features, cores and memory."""
    cpu, cores, memory = machine["cpu"], machine["cores"], machine["memory"]
    features = cpu["features"] or {}
    have = [name for name, there in features.items() if there]
    lacks = [name for name, there in features.items() if not there]
    feature_texts = [", ".join(have) or "none", f"without {', '.join(lacks)}" if lacks else ""]
    quota = cores["cgroup_quota"]
    limits = [
        f"{cores['machine']} in the machine",
        f"affinity {cores['affinity']}" if cores["affinity"] else "",
        f"cgroup quota {quota:g}" if quota else "no cgroup quota",
    ]
    rows: Rows = [
        ("cpu", cpu["model"]),
        ("features", "; ".join(filter(None, feature_texts)) if features else "not known"),
        ("cores", f"{cores['usable']} usable: {', '.join(filter(None, limits))}"),
    ]
    if memory["total_bytes"] is not None:
        limit, used = memory["cgroup_limit_bytes"], memory["cgroup_used_bytes"]
        free = f"{size_text(memory['available_bytes'])} free of {size_text(memory['total_bytes'])}"
        grouped = f"cgroup: {size_text(used or 0)} used of {size_text(limit)}" if limit else ""
        rows.append(("memory", f"{free}; {grouped or 'no limit of a cgroup'}"))
    return [*rows, ("python", sys.executable)]


def cache_facts() -> dict[str, Any]:
    """Return folder, contents and free space of the cache, and what is wrong with it."""
    facts: dict[str, Any] = {
        "folder": None,
        "models": [],
        "bytes": 0,
        "free_bytes": None,
        "problem": None,
    }
    try:
        folder = cache_folder(os.environ)
        facts["folder"] = str(folder)
        models = entries(os.environ)
        facts["models"] = [entry.folder.name for entry in models]
        damaged = [row["key"] for row in map(model_facts, models) if not row["precisions"]]
        facts["bytes"] = sum(entry.size for entry in models)
        there = next(each for each in (folder, *folder.parents) if each.exists())
        facts["free_bytes"] = shutil.disk_usage(there).free
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            facts["problem"] = f"the cache {folder} cannot be written; set HEADLIGHT_CACHE"
        elif damaged:
            keys = " ".join(damaged)
            facts["problem"] = f"the cache has damaged models; `headlight cache remove {keys}`"
    except (ModelSourceError, OSError) as error:
        facts["problem"] = f"the cache cannot be used: {error}"
    return facts


def cache_rows(cache: dict[str, Any]) -> Rows:
    """Return rows for the folder and its models."""
    if cache["problem"]:
        return [("broken", str(cache["problem"]))]
    count = len(cache["models"])
    held = f"{count_text(count, 'model')}, {size_text(cache['bytes'])}; see `headlight cache list`"
    return [
        ("folder", home_text(cache["folder"])),
        ("holds", held if count else "no model"),
        ("disk", f"{size_text(cache['free_bytes'])} free"),
    ]


def port_rows(ports: list[Port]) -> Rows:
    """Return a row for each port."""
    words = {"free": "free", "headlight": "headlight", "other": "in use"}
    return [
        (each.address, words[each.state], f"{each.purpose}{each.detail and ': '}{each.detail}")
        for each in ports
    ]


def home_text(folder: str) -> str:
    """Return a folder with ~ for that of the user."""
    home = os.environ.get("HOME")
    within = home and Path(folder).is_relative_to(home)
    return f"~/{Path(folder).relative_to(home)}" if home and within else folder
