"""An output that is added by its module alone: the L2 norm of each token's vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from headlight.description import ModelDescription
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output
from headlight.outputs.registry import OUTPUTS
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.parity.golden_inputs import load_golden
from headlight.runtime.values import Architecture, Arrays, Floats
from headlight_service.core.requests.request import OutputSpec
from headlight_service.telemetry.metrics import Metrics
from tests.service.core.pipelines import answered, core, submit


class Norms(Output):
    """The length of each token's vector."""

    name = "norms"
    axes = ("token",)
    reads = ("tokens",)
    tolerance = "tokens"
    plain = "every token"

    def tensors(
        self, choice: Any, place: Any, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        return (Tensor("norms", "float32", (count,), self.axes),)

    def cut(self, choice: Any, item: Item, outputs: Arrays, row: int) -> Arrays:
        return {"norms": np.linalg.norm(outputs["tokens"][row, : len(item.ids)], axis=-1)}

    def expected(self, answers: Mapping[str, Floats]) -> Floats | None:
        lengths: Floats = np.linalg.norm(answers["tokens"], axis=-1)
        return lengths


@pytest.fixture(autouse=True)
def norms(monkeypatch: pytest.MonkeyPatch) -> Norms:
    output = Norms()
    monkeypatch.setitem(OUTPUTS, output.name, output)
    return output


def test_it_is_computed_beside_others(runtime: Runtime) -> None:
    results = runtime.encode_items(["a text", "a longer text of words"], tokens=True, norms=True)
    for result in results:
        lengths = np.linalg.norm(result["tokens"], axis=-1)
        np.testing.assert_allclose(result["norms"], lengths, rtol=1e-6)
    [alone] = runtime.encode_items(["a text"], pooled=False, norms=True)
    assert alone.keys() == {"norms"}
    np.testing.assert_allclose(alone["norms"], results[0]["norms"], atol=1e-5)


def test_its_size_is_known_before_anything_runs(runtime: Runtime) -> None:
    item = EncodeItem(np.arange(1, 9), Selection(norms=True))
    sizes = item.output_bytes(runtime.bundle.manifest.architecture)
    assert sizes["norms"] == runtime.engine.run([item])[0]["norms"].nbytes == 8 * 4


def test_it_is_compared_with_pytorch_at_the_start(
    runtime: Runtime, norms: Norms, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = load_golden(runtime.bundle)
    errors = [each.error for each in runtime.self_test.errors(golden) if each.output == "norms"]
    assert len(errors) >= len(golden) * len(runtime.engine.graph_roles)
    assert max(errors) < 1e-5
    monkeypatch.setattr(norms, "expected", lambda answers: np.zeros(len(answers["tokens"])))
    with pytest.raises(Exception, match="golden norms is off by"):
        runtime.check_golden()


def test_the_service_sizes_counts_and_cuts_it() -> None:
    with core() as made:
        answer = answered(submit(made, "a bb", "c", outputs=OutputSpec(norms=True)))
        sizes = {"norms": 3 * 4}
        assert {name: answer.prepared.output_bytes[name] for name in sizes} == sizes
        parts = [(part.tensor, part.item, part.array.shape) for part in answer.parts()]
        assert parts[1:] == [("norms", 0, (2,)), ("norms", 1, (1,))]
        assert made.sample("headlight_output_bytes_total", output="norms") == 12
    assert "norms" in Metrics().of("m").output_bytes
