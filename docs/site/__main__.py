"""python -m docs.site OUT CONTRACT: write the source of the site, for Zensical to build."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from docs.site import commands, contract, error_table, metric_table, python_api
from docs.site.navigation import CONFIG, check_navigation
from docs.site.pages import ROOT, write_pages

REFERENCE = "docs/reference"


def write_reference(folder: Path, descriptors: Path) -> None:
    """Write the pages that are made from the code.

    Args:
        folder: of these pages.
        descriptors: file of a FileDescriptorSet with the comments of the contract.
    """
    folder.mkdir(parents=True)
    for name, text in (
        ("python", python_api.page()),
        ("commands", commands.page()),
        ("contract", contract.page(contract.read(descriptors))),
        ("errors", error_table.page()),
        ("metrics", metric_table.page()),
    ):
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def main() -> None:
    """Write the pages and the configuration of the site.

    Exits with a message if the navigation lacks a page.
    """
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of zensical.toml and of `docs`, the source")
    parser.add_argument("contract", type=Path, help="descriptors of the contract, with comments")
    options = parser.parse_args()
    for variable in [name for name in os.environ if name.startswith("HEADLIGHT_")]:
        del os.environ[variable]  # the command line shows them as defaults
    source = options.out / "docs"
    shutil.rmtree(source, ignore_errors=True)
    pages = write_pages(ROOT, source)
    write_reference(source / REFERENCE, options.contract)
    pages |= {path.relative_to(source) for path in (source / REFERENCE).iterdir()}
    shutil.copy(CONFIG, options.out)
    shutil.copy(CONFIG.with_name("extra.css"), source)
    if problems := check_navigation(pages):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
