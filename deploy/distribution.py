"""python -m deploy.distribution OUT [--bundle FOLDER]: the wheel, built from a copy of the sources.

With `--bundle` it holds the shipped model as a bundle, ready to be served.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
PACKAGES = (
    "headlight",
    "service/headlight_service",
    "export/headlight_export",
    "model/headlight_model",
)
SHIPPED = "docs-rope"
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]+)\)")


def absolute(text: str, address: str) -> str:
    """Return Markdown with relative links made absolute by the project's address, if it has one."""
    return RELATIVE_LINK.sub(rf"]({address.rstrip('/')}/\1)", text) if address else text


def build(out: Path, bundle: Path | None = None) -> Path:
    """Build the wheel from a copy, because building leaves files behind in the source tree.

    Args:
        out: folder of the wheel.
        bundle: of the shipped model; None: the wheel has its checkpoint alone.

    Returns:
        Path of the wheel.

    Raises:
        subprocess.CalledProcessError: pip failed; its output has the reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        for name in FILES:
            shutil.copy(ROOT / name, source)
        for name in PACKAGES:
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "bundles")
            )
        address = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
            "headlight"
        ]["address"]
        readme = source / "README.md"
        readme.write_text(absolute(readme.read_text(encoding="utf-8"), address), encoding="utf-8")
        if bundle is not None:
            shutil.copytree(bundle, source / "model/headlight_model/bundles" / SHIPPED)
        wheel = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(out),
            str(source),
        ]
        subprocess.run(wheel, check=True)
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> None:
    """Build the wheel, and print its path and size."""
    parser = argparse.ArgumentParser(prog="python -m deploy.distribution", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the wheel")
    parser.add_argument(
        "--bundle", type=Path, help="of the shipped model, to be put into the wheel"
    )
    options = parser.parse_args()
    wheel = build(options.out, options.bundle)
    sys.stdout.write(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
