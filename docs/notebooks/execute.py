"""python -m docs.notebooks.execute [NAME]...: run notebooks and write their outputs into them.

Runs in .nox/notebooks. What differs from run to run is removed, so only new outputs make a diff.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
CELL_SECONDS = 300  # an export on a busy machine takes one minute
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> None:
    """Run a notebook in its folder and write it back.

    Raises:
        CellExecutionError: a cell failed.
        ValueError: a cell wrote to standard error; a warning, say.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=40"],  # no warning of TCP; it is on loopback
        timeout=CELL_SECONDS,
        resources={"metadata": {"path": str(FOLDER)}},
        coalesce_streams=True,
    ).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = {}  # times
        refuse_standard_error(cell)
    nbformat.write(notebook, path)


def refuse_standard_error(cell: Any) -> None:
    """Raise ValueError if a cell wrote to standard error."""
    for output in cell.get("outputs", ()):
        if output.get("name") == "stderr":
            raise ValueError(f"cell {cell.id} wrote to standard error: {output.text}")


def main() -> None:
    """Run the named notebooks, or all of them; exit with a message if one fails."""
    parser = argparse.ArgumentParser(prog="python -m docs.notebooks.execute", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no notebook {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    commands = sysconfig.get_path("scripts")  # as in an activated environment
    os.environ["PATH"] = os.pathsep.join((commands, os.environ["PATH"]))
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning of the kernel's debugger
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # of tqdm, without ipywidgets
    with tempfile.TemporaryDirectory() as profile:
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[variable] = profile  # nothing of the user's own
        for name in names:
            begun = time.monotonic()
            try:
                execute(FOLDER / f"{name}.ipynb")
            except (CellExecutionError, ValueError) as error:
                sys.exit(f"{name}: {error}")
            sys.stdout.write(f"{name}: {time.monotonic() - begun:.0f} s\n")


if __name__ == "__main__":
    main()
