"""python -m docs.site OUT: lay out the source of the site, for Zensical to build.

`OUT/docs` is a copy of the pages, with the files that they link to, in the folders of the
repository. `OUT/reference` has what the pages in docs/reference and docs/notebooks include.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from docs.site.reference import fragments

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "deploy", "bench/results"),
    *("examples", "proto", "model/headlight_model", "tests/model"),  # files that pages link to
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "site", "checkpoints", "bundles", "results.json")


def write_source(out: Path) -> None:
    """Copy the pages to `out`, which must not exist."""
    out.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, out)
        else:
            shutil.copytree(ROOT / name, out / name, ignore=LEFT_OUT)
    shutil.copy(ROOT / "docs/site/extra.css", out)


def main(out: Path) -> None:
    """Write the pages, what they include, and the configuration."""
    for variable in [name for name in os.environ if name.startswith("HEADLIGHT_")]:
        del os.environ[variable]  # --help shows them as defaults
    for folder in ("docs", "reference"):
        shutil.rmtree(out / folder, ignore_errors=True)
    write_source(out / "docs")
    (out / "reference").mkdir()
    for name, text in fragments(ROOT):
        (out / "reference" / name).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "docs/site/zensical.toml", out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
