"""Files that one request enters: their number, and their list in docs/architecture.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.request_path import REQUESTS, RequestPath, profiled_service, request_path
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

# A request through more files is harder to follow; if it needs fewer, lower the number.
MOST_FILES = {"text": 30, "attention": 32}
# Steps that Compare shares are calls of their own.
MOST_CALLS = {"text": 206, "attention": 225}

PAGE = ROOT / "docs" / "architecture.md"
SECTION = "A request, file by file"
LISTED = re.compile(r"^(?:[-*]|\d+\.|\|) *`([^`]+\.py)`", re.MULTILINE)  # a list or a table


@pytest.fixture(scope="module")
def paths() -> Iterator[dict[str, RequestPath]]:
    with profiled_service(bundle_of("docs-rope")) as service:
        yield {name: request_path(service, request) for name, request in REQUESTS.items()}


def listed_files(page: Path) -> list[str]:
    """Return the files that the section of the page lists."""
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title == SECTION:
            return LISTED.findall(body)
    raise AssertionError(f"{page} has no section {SECTION!r}")


@pytest.mark.parametrize("name", REQUESTS)
def test_a_call_enters_no_more_files_than_the_limit(
    name: str, paths: dict[str, RequestPath]
) -> None:
    files, calls = paths[name]
    assert len(files) <= MOST_FILES[name], files
    assert len(files) == len(set(files)) < sum(calls.values()) <= MOST_CALLS[name], calls


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_path_has_only_project_files(name: str, paths: dict[str, RequestPath]) -> None:
    files = paths[name].files
    assert all((ROOT / file).is_file() for file in files)
    assert all(file.startswith(("service/", "headlight/")) for file in files)
    assert not [file for file in files if file.startswith("headlight/pb/")]
    rooms = ("service/headlight_service/frontends/grpc/", "service/headlight_service/core/")
    for room in (*rooms, "headlight/runtime/engine/"):
        assert any(file.startswith(room) for file in files), room


def test_the_architecture_page_lists_the_files_of_a_request(paths: dict[str, RequestPath]) -> None:
    listed = listed_files(PAGE)
    assert sorted(listed) == sorted(paths["text"].files)
