"""Entries: the options of each served model, from the command line or from a file in TOML.

TOML, because Python reads it without a further dependency, and its values have types.
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from headlight.command_parser import did_you_mean
from headlight_service.config.command_line import ConfigError
from headlight_service.config.option_groups import (
    BatchOptions,
    ComputationOptions,
    ModelOptions,
    QueueOptions,
    RequestOptions,
    TextOptions,
)
from headlight_service.config.option_types import flag, model_names
from headlight_service.config.options import Config

TABLE = "model"  # of the file, as [[model]]
SOURCE, NAME, ALIASES, DEFAULT = "source", "name", "aliases", "default"
# Options that a model has of its own. The others are of the process, which all models share.
_GROUPS = (ModelOptions, ComputationOptions, TextOptions, RequestOptions, BatchOptions)
_OF_THE_PROCESS = {
    *("model", "models", "bundle", "check", "any_model_name", "served_model_name"),
    *("watch_models", "models_root"),
    *("threads", "streams", "stall_seconds", "bulk_batch_ms"),
    *("max_request_bytes", "max_unary_response_bytes"),
}
OPTIONS = {
    known.name: known
    for group in _GROUPS
    for known in dataclasses.fields(group)
    if known.name not in _OF_THE_PROCESS
}
KEYS = (SOURCE, NAME, ALIASES, DEFAULT, *OPTIONS)
_SHARED = _OF_THE_PROCESS | {known.name for known in dataclasses.fields(QueueOptions)}


class Entry(NamedTuple):
    """One model to serve.

    Attributes:
        config: its options; of MODEL and --bundle, it has one at most.
        default: whether it answers requests that name no model, even if it is not the first.
    """

    config: Config
    default: bool = False


def entries_of(config: Config) -> tuple[Entry, ...]:
    """Return the models to serve, in their order. Options are the defaults of every entry.

    Raises:
        ConfigError: naming the file, the entry and the key, and the remedy.
    """
    if config.models is None:
        if not config.model:
            return (Entry(config),)
        return tuple(Entry(dataclasses.replace(config, model=(each,))) for each in config.model)
    file = config.models
    entries = []
    for number, table in enumerate(_tables(file), 1):
        try:
            entries.append(_entry(dataclasses.replace(config, models=None), table))
        except ValueError as error:
            name = table.get(NAME, table.get(SOURCE))
            which = f"{number} ({name!s:.80})" if name else f"{number}"
            raise ConfigError(f"{file}: [[{TABLE}]] {which}: {error}") from None
    if sum(entry.default for entry in entries) > 1:
        raise ConfigError(f"{file}: several entries have {DEFAULT} = true; leave it in one")
    return tuple(entries)


def _tables(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open("rb") as opened:
            document = tomllib.load(opened)
    except OSError as error:
        raise ConfigError(f"--models {file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"--models {file} is not TOML: {error}") from None
    tables = document.pop(TABLE, None)
    if document:
        raise ConfigError(
            f"{file}: {next(iter(document))} is not known; a file has only [[{TABLE}]] tables"
        )
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise ConfigError(f"{file}: write a [[{TABLE}]] table for each model, at least one")
    return tables


def _entry(config: Config, table: dict[str, Any]) -> Entry:
    """Return the entry of a table. Raises ValueError, naming the key."""
    for key in table:
        if key in _SHARED:
            raise ValueError(f"{key} is of the whole process; give it as an option")
        if key not in KEYS:
            raise ValueError(f"{key} is not known{did_you_mean(key, KEYS) or _keys()}")
    if not isinstance(table.get(SOURCE), str) or not table[SOURCE]:
        raise ValueError(f"{SOURCE} is missing; name a bundle, a model's folder or a Hub id")
    if ALIASES in table and NAME not in table:
        raise ValueError(f"{ALIASES} needs {NAME}, which answers to other tools have")
    parsers = {
        NAME: model_names,
        ALIASES: lambda text: model_names(text) if text else (),
        DEFAULT: flag,
        **{name: known.metadata["parse"] for name, known in OPTIONS.items()},
    }
    values = dict[str, Any](model=(table[SOURCE],))
    for key, value in table.items():
        if key == SOURCE:
            continue
        text = _text(key, value)
        try:
            values[key] = parsers[key](text)
        except ValueError as error:
            raise ValueError(f"{key} is {text!r:.80}; it {error}") from None
    names = (*values.pop(NAME, ()), *values.pop(ALIASES, ()))
    default = values.pop(DEFAULT, False)
    merged = dataclasses.replace(config, served_model_name=names, **values)
    merged.check_together()
    return Entry(merged, default)


def _keys() -> str:
    return f"; there are {', '.join(KEYS)}"


def _text(key: str, value: object) -> str:
    """Return a value as the option has it on the command line."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(each, str | int) for each in value):
            return ",".join(map(str, value))
    raise ValueError(f"{key} must be a text, a number, true or false, or a list of these")
