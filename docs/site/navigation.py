"""The navigation of the site, which names every page once."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIG = Path(__file__).with_name("zensical.toml")


def check_navigation(pages: set[Path]) -> list[str]:
    """Return a line for each page that the navigation lacks, invents or names twice."""
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    named = Counter(named_pages(config["project"]["nav"]))
    found = {page.as_posix() for page in pages}
    twice = [page for page, count in named.items() if count > 1]
    return [
        *(f"{CONFIG.name}: nav lacks {page}" for page in sorted(found - named.keys())),
        *(
            f"{CONFIG.name}: nav names {page}: no such page"
            for page in sorted(named.keys() - found)
        ),
        *(f"{CONFIG.name}: nav names {page} twice" for page in twice),
    ]


def named_pages(nav: Any) -> Iterator[str]:
    """Yield the pages that a navigation names, in its order."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for part in nav.values():
            yield from named_pages(part)
    else:
        for part in nav:
            yield from named_pages(part)
