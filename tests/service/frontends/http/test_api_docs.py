"""GET /docs, with the files of a viewer and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight_service.frontends.http.dialects import api_docs
from tests.service.frontends.http.http_service import http_service


def test_the_viewer_loads_only_files_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for the package of the extra: its files alone are used."""
    dist = tmp_path / "a_viewer/dist"
    dist.mkdir(parents=True)
    (tmp_path / "a_viewer/__init__.py").write_text("raise AssertionError('it is imported')")
    for name in api_docs.FILES:
        (dist / name).write_text(name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(api_docs, "PACKAGE", "a_viewer")
    with http_service() as service:
        page = service.ask("/docs/")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert b"//" not in page.body.replace(b"<!DOCTYPE", b"")
        for name in (*api_docs.FILES, api_docs.START_FILE):
            assert f"/docs/{name}".encode() in page.body
            assert service.ask(f"/docs/{name}").status == 200
        for other in ("/docs/__init__.py", "/docs/..%2f__init__.py"):
            assert service.ask(other).status == 404


def test_without_the_extra_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_docs, "PACKAGE", "no_such_package")
    with http_service() as service:
        for path in ("/docs", "/docs/swagger-ui.css"):
            reply = service.ask(path)
            assert reply.status == 404
            assert "[docs]" in reply.json["message"]
