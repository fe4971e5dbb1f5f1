"""Parity of trained models' outputs with PyTorch in float32, on real text and one device."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.budget import Deadline
from bench.gpu.device import DTYPES, Device
from bench.gpu.interleaved import in_one_line
from bench.gpu.peers import reference
from bench.gpu.sizes import encoder_of
from bench.gpu.texts import read
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.encode_items import everything
from headlight.runtime.engine.batches import plan
from headlight.runtime.values import Floats, Ids
from headlight.spec import AttentionSpec
from headlight_model.encoder import Encoder

OUTPUTS = ("pooled", "tokens", "hidden", "attention", "scores")
WHOLE = 16  # texts of which every output is compared
TOGETHER = 4  # of them in a batch, so that most are padded
BATCH_TOKENS = 16384


def parity(
    bundles: Path, names: Sequence[str], device: Device, count: int, deadline: Deadline
) -> dict[str, Any]:
    """Return output distances, vector cosines and the self-test's result, by model and precision.

    `count`: of the texts. If time runs out, fewer are compared, and the result has their number.
    """
    result: dict[str, Any] = {name: {} for name in names}
    cases = [(name, precision) for name in names for precision in DTYPES]
    for at, (name, precision) in enumerate(cases):
        if at and deadline.over:
            result[name][precision] = {"error": "no time was left"}
            continue
        try:
            result[name][precision] = _of_one(
                bundles / name, precision, device, count, deadline.part(1 / (len(cases) - at))
            )
        except Exception as error:  # a failing precision is a finding, and no reason to stop
            result[name][precision] = {"error": in_one_line(error)}
    return result


def _of_one(
    bundle: Path, precision: str, device: Device, count: int, deadline: Deadline
) -> dict[str, Any]:
    runtime = Runtime(bundle, provider=device.provider, precision=precision, gpu=device.gpu)
    exact, manifest = reference(encoder_of(bundle.name), device), runtime.bundle.manifest
    texts = read(bundle / "tokenizer.json", manifest.max_length, count)
    return {
        "forms": sorted(
            {
                f"{graph.role}: {graph.form}"
                for graph in manifest.graphs
                if graph.precision == precision
            }
        ),
        "gate": _parity_check(runtime),
        **_outputs(
            runtime, exact, texts[:: max(1, len(texts) // WHOLE)], device, deadline.part(0.5)
        ),
        "cosine": cosines(runtime, exact, texts, device, deadline),
    }


def _parity_check(runtime: Runtime) -> str:
    """Return "" if the start-up self-test passes, else its message."""
    try:
        runtime.check_golden()
    except Exception as error:  # for any error the service would not have started
        return in_one_line(error)
    return ""


def _outputs(
    runtime: Runtime, exact: Encoder, texts: Sequence[Ids], device: Device, deadline: Deadline
) -> dict[str, Any]:
    """Return the largest distance of each output, and the number of texts.

    The texts are in ragged batches. Relative to the largest expected number, and absolute. The
    first batch always, the others as time permits.
    """
    compared, worst = 0, {output: {"relative": 0.0, "absolute": 0.0} for output in OUTPUTS}
    scores = runtime.select(attention=AttentionSpec(scores=True))
    for at in range(0, len(texts), TOGETHER):
        if at and deadline.over:
            break
        some = texts[at : at + TOGETHER]
        whole, before = (
            runtime.engine.run([EncodeItem(ids, selection) for ids in some])
            for selection in (everything(runtime.bundle.manifest.architecture), scores)
        )
        for ids, result, raw in zip(some, whole, before, strict=True):
            expected = expected_outputs(exact, ids, device)
            got = {name: getattr(result, name) for name in OUTPUTS[:-1]} | {"scores": raw.attention}
            for name in OUTPUTS:
                for kind, value in zip(
                    ("relative", "absolute"), distance(got[name], expected[name]), strict=True
                ):
                    worst[name][kind] = max(worst[name][kind], value)
            compared += 1
    return {"outputs": worst, "whole": compared}


def distance(got: Any, expected: Floats) -> tuple[float, float]:
    """Return max |got - expected|, over max |expected| and absolute; infinite if not finite."""
    absolute = float(np.abs(got.astype(np.float64) - expected).max())
    if not np.isfinite(absolute):
        return float("inf"), float("inf")
    return absolute / float(np.abs(expected).max()), absolute


def expected_outputs(exact: Encoder, ids: Ids, device: Device) -> dict[str, Floats]:
    """Return PyTorch's outputs of one text alone, without padding.

    pooled [D], tokens [n, D], hidden [L+1, n, D], twice [L, H, n, n].
    """
    with torch.inference_mode():
        out = exact(torch.from_numpy(ids)[None].to(device.torch), fused=False)
    outputs = {
        "pooled": out.pooled[0],
        "tokens": out.tokens[0],
        "hidden": torch.cat(out.hidden),
        "attention": torch.cat(out.attention),
        "scores": torch.cat(out.scores),
    }
    return {name: value.cpu().numpy() for name, value in outputs.items()}


def cosines(
    runtime: Runtime, exact: Encoder, texts: Sequence[Ids], device: Device, deadline: Deadline
) -> dict[str, float]:
    """Return least and mean cosine of pooled vectors with PyTorch's, and the number of texts.

    PyTorch encodes each text alone. In batches of near lengths: at least one text, the others as
    time permits.
    """
    values, alone = list[float](), Selection()  # one object for all items, as the service has it
    batches = plan([len(ids) for ids in texts], squared=False, tokens=BATCH_TOKENS)
    # Drawn: the plan begins with the longest, so a partial run would have one length.
    for rows in random.sample(batches, len(batches)):
        if values and deadline.over:
            break
        results = runtime.engine.run([EncodeItem(texts[row], alone) for row in rows])
        for row, result in zip(rows, results, strict=True):
            if values and deadline.over:
                break
            with torch.inference_mode():
                expected = (
                    exact(torch.from_numpy(texts[row])[None].to(device.torch))
                    .pooled[0]
                    .cpu()
                    .numpy()
                )
            values.append(cosine(result.pooled, expected))
    return {"least": min(values), "mean": float(np.mean(values)), "texts": len(values)}


def cosine(a: Any, b: Any) -> float:
    """Return the cosine of two vectors; NaN counts as -1."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    value = float(a @ b / np.sqrt((a @ a) * (b @ b)))
    return value if np.isfinite(value) else -1.0
