"""Pages of the repository as the source of the site.

The source has the folders of the repository, so links between pages need no change. A link to
another file leads to a page that shows the file, a link to a folder to a list of its files. The
page of a notebook has its outputs, too.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs.site.notebooks import notebook_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "deploy/**/*.md",
    "bench/results/**/*.md",
)
NOTEBOOKS = "docs/notebooks/*.ipynb"
PICTURES = {".gif", ".jpg", ".png", ".svg", ".webp"}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "sh", ".proto": "proto"}
FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^()\s#]+)")
SITE_ONLY = re.compile(r"<!-- site: (.*?) -->", re.DOTALL)


def write_pages(root: Path, out: Path) -> set[Path]:
    """Write all pages, and the files that they link to.

    Returns:
        The pages of the repository, relative to its root; without those that show other files.
    """
    pages = {page for pattern in PAGES for page in root.glob(pattern)}
    for page in pages:
        text = SITE_ONLY.sub(r"\1", page.read_text(encoding="utf-8"))
        target = out / page.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rewritten(text, page), encoding="utf-8")
        for file in linked_files(text, page):
            write_file(file, root, out)
    notebooks = set(root.glob(NOTEBOOKS))
    for notebook in notebooks:
        write_notebook(notebook, root, out)
    for picture in root.glob("docs/**/*"):  # HTML in a page may show it
        if picture.suffix in PICTURES:
            write_file(picture, root, out)
    shown = {notebook.with_name(f"{notebook.name}.md") for notebook in notebooks}
    return {page.relative_to(root) for page in pages | shown}


def write_notebook(notebook: Path, root: Path, out: Path) -> None:
    """Write a notebook, and the page that shows it."""
    target = out / notebook.relative_to(root)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(notebook, target)
    page = rewritten(notebook_page(notebook), notebook)
    target.with_name(f"{notebook.name}.md").write_text(page, encoding="utf-8")


def prose(text: str) -> str:
    """Return a page without its code."""
    return FENCE.sub("", text)


def rewritten(text: str, page: Path) -> str:
    """Return a page whose links to other files and to folders lead to pages that show them."""
    parts = FENCE.split(text)  # each second one is code
    parts[::2] = [LINK.sub(lambda link: shown_at(link[1], page), part) for part in parts[::2]]
    return "".join(parts)


def shown_at(target: str, page: Path) -> str:
    """Return the link to the page that shows a file or a folder."""
    path = page.parent / target
    if path.is_dir():
        return f"{target.rstrip('/')}/README.md"
    return target if is_shown_as_it_is(path) or not path.exists() else f"{target}.md"


def is_shown_as_it_is(path: Path) -> bool:
    """Return whether a file is a page or a picture."""
    return path.suffix == ".md" or path.suffix in PICTURES


def linked_files(text: str, page: Path) -> Iterator[Path]:
    """Yield the files and folders that a page links to, without pages."""
    for target in LINK.findall(prose(text)):
        path = (page.parent / target).resolve()
        if path.exists() and path.suffix not in {".md", ".ipynb"}:
            yield path


def write_file(path: Path, root: Path, out: Path) -> None:
    """Write a picture, or the page that shows a file or the files of a folder."""
    target = out / path.relative_to(root)
    title = f"# `{path.relative_to(root)}`\n\n"
    if path.is_dir():
        if (path / "README.md").exists():
            return
        target.mkdir(parents=True, exist_ok=True)
        files = sorted(file for file in path.iterdir() if file.is_file())
        links = "\n".join(f"- [`{file.name}`]({file.name}.md)" for file in files)
        (target / "README.md").write_text(f"{title}{links}\n", encoding="utf-8")
        for file in files:
            write_file(file, root, out)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in PICTURES:
        shutil.copy(path, target)
        return
    code = f"````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}````\n"
    target.with_name(f"{path.name}.md").write_text(title + code, encoding="utf-8")
