"""Comparison by a decoder that reranks: the query stands first, and sees nothing of the passage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headlight import Encoder, InvalidInput
from headlight.cli.commands import main
from headlight.comparison import EvidenceSpec
from headlight.runtime import Runtime
from headlight_export.parity.reference import Masks, Reference
from headlight_model.checkpoint import load_checkpoint
from tests import scorers
from tests.factory import with_options
from tests.headlight.blocking import LoopThread
from tests.headlight.conftest import Pipe
from tests.headlight.interface.conftest import each_kind

KINDS = ("Runtime", "Client", "AsyncClient")
QUERY, PASSAGES = "red one", ["a planet is red.", "x", "green and more of it " * 3]
HIDE = EvidenceSpec(method="occlusion", unit="word")
ATTEND = EvidenceSpec(method="attention", unit="word", heads=(0, -1))
# The first begins with the query, so its first token can be hidden.
TEMPLATES = [["", " d ", " end"], ["q ", " d ", " end"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.folder(tmp_path_factory, "decoder")


@pytest.fixture(scope="module", params=TEMPLATES, ids=["bare", "template"])
def bundle(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    template = {"plain": request.param, "prompted": []}
    target = tmp_path_factory.mktemp("decoder") / "bundle"
    return with_options(folder / "bundle", target, pair_template=template)


@pytest.fixture(scope="module")
def decoders(bundle: Path, loop: LoopThread) -> Iterator[dict[str, Encoder]]:
    with each_kind(bundle, loop) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_is_pytorchs(decoders: dict[str, Encoder], folder: Path, kind: str) -> None:
    reference = Reference(load_checkpoint(folder / "checkpoint").eval())
    options: dict[str, Any] = {"evidence": [HIDE, ATTEND], "truncate": "end"}
    for passage in decoders[kind].compare(QUERY, PASSAGES, **options):
        assert passage.tokens is not None
        ids, special = np.array(passage.tokens.ids, np.int64), np.array(passage.tokens.special)
        of_passage = np.flatnonzero(~special & np.array(passage.tokens.segments, bool))
        whole = reference.outputs(ids)
        occluded, attended = passage.evidence
        assert occluded.query is not None
        for side in (occluded, occluded.query):
            for tokens, weight in zip(side.units, side.weights, strict=True):
                hidden = reference.outputs(ids, masks=Masks(occluded=cast(int, list(tokens))))
                fall = float(whole["scores"][0] - hidden["scores"][0])
                assert passage.score == pytest.approx(float(whole["scores"][0]), abs=1e-5)
                assert weight == pytest.approx(fall, abs=2e-5)
        row = whole["attention"][:, [0, -1]].mean(axis=(0, 1))[of_passage].mean(axis=0)
        assert attended.query is not None
        assert attended.special is not None
        sides: list[Any] = [attended, attended.query, attended.special]
        for side in sides:
            expected = [row[list(tokens)].sum() for tokens in side.units]
            np.testing.assert_allclose(side.weights, expected, atol=1e-5, rtol=0)
        assert min(side.weights.max() for side in sides[:2]) > 0.01, "both texts have weights"
        assert sum(side.weights.sum() for side in sides) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_passage_without_tokens_has_no_attention(decoders: dict[str, Encoder], kind: str) -> None:
    with pytest.raises(InvalidInput, match="has no token but special ones") as error:
        decoders[kind].compare(QUERY, ["a", " "], evidence=ATTEND)
    assert error.value.field == "passages[1]"


def test_a_rank_is_explained(bundle: Path, capsys: pytest.CaptureFixture[str], pipe: Pipe) -> None:
    pipe("\n".join(PASSAGES).encode())
    assert main(["rerank", QUERY, "--why", "--top-n", "2", "--local", str(bundle)]) == 0
    with Runtime(bundle, threads=1) as runtime:
        best = runtime.rerank(QUERY, PASSAGES)[0]
    out = capsys.readouterr().out
    assert f"{best.logit:.3f}" in out
    assert "how far the score falls without it" in out
