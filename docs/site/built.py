"""python -m docs.site.built SITE: check every link of the site that was built.

Zensical checks links between pages. This also checks pictures, links in HTML, links to objects that
docstrings define, and that no page loads anything from another host.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_LOADED = {"canonical", "prev", "next", "alternate"}  # of <link>


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif LOADING.get(tag, "") in found and found.get("rel") not in NOT_LOADED:
            self.loads.add(found[LOADING[tag]])


def breaches(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere and each load from another host."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in sorted(pages.items()):
        if path.name == "404.html":  # its links are absolute
            continue
        name = path.relative_to(site)
        found += [f"{name}: loads {url}" for url in sorted(page.loads) if urlsplit(url).netloc]
        for link in sorted(page.links | page.loads):
            if lack := missing(link, path, pages):
                found.append(f"{name}: {link}: no such {lack}")
    return found


def missing(link: str, path: Path, pages: Mapping[Path, Page]) -> str | None:
    """Return the part that a link of the page at `path` lacks: its file or its anchor."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "file"
    if not parts.fragment or target not in pages:
        return None
    return None if unquote(parts.fragment) in pages[target].anchors else "anchor"


def main() -> None:
    """Check a site; exit with a line for each breach."""
    site = Path(sys.argv[1]).resolve()
    if not (site / "index.html").exists():
        sys.exit(f"{site} has no index.html: no site was built")
    if found := breaches(site):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
