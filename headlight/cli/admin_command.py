"""`headlight admin load|unload|alias|list`: the models of a running service."""

from __future__ import annotations

import argparse
import os
from typing import Any

from google.protobuf.json_format import MessageToDict

from headlight.archive import to_json
from headlight.cli.files import say, show
from headlight.cli.result_output import aligned
from headlight.cli.shared_options import Undisturbed, add_access, connect_as
from headlight.command_parser import CommandParser, examples_text
from headlight.pb import admin_pb2 as pb
from headlight.pb.admin_pb2_grpc import AdminServiceStub
from headlight.printable import escaped

VARIABLE, DEFAULT = "HEADLIGHT_ADMIN_ADDRESS", "127.0.0.1:50052"
LIST_EXAMPLES = ("headlight admin list", "headlight admin list --format json")
LOAD_EXAMPLES = ("headlight admin load search",)
ALIAS_EXAMPLES = ("headlight admin alias stable search",)
UNLOAD_EXAMPLES = ("headlight admin unload search@8224d42715d6",)
COLUMNS = ("name", "version", "served", "names", "source")


class AdminClient(Undisturbed):
    """Client of the admin service, which the other methods of a client cannot ask."""

    def ask(self, method: str, request: Any) -> Any:
        """Return the response of a method. Raises HeadlightError."""
        call = getattr(AdminServiceStub(self._channel), method)
        return self._run(self._ask(call, request, self._deadline()))


def add_admin(commands: Any) -> None:
    """Add `headlight admin` with its commands."""
    made = commands.add_parser(
        "admin",
        help="load, replace and unload models of a running service",
        usage="headlight admin load|unload|alias|list [OPTION]...",
        description=(
            "Load, replace and unload models of a service that was started with\n"
            "--admin-address, and move their aliases."
        ),
        epilog=examples_text((*LIST_EXAMPLES[:1], *LOAD_EXAMPLES, *ALIAS_EXAMPLES)),
    )
    verbs = made.add_subparsers(
        required=True, prog="headlight admin", title="commands", metavar="load|unload|alias|list"
    )
    loading = _verb(
        verbs,
        "load",
        run_load,
        "serve the version that the source of a model has now",
        "NAME",
        "It returns once that version answers. One that cannot be served is refused,\n"
        "and what was served stays.",
        LOAD_EXAMPLES,
    )
    loading.add_argument(
        "name",
        metavar="NAME",
        help="of an entry of the service's options, or of a bundle below its --models-root",
    )
    unloading = _verb(
        verbs,
        "unload",
        run_unload,
        "serve a model no longer",
        "NAME",
        "Requests in flight end first.",
        UNLOAD_EXAMPLES,
    )
    unloading.add_argument("name", metavar="NAME", help="as in `admin list`, or name@version")
    moving = _verb(
        verbs,
        "alias",
        run_alias,
        "let an alias address another model, in one step",
        "ALIAS NAME",
        "It stays until the service ends, or the alias is moved again.",
        ALIAS_EXAMPLES,
    )
    moving.add_argument("alias", metavar="ALIAS", help="a new name, or an alias of any model")
    moving.add_argument("name", metavar="NAME", help="the model: its name, or name@version")
    listing = _verb(
        verbs,
        "list",
        run_list,
        "name, version, names and source of each model",
        "",
        "And why the last load of one was refused.",
        LIST_EXAMPLES,
    )
    listing.add_argument("--format", choices=("text", "json"), help="default: text")


def _verb(
    verbs: Any, name: str, run: Any, summary: str, arguments: str, notes: str, examples: Any
) -> CommandParser:
    usage = " ".join(filter(None, ("headlight admin", name, arguments, "[OPTION]...")))
    made: CommandParser = verbs.add_parser(
        name,
        help=summary,
        usage=usage,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{notes}",
        epilog=examples_text(examples),
    )
    group = made.add_argument_group("connection")
    group.add_argument(
        "--address",
        dest="target",
        default=os.environ.get(VARIABLE) or DEFAULT,
        metavar="HOST:PORT",
        help=f"of the admin service; default: {VARIABLE}, else {DEFAULT}",
    )
    add_access(group)
    made.set_defaults(run=run, model="", format=None, out=None)
    return made


def _ask(arguments: argparse.Namespace, method: str, request: Any) -> Any:
    with connect_as(AdminClient, arguments) as client:
        return client.ask(method, request)


def run_load(arguments: argparse.Namespace) -> None:
    """Run `headlight admin load`."""
    model = _ask(arguments, "LoadModel", pb.LoadModelRequest(name=arguments.name)).model
    say(f"serving {_named(model)}, sha256:{model.bundle_sha256}")


def run_unload(arguments: argparse.Namespace) -> None:
    """Run `headlight admin unload`."""
    _ask(arguments, "UnloadModel", pb.UnloadModelRequest(name=arguments.name))
    say(f"unloaded {escaped(arguments.name)}")


def run_alias(arguments: argparse.Namespace) -> None:
    """Run `headlight admin alias`."""
    request = pb.SetAliasRequest(alias=arguments.alias, name=arguments.name)
    model = _ask(arguments, "SetAlias", request).model
    say(f"{escaped(arguments.alias)} is now {_named(model)}")


def run_list(arguments: argparse.Namespace) -> None:
    """Run `headlight admin list`."""
    models = _ask(arguments, "ListModels", pb.ListModelsRequest()).models
    if arguments.format == "json":
        rows = [MessageToDict(each, preserving_proto_field_name=True) for each in models]
        show(f"{to_json({'models': rows})}\n", "json")
        return
    lines = [COLUMNS, *map(_row, models)]
    show("\n".join(aligned(lines)) + "\n")
    for each in models:
        if each.problem:
            say(f"{escaped(each.name)}: the last load was refused: {escaped(each.problem)}")


def _row(model: pb.Model) -> tuple[str, ...]:
    served = "no" if not model.served else "default" if model.default else "yes"
    names = ", ".join(name for name in model.names if name != model.name)
    return tuple(map(escaped, (model.name, model.version, served, names, model.source)))


def _named(model: pb.Model) -> str:
    return escaped(f"{model.name}, version {model.version}" if model.version else model.name)
