"""Command line and environment of the service, made from the fields of its options."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from headlight.command_parser import CommandParser, examples_text
from headlight.model_store.model_cache import VARIABLE
from headlight_service.config.option_types import Address

PREFIX = "HEADLIGHT_"
# Variables of the clients, which may be set for a whole machine.
CLIENT_VARIABLES = frozenset(f"{PREFIX}{name}" for name in ("TARGET", "TOKEN", "TOKEN_FILE"))
OTHER_VARIABLES = CLIENT_VARIABLES | {VARIABLE}
# Variables that Kubernetes sets in each pod for Services named headlight or headlight-something,
# unless `enableServiceLinks` is false.
OF_KUBERNETES = re.compile(
    PREFIX + r"([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
ADDRESS_OF_KUBERNETES = re.compile(PREFIX + r"([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://.*")

Groups = Mapping[str, Sequence[dataclasses.Field[Any]]]
EXAMPLES = (
    "headlight serve   # the shipped model",
    "headlight serve sentence-transformers/all-MiniLM-L6-v2 ./my-model --truncation end",
    "headlight serve --bundle minilm --check",
    "headlight serve minilm --grpc 0.0.0.0:50051 --tls-cert cert.pem --tls-key key.pem",
    "HEADLIGHT_ATTENTION=off HEADLIGHT_LOG_FORMAT=json headlight serve",
)


class ConfigError(ValueError):
    """An option has an unusable value; the message names the option and the remedy."""


def read(
    groups: Groups, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the values of the given options, by name, and the names on the command line.

    Args:
        groups: the options, made by `option`, by the titles of their groups.
        arguments: the command line, without the program; it overrides the environment.
        environ: the environment.

    Raises:
        ConfigError: naming the option (or the variable) and its accepted values.
        SystemExit: after --help.
    """
    fields = [*itertools.chain.from_iterable(groups.values())]
    parsed = vars(parser_of(groups).parse_args(_closed(fields, arguments)))
    given = {name: None if text == [] else text for name, text in parsed.items()}
    values = {}
    for known in fields:
        source, text = _given(known, given, environ)
        if text is None:
            continue
        try:
            if isinstance(text, list):
                parts = [known.metadata["parse"](each) for each in text]
                values[known.name] = tuple(itertools.chain.from_iterable(parts))
            else:
                values[known.name] = known.metadata["parse"](text)
        except ValueError as error:
            raise ConfigError(f"{source} is {text!r:.80}; it {error}") from None
    on_line = (known.name for known in fields if any(given[name] for name in names_of(known)))
    return values, frozenset(on_line)


def _given(
    known: dataclasses.Field[Any], given: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str, str | list[str] | None]:
    """Return where an option is given, and its text: the command line, else the environment.

    It is a list of texts if the option is bare, and on the command line.

    Raises:
        ConfigError: it is given under its name and under that of the last release.
    """
    names = names_of(known)
    for sources in (
        {_shown(known, name): given[name] for name in names},
        {variable_of(name): environ.get(variable_of(name)) for name in names},
    ):
        texts = {source: text for source, text in sources.items() if text is not None}
        if len(texts) > 1:
            raise ConfigError(f"{' and '.join(texts)} are one option; give {next(iter(texts))}")
        if texts:
            return next(iter(texts.items()))
    return "", None


def _closed(fields: Sequence[dataclasses.Field[Any]], arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with a value for each bare flag: MODEL may follow it."""
    flags = {flag_of(known.name) for known in fields if isinstance(known.default, bool)}
    return [
        f"{argument}=true" if argument in flags and value not in ("true", "false") else argument
        for argument, value in itertools.zip_longest(arguments, arguments[1:])
    ]


def refuse_unknown(fields: Sequence[dataclasses.Field[Any]], environ: Mapping[str, str]) -> None:
    """Raise ConfigError for a HEADLIGHT_ variable that is not an option: it may be misspelt."""
    options = [known.name.upper() for known in fields]
    known_names = {name.upper() for known in fields for name in names_of(known)}
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX)
        if not variable.startswith(PREFIX) or name in known_names or variable in OTHER_VARIABLES:
            continue
        if OF_KUBERNETES.fullmatch(variable) or ADDRESS_OF_KUBERNETES.fullmatch(
            f"{variable}={value}"
        ):
            continue
        near = difflib.get_close_matches(name, options, n=1)
        remedy = (
            f"{PREFIX}{near[0]} may be meant; else unset it"
            if near
            else "unset it; --help lists the options"
        )
        raise ConfigError(
            f"{variable:.80} is set in the environment, but no such option exists; {remedy}"
        )


class _Parser(CommandParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see --help")


def parser_of(groups: Groups) -> argparse.ArgumentParser:
    """Return a parser that takes every option as text; None if it is not given."""
    parser = _Parser(
        prog="headlight serve",
        usage="headlight serve [MODEL]... [OPTION]...",
        description=(
            "Serve one model or several over gRPC and HTTP.\n\n"
            f"Each option can also stand in the environment: --max-items as {PREFIX}MAX_ITEMS."
        ),
        epilog=examples_text(EXAMPLES),
        allow_abbrev=False,
    )
    for title, fields in groups.items():
        group = parser.add_argument_group(title)
        for known in fields:
            _add(group, known)
    return parser


def _add(group: argparse._ArgumentGroup, known: dataclasses.Field[Any]) -> None:
    text = known.metadata["why"] + _default(known.default)
    if known.metadata["bare"]:
        group.add_argument(known.name, help=text, nargs="*", metavar=known.name.upper())
    elif isinstance(known.default, bool):
        group.add_argument(
            flag_of(known.name), help=text, nargs="?", const="true", metavar="true|false"
        )
    else:
        value = known.metadata["metavar"] or known.name.rpartition("_")[2].upper()
        group.add_argument(flag_of(known.name), help=text, metavar=value)
    for name in names_of(known)[1:]:
        group.add_argument(flag_of(name), help=argparse.SUPPRESS)


def _shown(known: dataclasses.Field[Any], name: str) -> str:
    """Return a name of an option on the command line: --max-items, or MODEL."""
    return name.upper() if known.metadata["bare"] else flag_of(name)


def names_of(known: dataclasses.Field[Any]) -> list[str]:
    """Return the name of an option, and the one that it had in the last release."""
    return [name for name in (known.name, known.metadata.get("was")) if name is not None]


def variable_of(name: str) -> str:
    """Return the variable of an option: HEADLIGHT_MAX_ITEMS, for max_items."""
    return PREFIX + name.upper()


def flag_of(name: str) -> str:
    """Return the flag of an option: --max-items, for max_items."""
    return "--" + name.replace("_", "-")


def _default(value: object) -> str:
    if value is None or value is dataclasses.MISSING or value is False or value == ():
        return ""
    if isinstance(value, tuple) and not isinstance(value, Address):
        value = ",".join(map(str, value))
    return f" (default {value})"
