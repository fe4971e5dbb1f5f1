"""The source of the site, its navigation, and the check of the built pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site.built import breaches
from docs.site.navigation import check_navigation, named_pages
from docs.site.pages import ROOT, write_pages

GENERATED = ("python", "commands", "contract", "errors", "metrics")
REFERENCE = {Path(f"docs/reference/{name}.md") for name in GENERATED}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / "deploy").mkdir()
    (root / "deploy/a.yaml").write_text("key: value\n", encoding="utf-8")
    (root / "docs/picture.png").write_bytes(b"png")
    return root


def written(root: Path, text: str) -> tuple[Path, str]:
    (root / "docs/page.md").write_text(text, encoding="utf-8")
    out = root.parent / "out"
    assert write_pages(root, out) == {Path("docs/page.md")}
    return out, (out / "docs/page.md").read_text(encoding="utf-8")


def test_a_link_to_a_file_becomes_a_page_that_shows_it(repository: Path) -> None:
    out, text = written(repository, "[rules](../deploy/a.yaml#x)")
    assert text == "[rules](../deploy/a.yaml.md#x)"
    page = (out / "deploy/a.yaml.md").read_text(encoding="utf-8")
    assert page == "# `deploy/a.yaml`\n\n````yaml\nkey: value\n````\n"


def test_a_link_to_a_folder_becomes_a_list_of_its_files(repository: Path) -> None:
    out, text = written(repository, "[all](../deploy/)")
    assert text == "[all](../deploy/README.md)"
    assert "- [`a.yaml`](a.yaml.md)" in (out / "deploy/README.md").read_text(encoding="utf-8")
    assert (out / "deploy/a.yaml.md").exists()


def test_pictures_are_copied_and_links_in_code_are_unchanged(repository: Path) -> None:
    text = "![p](picture.png) [web](https://a.example/a.yaml)\n\n```\n[a](../deploy/a.yaml)\n```\n"
    out, found = written(repository, text)
    assert found == text
    assert (out / "docs/picture.png").read_bytes() == b"png"


def test_a_broken_link_is_left_to_the_generator(repository: Path) -> None:
    links = "[a](nothing.md) [b](nothing.yaml)"
    assert written(repository, links)[1] == links


def test_comments_for_the_site_are_shown_there(repository: Path) -> None:
    _, text = written(repository, "one <!-- site: [two](reference/two.md) --> <!-- three -->")
    assert text == "one [two](reference/two.md) <!-- three -->"


def test_the_navigation_names_every_page_once(tmp_path: Path) -> None:
    pages = write_pages(ROOT, tmp_path) | REFERENCE
    assert len(pages) > 60
    assert check_navigation(pages) == []


def test_an_orphan_and_an_invented_page_are_reported(tmp_path: Path) -> None:
    pages = write_pages(ROOT, tmp_path) | REFERENCE
    orphan, gone = Path("docs/orphan.md"), Path("docs/limits.md")
    lines = check_navigation(pages - {gone} | {orphan})
    assert lines == [
        "zensical.toml: nav lacks docs/orphan.md",
        "zensical.toml: nav names docs/limits.md: no such page",
    ]


def test_nested_sections_are_read() -> None:
    nav = [{"Home": "a.md"}, {"Part": ["b.md", {"Deeper": ["c.md"]}]}]
    assert list(named_pages(nav)) == ["a.md", "b.md", "c.md"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('<a href="gone.html">', "index.html: gone.html: no such file"),
        ('<img src="gone.png">', "index.html: gone.png: no such file"),
        ('<a href="other.html#gone">', "index.html: other.html#gone: no such anchor"),
        ('<a href="#gone">', "index.html: #gone: no such anchor"),
        ('<a href="folder/">', "index.html: folder/: no such file"),
        (
            '<script src="https://cdn.example.com/x.js">',
            "index.html: loads https://cdn.example.com/x.js",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example.com/x.css">',
            "index.html: loads //fonts.example.com/x.css",
        ),
    ],
)
def test_broken_links_and_anchors_are_reported(tmp_path: Path, body: str, line: str) -> None:
    (tmp_path / "index.html").write_text(body, encoding="utf-8")
    (tmp_path / "other.html").write_text("<h1 id='here'>", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    assert breaches(tmp_path.resolve()) == [line]


def test_good_links_of_the_built_site_pass(tmp_path: Path) -> None:
    links = "other.html#here other.html?x=1#here . #top https://a.example/ mailto:a@b.c a%20b.png"
    body = "<p id='top'>" + "".join(f'<a href="{link}">' for link in links.split())
    body += '<link rel="canonical" href="https://a.example">'
    (tmp_path / "index.html").write_text(body, encoding="utf-8")
    (tmp_path / "other.html").write_text("<h1 id='here'>", encoding="utf-8")
    (tmp_path / "a b.png").write_bytes(b"")
    assert breaches(tmp_path.resolve()) == []
