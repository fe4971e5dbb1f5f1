"""docs/architecture.md and its picture: all paths exist, and the picture matches its source."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
SOURCE, PICTURE = PAGE.with_suffix(".dot"), PAGE.with_suffix(".svg")
SVG = "{http://www.w3.org/2000/svg}"
WIDEST_POINTS = 675  # 900 pixels, the column of a page


def words(text: str) -> list[str]:
    return sorted(text.split())


def test_the_picture_shows_the_labels_of_its_source() -> None:
    """After a change: dot -Tsvg docs/architecture.dot -o docs/architecture.svg."""
    labels = re.findall(r"label=<(.*)>\]", SOURCE.read_text(encoding="utf-8"))
    written = " ".join(unescape(re.sub(r"<[^>]+>", " ", label)) for label in labels)
    texts = ElementTree.parse(PICTURE).iter(f"{SVG}text")
    shown = " ".join("".join(text.itertext()) for text in texts)
    assert len(labels) > 15
    assert words(shown) == words(written)


def test_the_picture_fits_a_page_and_is_white_in_dark_mode() -> None:
    picture = ElementTree.parse(PICTURE).getroot()
    assert float(picture.attrib["width"].removesuffix("pt")) <= WIDEST_POINTS
    assert next(picture.iter(f"{SVG}polygon")).attrib["fill"] == "white"


def test_every_path_that_the_page_names_exists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+/[\w.]*)`", page) + re.findall(r"\]\(([^)#:]+)\)", page)
    assert len(named) > 30
    for name in named:
        assert (ROOT / name).exists() or (PAGE.parent / name).exists(), name
