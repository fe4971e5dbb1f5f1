"""Pages generated from the code: every public name is listed."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from prometheus_client import generate_latest

from docs.site import commands, contract, error_table, metric_table, python_api
from docs.site.markdown import cell
from headlight.errors import HeadlightError
from headlight.pb import headlight_pb2
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, REASONS

# Fields of descriptor.proto with commented elements, for each kind of element.
CHILDREN = {
    "FileDescriptorProto": ("message_type", "enum_type", "service"),
    "DescriptorProto": ("field", "nested_type", "enum_type"),
    "EnumDescriptorProto": ("value",),
    "ServiceDescriptorProto": ("method",),
}


def row_of(page: str, first: str) -> str:
    """Return the first row of a page that begins with this name."""
    return next(line for line in page.splitlines() if line.startswith(f"| `{first}`"))


def test_every_metric_of_a_scrape_has_a_row_with_its_type_and_its_meaning() -> None:
    page = metric_table.page()
    scrape = generate_latest(metric_table.registry()).decode()
    meanings = dict(re.findall(r"^# HELP (\S+) (.*)$", scrape, re.MULTILINE))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE):
        row = row_of(page, name)
        assert f"<br>{kind} |" in row
        assert cell(meanings[name]) in row
    for name in (*HISTOGRAMS, *COUNTERS, *GAUGES):
        assert f"`headlight_{name}" in page


def test_labels_are_listed_with_their_values() -> None:
    page = metric_table.page()
    assert f"`reason`: {', '.join(REASONS)}" in row_of(page, "headlight_rejected_total")
    for label in ("grpc_type", "grpc_service", "grpc_method", "grpc_code"):
        assert f"`{label}`" in row_of(page, "grpc_server_handled_total")


CLIENTS = ("embed", "compare", "attend", "heads", "tokens", "info")


def test_the_commands_are_those_of_the_command_line() -> None:
    assert tuple(commands.client_parsers()) == CLIENTS
    others = ("serve", "export", "cache list", "cache remove", "doctor", "completion")
    assert tuple(commands.other_parsers()) == others
    page = commands.page()
    assert "| `--target HOST:PORT`" in page.partition("\n## headlight ")[0]
    assert "```sh\nheadlight info\n" in page


@pytest.mark.parametrize("name", [*CLIENTS, "serve", "export", "cache list", "doctor"])
def test_every_option_of_help_has_a_row(name: str) -> None:
    _, common, *sections = commands.page().split("\n## ")
    [section] = [section for section in sections if section.startswith(f"headlight {name}\n")]
    if name in CLIENTS:
        section += common
    parser = (commands.client_parsers() | commands.other_parsers())[name]
    options = {option for action in parser._actions for option in action.option_strings}
    options -= {"-h", "--help"}
    assert options
    for option in options:
        assert re.search(rf"^\|.*`{option}[` ]", section, re.MULTILINE), option


def test_options_are_listed_with_values_and_defaults() -> None:
    page = commands.page()
    assert "(`fp32`" not in row_of(page, r"--precision fp32\|bf16\|fp16\|int8")
    assert "(`interactive`, `bulk`)" in row_of(page, "--priority")
    assert "(default 512)" in row_of(page, "--max-items ITEMS")
    assert "%(" not in page


def elements(proto: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    for field in CHILDREN.get(type(proto).__name__, ()):
        number = proto.DESCRIPTOR.fields_by_name[field].number
        for index, child in enumerate(getattr(proto, field)):
            yield (*path, number, index), child.name
            yield from elements(child, (*path, number, index))


@pytest.fixture
def described() -> FileDescriptorProto:
    """Return the contract with a comment of its own at each element."""
    file = FileDescriptorProto()
    headlight_pb2.DESCRIPTOR.CopyToProto(file)
    file.source_code_info.location.add(path=[contract.SYNTAX], leading_comments="About.")
    for path, name in elements(file):
        place = file.source_code_info.location.add(path=path)
        place.leading_comments = f"Comment of {name} at {path}."
    return file


def test_every_element_of_the_contract_is_listed_with_its_comment(
    described: FileDescriptorProto,
) -> None:
    page = contract.page(described)
    found = list(elements(described))
    assert len(found) > 200
    for path, name in found:
        assert f"Comment of {name} at {path}." in page
    assert "[Encode" in page
    links = set(re.findall(r"\]\(#([a-z]+)\)", page))
    headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
    assert links <= {heading.replace(".", "").lower() for heading in headings}


def test_a_field_without_a_comment_is_refused(described: FileDescriptorProto) -> None:
    message = [message.name for message in described.message_type].index("Tensor")
    for place in described.source_code_info.location:
        if list(place.path) == [contract.MESSAGES, message, contract.FIELDS, 0]:
            place.leading_comments = " "
    with pytest.raises(contract.MissingComment, match=r"Tensor\.\w+ has no comment"):
        contract.page(described)


def test_every_public_name_is_documented_and_linked() -> None:
    page = python_api.page()
    for module in python_api.MODULES:
        for name in importlib.import_module(module).__all__:
            assert f"\n::: {module}.{name}\n" in page
            assert f"](#{module}.{name})" in page


def test_names_described_together_get_an_entry_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """mkdocstrings would read the second name as the type of the first."""
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))
    separated = importlib.import_module("docs.site.together").separated
    monkeypatch.delitem(sys.modules, "docs.site.together")
    text = "Attributes:\n    a, b_c: one\n        two.\n    d: three, 4: 5."
    each = "Attributes:\n    a: one\n        two.\n    b_c: one\n        two.\n    d: three, 4: 5."
    assert separated(text) == each


def test_every_error_is_listed_with_its_status() -> None:
    page = error_table.page()
    pending: list[type[HeadlightError]] = [HeadlightError]
    while pending:
        error = pending.pop()
        if error.__module__ == "headlight.errors":
            assert f"`{error.code.value}`" in row_of(page, error.__name__)
            pending += error.__subclasses__()
    assert "RESOURCE_EXHAUSTED" in row_of(page, "HostFull")
    for shortage in Shortage:
        assert f"- `{shortage.value.upper()}`" in page
