"""Loading of the commands for tables, whose libraries are an extra."""

from __future__ import annotations

import importlib
from typing import Any

from headlight.cli.files import UsageError
from headlight.extras import MissingExtra, require


def table_command(name: str) -> Any:
    """Return the module for tables. Raises UsageError if its libraries are not installed.

    `name`: of the command.
    """
    try:
        require(f"headlight {name} --text-column", "parquet", "pyarrow", "fsspec")
    except MissingExtra as error:
        raise UsageError(str(error)) from None
    return importlib.import_module("headlight.cli.tables.table_command")
