"""Overlays have the sizes that `headlight info --resources` computes."""

from __future__ import annotations

import pytest

from deploy.check import kserve
from deploy.check.invariants import needed
from deploy.check.manifests import quantity, server
from tests.deploy.breaking import CPU
from tests.deploy.conftest import Load

EMBEDDINGS = "overlays/embeddings"


@pytest.mark.parametrize("folder", [CPU, EMBEDDINGS, "overlays/dev", "examples/kserve"])
def test_memory_is_that_of_the_command(load: Load, folder: str) -> None:
    manifests = kserve.deployments(load(folder))
    [(_, container)] = server(manifests)
    assert (
        quantity(container["resources"]["limits"]["memory"]) == needed(manifests, container).memory
    )


def test_embeddings_serves_vectors_alone_in_one_gib(load: Load) -> None:
    [(_, container)] = server(load(EMBEDDINGS))
    assert quantity(container["resources"]["limits"]["memory"]) == 1 << 30
