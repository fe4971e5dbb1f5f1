"""An HTTP frontend without options."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.frontends.http.http_service import HttpService, http_service


@pytest.fixture
def service() -> Iterator[HttpService]:
    with http_service() as service:
        yield service
