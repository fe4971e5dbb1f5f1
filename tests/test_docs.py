"""README and docs: valid links, lines that fit, and how to install."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
LINKED = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *DOCS,
    *sorted((ROOT / "deploy").rglob("*.md")),
]
COLUMNS = 100
INSTALLS = (README, ROOT / "docs/getting-started.md")
# From an index, where the package is not, or from a clone.
OWN_INSTALL = re.compile(
    r"pip install\s+(?:-\S+\s+)*['\"]?(headlight[-_]serving|dist/|\.[\s\[`'\"])"
)
# Figures are put into their lines.
GENERATED = ("positions.md", "real-heads.md", "reliability.md", "uniform-rule.md")
FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def without_code(page: Path) -> str:
    return COMMENT.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", LINK.sub("", heading).strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in LINK.findall(without_code(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit_the_columns(page: Path) -> None:
    """Tables and pictures have one line each; code is copied as it is."""
    lines = without_code(page).splitlines() if page.name not in GENERATED else []
    assert not [line for line in lines if len(line) > COLUMNS and line.lstrip()[0] not in "|!<"]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_two_pages_show_how_to_install_it_and_none_from_an_index(page: Path) -> None:
    """Until it is published; then these lines and headlight.extras.INSTALL change."""
    found = OWN_INSTALL.findall(page.read_text(encoding="utf-8"))
    assert [each[:1] for each in found] == (["."] if page in INSTALLS else [])


@pytest.mark.parametrize("line", ["pip install .", "pip install '.[serve]'", "`pip install .`"])
def test_a_line_that_installs_it_is_found(line: str) -> None:
    assert OWN_INSTALL.search(f"{line}\n")
    assert OWN_INSTALL.search("pip install 'headlight-serving[serve]'")
    assert not OWN_INSTALL.search("pip install torch bertviz")


QUOTED = re.compile(r"(?:`|\.venv/bin/)(make|nox\s-s|nox\s-t)\s((?:[a-z-]+ ?)+)")
SESSION = re.compile(r'^@\w[\w.]*\((?:name=)?"([a-z-]+)"|^def ([a-z]+)\(session', re.MULTILINE)
PEER = re.compile(r'^    "(\w+)": "[\w/]+\.txt"', re.MULTILINE)  # has a session of its own
TAG = re.compile(r'tags=\["([a-z]+)"\]')


def test_commands_of_make_and_nox_exist() -> None:
    makefile, noxfile = ((ROOT / name).read_text("utf-8") for name in ("Makefile", "noxfile.py"))
    sessions = {name or other for name, other in SESSION.findall(noxfile)}
    sessions |= {f"peer-{name}" for name in PEER.findall(noxfile)}
    known = {
        "make": set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)),
        "nox -s": sessions,
        "nox -t": set(TAG.findall(noxfile)),
    }
    pages = {page: page.read_text("utf-8") for page in LINKED if page.name != "CHANGELOG.md"}
    unknown = {
        f"{page.relative_to(ROOT)}: {tool} {word}"
        for page, text in pages.items()
        for tool, words in QUOTED.findall(text)
        for word in words.partition(" -- ")[0].split()
        if word not in known[tool.replace("\n", " ")]
    }
    assert unknown == set()
