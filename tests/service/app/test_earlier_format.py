"""A bundle of the previous format, as an earlier version of the exporter wrote it."""

from __future__ import annotations

import json

import numpy as np

from headlight import AsyncClient
from headlight.runtime import Runtime
from headlight.runtime.bundle.manifest import PREVIOUS_VERSION
from headlight.span_vectors import Windows
from tests.bundles import FORMAT_3, FORMAT_3_ANSWERS
from tests.service.conftest import Serve


async def test_a_bundle_of_the_previous_format_serves_its_recorded_answers(serve: Serve) -> None:
    recorded = json.loads(FORMAT_3_ANSWERS.read_text(encoding="utf-8"))
    text = recorded["text"]
    runtime = Runtime(FORMAT_3, provider="cpu", threads=1)
    assert runtime.bundle.manifest.format_version == PREVIOUS_VERSION
    async with serve(runtime) as service, AsyncClient(service.target) as client:
        model = await client.model()
        # Replicas and resumed jobs identify a bundle by its digest.
        assert model.bundle_sha256 == recorded["bundle_sha256"]
        assert (model.task, model.labels) == ("embed", ())
        assert [*model.outputs] == recorded["outputs"]
        found = {
            "pooled": await client.encode(text),
            "attention": (await client.attend(text)).weights,
            "windows": (await client.span_vectors(text, spans=Windows(4, 1)))[0].vectors,
        }
    for name, values in found.items():
        np.testing.assert_allclose(values, recorded[name], atol=1e-5, err_msg=name)
