"""The source of the site: its navigation, and links to files, which Zensical does not check."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.site.__main__ import ROOT, write_source
from tests.test_docs import LINK, without_code

SHOWN = re.compile(r'(?:src="|!\[[^]]*\]\()([^")]+)')  # a picture


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "docs"
    write_source(out)
    return out


def named_pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from named_pages(part)


def test_the_navigation_names_every_page_once(source: Path) -> None:
    config = tomllib.loads((ROOT / "docs/site/zensical.toml").read_text(encoding="utf-8"))
    pages = [str(page.relative_to(source)) for page in source.rglob("*.md")]
    assert sorted(named_pages(config["project"]["nav"])) == sorted(pages)


def test_links_lead_to_files_of_the_site_and_pictures_are_its_own(source: Path) -> None:
    pages = {page: without_code(page) for page in source.rglob("*.md")}
    broken = [
        f"{page.relative_to(source)}: {target}"
        for page, text in pages.items()
        for target in LINK.findall(text) + SHOWN.findall(text)
        if not re.match(r"[a-z]+:|#", target)
        and not (page.parent / target.partition("#")[0]).is_file()
    ]
    assert broken == []
    pictures = [target for text in pages.values() for target in SHOWN.findall(text)]
    assert len(pictures) > 20
    assert not [target for target in pictures if "//" in target]
