"""One running service for each shipped model and for a reranker, and one browser.

For tests that do not change them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from headlight import Attention, Client
from headlight.web.page import attention_page
from headlight_model.checkpoint import load_checkpoint
from headlight_model.encoder import Encoder
from tests import scorers
from tests.conftest import MakeBundle
from tests.factory import KINDS, with_options
from tests.system.browser import Browser
from tests.system.pages import LONG, MIDDLE, SHORT
from tests.system.processes import ROOT, Service

Small = tuple[str, Service, Encoder]

MODELS = ("docs-rope", "docs-sinusoidal")


def bundle_of(model: str) -> Path:
    """Return the bundle made by `make export`, on which `make system` depends."""
    return ROOT / "build" / "bundles" / model


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process run the tests that share services: of a file, or of small models."""
    for item in items:
        fixtures: Collection[str] = getattr(item, "fixturenames", ())
        group = "small" if "small" in fixtures else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def rope() -> Iterator[Service]:
    with Service(bundle_of("docs-rope")) as service:
        yield service


@pytest.fixture(scope="session")
def sinusoidal() -> Iterator[Service]:
    with Service(bundle_of("docs-sinusoidal")) as service:
        yield service


@pytest.fixture(scope="session")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of a small model with random weights that scores pairs."""
    with Service(scorers.bundle(tmp_path_factory, "reranker")) as service:
        yield service


@pytest.fixture(scope="session", params=MODELS)
def served(request: pytest.FixtureRequest) -> tuple[str, Service]:
    """Return each model in turn: its name and the service that has it."""
    service: Service = request.getfixturevalue(
        "rope" if request.param == "docs-rope" else "sinusoidal"
    )
    return request.param, service


@pytest.fixture(scope="session", params=list(KINDS))
def small(
    request: pytest.FixtureRequest,
    make_checkpoint: MakeBundle,
    make_bundle: MakeBundle,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Small]:
    """Return each kind of small model in turn, freshly initialised, with sharpened attention.

    Name, service, the model in PyTorch. One of them takes ids alone.
    """
    kind, bundle = request.param, make_bundle(request.param)
    if kind == "none":
        target = tmp_path_factory.mktemp("ids") / "bundle"
        ids_alone: dict[str, Any] = {"accepts": ["ids"], "tokenizer": None, "tokenizer_limit": None}
        bundle = with_options(bundle, target, **ids_alone)
    with Service(bundle) as service:
        yield kind, service, load_checkpoint(make_checkpoint(kind))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Return a light screen of 1280 × 900.

    No page may load anything, throw, or violate its own policy.
    """
    chromium.screen(1280, 900)
    chromium.problems.clear()
    chromium.requests.clear()
    yield chromium
    assert chromium.problems == []
    assert [url for url in chromium.requests if not url.startswith("file://")] == []


@pytest.fixture(scope="session")
def attentions(rope: Service) -> dict[str, Attention]:
    """Return attention by text."""
    with Client(rope.target) as client:
        return {text: client.attend(text) for text in (SHORT, MIDDLE, LONG)}


@pytest.fixture(scope="session")
def pages(
    attentions: dict[str, Attention], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Return pages by text."""
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for number, (text, attention) in enumerate(attentions.items()):
        made[text] = folder / f"{number}.html"
        made[text].write_text(attention_page(attention, text), encoding="utf-8")
    return made
