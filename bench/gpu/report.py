"""Report of a run: its numbers as JSON, as Markdown and as a picture.

Missing values read "not measured".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.attention_forms import VECTORS_ALONE
from bench.frame.report import table
from bench.gpu.criteria import ALIKE, criteria, milliseconds
from bench.gpu.device import DTYPES
from bench.gpu.field import BARE, ENGINE
from bench.gpu.interleaved import in_one_line
from bench.gpu.parity import OUTPUTS
from bench.gpu.peers import COMPILED, FIXED, FUSED, PLAIN, UNMASKED

ABSENT = "not measured"
WIDENED = (
    "Of the engine and ONNX Runtime: weights in bf16, products in fp32. bf16 makes files smaller "
    "there and multiplies no faster; PyTorch multiplies in bf16."
)
CONTESTANTS = (ENGINE, BARE, PLAIN, FUSED, UNMASKED, COMPILED, FIXED)
Lines = list[str]


def lines(run: dict[str, Any]) -> Lines:
    """Return the whole report."""
    parts = [
        heading(run),
        ["## What was to be reached", "", *criteria_table(run)],
        ["## Against PyTorch", "", *parity_tables(run)],
        ["## Tokens a second", "", *speed_tables(run)],
        ["## One short text", "", *short_table(run)],
        ["## What attention costs", "", *attention_tables(run)],
        ["## Over the wire", "", *served_table(run)],
        ["## Not measured", "", *left_out(run)],
    ]
    return [line for part in parts for line in (*part, "")][:-1]


def heading(run: dict[str, Any]) -> Lines:
    device = run["device"]
    title = f"# On a GPU: {device['name']}" if not run["rehearsal"] else "# A rehearsal on a CPU"
    warning = "**Its figures say nothing of a GPU**: it shows that the program runs, and no more."
    ceilings = run.get("ceilings", {})
    peaks = ", ".join(f"{name} {ceilings[name]:.4g} TFLOP/s" for name in DTYPES if name in ceilings)
    copy = (
        f"; a copy within its memory, read and written, {ceilings['copy']:.4g} GB/s"
        if "copy" in ceilings
        else ""
    )
    gpu = [f"Driver and clocks, as found: {device['smi']}.", ""] if "smi" in device else []
    return [
        title,
        "",
        *([warning, ""] if run["rehearsal"] else []),
        (
            f"`{run['command']}` on {device['machine']}; {run['seconds']:.0f} s. "
            "Contestants take turns; medians, the device waited for."
        ),
        "",
        *gpu,
        f"The device at its best in this run: {peaks or ABSENT}{copy}.",
        *(["", f"![tokens a second]({run['picture']})"] if "picture" in run else []),
    ]


def criteria_table(run: dict[str, Any]) -> Lines:
    rows = []
    for one in criteria(run):
        limit = (
            "" if one.bound is None else f"{'at most' if one.at_most else 'at least'} {one.bound:g}"
        )
        value = ABSENT if one.value is None else f"{one.value:.6g}"
        verdict = "rehearsal" if run["rehearsal"] and one.value is not None else one.verdict
        rows.append((one.what, limit, value, "" if one.value is None else verdict, one.note))
    return table(("", "asked", "measured", "", ""), rows)


def parity_tables(run: dict[str, Any]) -> Lines:
    lines = [
        (
            "Largest distance over the largest number that PyTorch gives, in float32, TF32 off, "
            "of each text alone:"
        ),
        "",
    ]
    rows = []
    for name, by_precision in run.get("parity", {}).items():
        for precision, one in by_precision.items():
            if precision not in DTYPES:
                continue
            if "error" in one:
                rows.append((name, precision, *[ABSENT] * (len(OUTPUTS) + 4), one["error"]))
                continue
            outputs = (f"{one['outputs'][output]['relative']:.1e}" for output in OUTPUTS)
            cosine = (f"{one['cosine'][which]:.7f}" for which in ("least", "mean"))
            whole, texts = (str(n) for n in (one["whole"], one["cosine"]["texts"]))
            rows.append((name, precision, *outputs, whole, *cosine, texts, one["gate"] or "passes"))
    heads = ("", "", *OUTPUTS, "texts", "cosine of pooled, least", "mean", "texts", "start-up gate")
    return [*lines, *(table(heads, rows) if rows else [ABSENT])]


def speed_tables(run: dict[str, Any]) -> Lines:
    """Return a table for each encoder in each precision."""
    lines: Lines = []
    rows = run.get("speed", [])
    for size, precision in dict.fromkeys((row["size"], row["precision"]) for row in rows):
        mine = [row for row in rows if (row["size"], row["precision"]) == (size, precision)]
        lines += [f"### {size}, {precision}", ""]
        lines += [WIDENED, ""] if multiplied(precision) != precision else []
        lines += [f"{ABSENT}: {row['error']}" for row in mine if "error" in row]
        compiled = [
            f"{kind} {s:.0f} s"
            for row in mine
            if row.get("kind") == "compile"
            for kind, s in row["seconds"].items()
        ]
        timed = [row for row in mine if "times" in row]
        lines += [*speed_table(timed, run.get("ceilings", {}), precision), ""] if timed else [""]
        lines += [f"Compiling, not counted above: {', '.join(compiled)}.", ""] if compiled else []
    about = (
        "Thousands of real tokens a second, in brackets the milliseconds. Of the engine: "
        "operations on real tokens over the matrix peak, the least bytes that must move over the "
        "copy's, what it takes beyond ONNX Runtime alone, and ONNX Runtime's time to hand over a "
        f"batch, but for those that take long. {PLAIN} keeps the maps of all layers until a batch "
        f"is done; {FUSED} multiplies each layer's context by whether its rows see any token, "
        f"thought to be some 2 % of its time. {COMPILED} is compiled once for all batches and "
        "lengths and always given the mask: fair to it where texts are ragged, and less than it "
        "can do where they are all of one length. "
        "What it does then is measured at one of the lengths."
    )
    return [about, "", *lines[:-1]] if lines else [ABSENT]


def speed_table(
    rows: Sequence[dict[str, Any]], ceilings: dict[str, float], precision: str
) -> Lines:
    names = [name for name in CONTESTANTS if any(name in row["times"] for row in rows)]
    heads = (
        "",
        "texts",
        *names,
        f"engine: of the peak in {multiplied(precision)}",
        "of the copy",
        "beyond ONNX Runtime, ms a batch",
        "handing over, ms",
    )
    return table(heads, [_speed_row(row, names, ceilings, precision) for row in rows])


def _speed_row(
    row: dict[str, Any], names: Sequence[str], ceilings: dict[str, float], precision: str
) -> list[str]:
    what = {"length": f"batches of {row['length']}", "one text": f"one of {row['length']}"}
    label = what.get(
        row["kind"],
        f"{row['kind']}, batches of {row['length']} tokens, {row['padding']:.0%} padding",
    )
    cells = [_rate(row, name) for name in names]
    ms, bare = (milliseconds(row, name) for name in (ENGINE, BARE))
    peak, copy = ceilings.get(multiplied(precision)), ceilings.get("copy")
    shares = [
        f"{row['flops'] / ms / 1e9 / peak:.1%}" if ms and peak else ABSENT,
        f"{row['bytes'] / ms / 1e6 / copy:.1%}" if ms and copy else ABSENT,
    ]
    beyond = f"{(ms - bare) / row['batches']:.3f}" if ms and bare else ABSENT
    launch = "" if row["launch_ms"] is None else f"{row['launch_ms']:.3f}"
    return [label, str(row["texts"]), *cells, *shares, beyond, launch]


def multiplied(precision: str) -> str:
    """Return the precision of the engine's products."""
    return "fp32" if precision == "bf16" else precision


def _rate(row: dict[str, Any], name: str) -> str:
    if name not in row["times"]:
        return ""
    ms, cosine = milliseconds(row, name), row["cosines"].get(name)
    if ms is not None:
        return f"{row['tokens'] / ms:,.1f} ({ms:.2f})"
    why = row["times"][name].get("error") or (cosine if isinstance(cosine, str) else "")
    if not why:
        why = "no time" if cosine is None or cosine >= ALIKE else f"cosine {cosine:.4f}"
    return f"{ABSENT}: {why:.80}"


def short_table(run: dict[str, Any]) -> Lines:
    section = run.get("one short text", {})
    rows = [
        (
            name,
            *(
                [
                    f"{one['p50_ms']:.3f}",
                    f"{one['p99_ms']:.3f}",
                    str(one["tokens"]),
                    str(one["calls"]),
                ]
            ),
        )
        if "p50_ms" in one
        else (name, ABSENT, ABSENT, "", one["error"])
        for name, one in section.get("precisions", {}).items()
    ]
    return (
        table((section.get("encoder", ""), "p50 ms", "p99 ms", "tokens", "calls"), rows)
        if rows
        else [ABSENT]
    )


def attention_tables(run: dict[str, Any]) -> Lines:
    rows = run.get("attention", [])
    forms = list(dict.fromkeys(form for row in rows for form in row.get("times", {})))
    heads = ["", *(f"{row['size']}, {row['texts']} x {row['length']}" for row in rows)]
    body = [[form, *(_cost(row, form) for row in rows)] for form in forms]
    failed = [
        f"- {row['size']}, {row['texts']} x {row['length']}: {ABSENT}: {row['error']}"
        for row in rows
        if "error" in row
    ]
    return [*(table(heads, body) if body else [ABSENT]), *(["", *failed] if failed else [])]


def _cost(row: dict[str, Any], form: str) -> str:
    times = row.get("times", {})
    ms, alone = (times.get(name, {}).get("ms") for name in (form, VECTORS_ALONE))
    return f"{ms:.2f} ms ({ms / alone:.2f}x)" if ms and alone else ABSENT


def served_table(run: dict[str, Any]) -> Lines:
    section = run.get("served", {})
    if not section.get("measured"):
        return [ABSENT]
    rows = []
    for name, by_workload in section["measured"].items():
        if "texts_per_s" in by_workload:
            label = f"batches of {by_workload['batch_tokens']} tokens, its best"
            rows.append((name, label, f"{by_workload['texts_per_s']:.0f}", "", "", ""))
            continue
        for workload, one in by_workload.items():
            cells = [
                f"{one[key]:.2f}" if one[key] is not None else ""
                for key in ("p50_ms", "p99_ms", "cpu_ms")
            ]
            rows.append((name, workload, f"{one['texts_per_s']:.0f}", *cells))
    failed = [f"- {name}: {ABSENT}: {error}" for name, error in section["failed"].items()]
    about = (
        f"{section['encoder']} in {section['precision']}, `{' '.join(section['flags'])}`; "
        f"batches and messages of {section['group']} texts."
    )
    heads = ("", "", "texts/s", "p50 ms", "p99 ms", "CPU ms a text")
    return [about, "", *table(heads, rows), *(["", *failed] if failed else [])]


def left_out(run: dict[str, Any]) -> Lines:
    lines = [
        f"- {section}: there was no time for {'; '.join(what)}"
        for section, what in run["cut"].items()
    ]
    lines += [f"- {section}: {error}" for section, error in run["failed"].items()]
    return lines or ["Nothing was left out for want of time."]


PICTURE = "gpu.png"


def write(run: dict[str, Any], out: Path) -> None:
    """Write gpu.json and gpu.md of the results so far."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(run), indent=1, allow_nan=False)
    (out / "gpu.json").write_text(text + "\n", encoding="utf-8")
    (out / "gpu.md").write_text("\n".join(lines(run)) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Return a value for JSON: "inf" or "nan", which float() reads, if a number is not finite."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def draw(run: dict[str, Any], out: Path) -> None:
    """Draw the picture if possible: the numbers are useful without it.

    The report shows it only then.
    """
    try:
        throughput(run, out / PICTURE)
        run["picture"] = PICTURE
    except Exception as error:  # for any error of the library; it must not lose a measured run
        run["failed"]["picture"] = in_one_line(error)


FASTEST = ("fp16", "bf16", "fp32")  # the first measured one is shown


def throughput(run: dict[str, Any], path: Path) -> None:
    """Draw batches of one length, logarithmic both ways: tokens a second, a panel an encoder."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  (not everywhere)

    from bench.serving.plots import save  # noqa: PLC0415  (imports it too)

    rows = [row for row in run.get("speed", []) if row.get("kind") == "length"]
    sizes = list(dict.fromkeys(row["size"] for row in rows)) or [""]
    figure, axes = plt.subplots(1, len(sizes), figsize=(5.2 * len(sizes), 4.2), squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        mine = [row for row in rows if row["size"] == size]
        precision = next(
            (one for one in FASTEST if any(row["precision"] == one for row in mine)), ""
        )
        for at, name in enumerate(CONTESTANTS):
            points = sorted(
                (row["length"], row["tokens"] / ms)
                for row in mine
                if row["precision"] == precision and (ms := milliseconds(row, name))
            )
            if points:
                axis.loglog(*zip(*points, strict=True), "o-", color=f"C{at}", label=name)
        axis.set_title(f"{size}, {precision}" if size else "not measured", fontsize=10)
        axis.set_xlabel("tokens of each text")
        axis.set_ylabel("thousand tokens/s")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    if axes[0][0].has_data():
        axes[0][0].legend(fontsize=7)
    name = (
        "A REHEARSAL ON A CPU: says nothing of a GPU" if run["rehearsal"] else run["device"]["name"]
    )
    figure.suptitle(name, fontsize=9)
    save(figure, path)
