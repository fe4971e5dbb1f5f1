"""Forms of attention that a provider computes: the operator in each mode, and whole encoders.

ONNX has an operator `Attention` since opset 23. It can also return intermediate values: the scores
(mode 0) or the weights after the softmax (mode 3). The other form is MatMul, Add, Softmax, MatMul,
as in bundles.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.gpu.bare import Bare
from bench.gpu.device import DTYPES, Device
from bench.gpu.interleaved import in_one_line
from bench.gpu.parity import distance
from bench.gpu.peers import Unmasked
from headlight.runtime.values import Floats
from headlight_model.encoder import Encoder

OPSET = 23
FOLDER = "forms"  # beside the bundles
SHAPE = (2, 4, 24, 32)  # texts, heads, tokens, width of a head
WEIGHTS = "weights behind the softmax"
MODES = {0: "scores without the mask", 3: WEIGHTS}
PLAIN = -1  # instead of a mode: plain operations
ONNX_TYPES = {"fp32": "FLOAT", "fp16": "FLOAT16", "bf16": "BFLOAT16"}


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to write the encoder.

    Attributes:
        fused: by the operator `Attention`; else in plain operations.
        masked: whether padding is hidden; if not, batches are of one length.
        precision: of everything in the graph.
    """

    name: str
    fused: bool
    masked: bool
    precision: str

    @property
    def file(self) -> str:
        return self.name.replace(", ", "-").replace(" ", "-").lower() + ".onnx"


FORMS = (
    Form("plain operations, all in fp16", False, True, "fp16"),
    Form("Attention, all in fp32", True, True, "fp32"),
    Form("Attention, all in fp16", True, True, "fp16"),
    Form("Attention, all in fp16, no mask", True, False, "fp16"),
    Form("Attention, all in bf16, no mask", True, False, "bf16"),
)


class Square(Encoder):
    """Encoder with a row of the mask for each query, as ONNX Runtime's operator needs."""

    def visible(self, keep: Tensor, window: int = 0) -> Tensor:
        return super().visible(keep, window).expand(-1, -1, keep.shape[1], -1)


def write_forms(encoder: Encoder, folder: Path) -> None:
    """Write the graph of each form, its weights beside it. Existing files stay."""
    import onnx  # noqa: PLC0415  (not needed if the files exist)

    from headlight_export.writer.graphs import OPSET as PLAIN_OPSET  # noqa: PLC0415
    from headlight_export.writer.graphs import Embed, traced  # noqa: PLC0415
    from headlight_export.writer.weight_file import share_weights  # noqa: PLC0415

    class Formed(Embed):
        def __init__(self, encoder: Encoder, form: Form) -> None:
            super().__init__(encoder)
            self.fused = form.fused
            self.outputs = ("pooled",)
            self.inputs = ("ids", "mask")

        def forward(self, ids: Tensor, mask: Tensor, *_others: Any) -> tuple[Tensor, ...]:
            return (self.encoder(ids, mask, fused=self.fused).pooled.float(),)

    folder.mkdir(parents=True, exist_ok=True)
    for form in (form for form in FORMS if not (folder / form.file).is_file()):
        model = traced(Formed(formed(encoder, form), form), OPSET if form.fused else PLAIN_OPSET)
        share_weights([model], folder / f"{form.file}.bin")
        onnx.save(model, folder / form.file)


def formed(encoder: Encoder, form: Form) -> Encoder:
    """Return the encoder in a form and its precision, on the CPU."""
    copied = copy.deepcopy(encoder).to(DTYPES[form.precision])
    copied.__class__ = (
        Square if form.masked and form.fused else Encoder if form.masked else Unmasked
    )
    return copied


def operator_table(device: Device) -> list[dict[str, Any]]:
    """Return the operator's distance from NumPy, or its error, by precision, mask and mode.

    Plain operations come last.
    """
    rows = []
    for precision in ONNX_TYPES:
        for masked in (False, True):
            for mode in (None, *MODES):
                about: dict[str, Any] = {"precision": precision, "masked": masked}
                about["gives"] = "context alone" if mode is None else MODES[mode]
                rows.append(about | _tried(device, precision, masked, mode))
        rows.append(
            {"precision": precision, "masked": True, "gives": f"plain operations: {WEIGHTS}"}
        )
        rows[-1] |= _tried(device, precision, True, PLAIN)
    return rows


def _tried(device: Device, precision: str, masked: bool, mode: int | None) -> dict[str, Any]:
    try:
        return _distances(device, precision, masked, mode)
    except Exception as error:  # the error is the result
        return {"error": in_one_line(error)}


def _distances(device: Device, precision: str, masked: bool, mode: int | None) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    values = {
        name: rng.standard_normal(SHAPE, dtype=np.float32) for name in ("query", "key", "value")
    }
    visible = np.ones((SHAPE[0], 1, SHAPE[2], SHAPE[2]), dtype=np.bool_)
    if masked:
        visible[0, ..., 17:] = False
    inputs = {name: torch.from_numpy(array).to(device.torch) for name, array in values.items()}
    added = np.where(visible, 0.0, -1e30 if precision != "fp16" else -6e4).astype(np.float32)
    inputs["added"] = torch.from_numpy(added).to(device.torch)
    shapes = {"context": SHAPE, "maps": (*SHAPE[:3], SHAPE[2])}
    names = ("context",) if mode is None else ("context", "maps")
    outputs = {name: torch.full(shapes[name], float("nan"), device=device.torch) for name in names}
    device.wait()
    # Alone: a fallback kernel on the CPU would answer another question.
    session = Bare(_graph(precision, masked, mode), device, alone=True)
    session.run(session.bind(inputs, outputs))
    expected = _expected(values, added, mode)
    return {
        name: distance(value.cpu().numpy(), expected[name])[1] for name, value in outputs.items()
    }


def _expected(values: dict[str, Floats], added: Floats, mode: int | None) -> dict[str, Any]:
    """Return NumPy's result, in float64."""
    query, key, value = (values[name].astype(np.float64) for name in ("query", "key", "value"))
    raw = query @ key.swapaxes(-1, -2) / np.sqrt(SHAPE[3])
    scores = raw + added
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    maps = raw if mode == 0 else weights
    return {"context": weights @ value, "maps": maps}


def _graph(precision: str, masked: bool, mode: int | None) -> bytes:
    """Return a graph with float32 in and out, the precision between. mode None: no maps."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    kind = getattr(TensorProto, ONNX_TYPES[precision])
    names = ("query", "key", "value", *(("added",) if masked else ()))
    nodes = [helper.make_node("Cast", [name], [f"{name}.in"], to=kind) for name in names]
    shapes = dict.fromkeys(("query", "key", "value"), SHAPE) | {
        "added": (SHAPE[0], 1, SHAPE[2], SHAPE[2])
    }
    outputs = ["context"] if mode is None else ["context", "maps"]
    nodes += _plain() if mode == PLAIN else [_operator([f"{name}.in" for name in names], mode)]
    nodes += [
        helper.make_node("Cast", [f"{name}.out"], [name], to=TensorProto.FLOAT) for name in outputs
    ]
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [helper.make_tensor("scale", kind, [1], [SHAPE[3] ** -0.5])] if mode == PLAIN else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    content: bytes = model.SerializeToString()
    return content


def _operator(inputs: list[str], mode: int | None) -> Any:
    from onnx import helper  # noqa: PLC0415

    if mode is None:
        return helper.make_node("Attention", inputs, ["context.out"])
    inputs += [""] * (6 - len(inputs))  # no past
    outputs = ["context.out", "", "", "maps.out"]
    return helper.make_node("Attention", inputs, outputs, qk_matmul_output_mode=mode)


def _plain() -> Iterator[Any]:
    from onnx import helper  # noqa: PLC0415

    yield helper.make_node("Transpose", ["key.in"], ["turned"], perm=[0, 1, 3, 2])
    yield helper.make_node("MatMul", ["query.in", "turned"], ["products"])
    yield helper.make_node("Mul", ["products", "scale"], ["scaled"])
    yield helper.make_node("Add", ["scaled", "added.in"], ["scores"])
    yield helper.make_node("Softmax", ["scores"], ["maps.out"], axis=-1)
    yield helper.make_node("MatMul", ["maps.out", "value.in"], ["context.out"])
