"""Reference pages of the site: every public name is listed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from prometheus_client import generate_latest

from docs.site import reference
from headlight.pb import headlight_pb2
from headlight.reasons import Reason
from headlight_service.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, REASONS

ROOT = Path(__file__).resolve().parents[2]
PROTO = (ROOT / "proto/headlight/v1/headlight.proto").read_text(encoding="utf-8")


def row_of(page: str, first: str) -> str:
    """Return the first row of a table that begins with this name."""
    return next(line for line in page.splitlines() if line.startswith(f"| `{first}`"))


def test_every_metric_of_a_scrape_has_a_row_with_its_type_and_its_meaning() -> None:
    page = reference.metric_table()
    scrape = generate_latest(reference.registry()).decode()
    meanings = dict(re.findall(r"^# HELP (\S+) (.*)$", scrape, re.MULTILINE))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE):
        row = row_of(page, name)
        assert f"<br>{kind} |" in row
        assert reference.cell(meanings[name]) in row
    for name in (*HISTOGRAMS, *COUNTERS, *GAUGES):
        assert f"`{name}" in page
    assert f"`reason`: {', '.join(REASONS)}" in row_of(page, "headlight_rejected_total")


def test_every_command_is_listed_with_its_help() -> None:
    page = reference.commands()
    names = re.findall(r"^## headlight (.*)$", page, re.MULTILINE)
    clients = [
        *("embed", "rerank", "classify", "compare", "attend", "heads", "tokens", "info", "models"),
    ]
    others = [
        *("serve", "export", "verify", "tune", "cache list", "cache remove"),
        *("admin load", "admin unload", "admin alias", "admin list", "doctor", "completion"),
    ]
    assert names == clients + others
    for option in ("--target HOST:PORT", "--max-items ITEMS", "--pooling NAME"):
        assert option in page


def test_every_element_of_the_contract_is_listed_and_has_a_comment() -> None:
    page = reference.contract(PROTO)
    file = headlight_pb2.DESCRIPTOR
    named = (*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name)
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == re.findall(
        r"^(?:message|enum|service) (\w+)", PROTO, re.MULTILINE
    )
    assert sorted(named) == sorted(re.findall(r"^## (\w+)$", page, re.MULTILINE))
    lines = [line.strip() for line in PROTO.partition("package ")[2].splitlines()]
    element = re.compile(r"(message|enum|service|rpc) \w+|[\w. ]+ = \d+;")
    bare = [
        line
        for before, line in itertools.pairwise(lines)
        if element.match(line) and not before.startswith("//")
    ]
    assert bare == []


def test_every_refusal_is_listed_with_its_words() -> None:
    page = reference.refusal_table()
    assert "has {tokens} tokens, the model takes {most}; shorten it" in row_of(page, "TOO_LONG")
    assert all(f"| `{each.name}` |" in page for each in Reason)
    assert not re.search(r"{[A-Z_]+}", page)


def test_every_error_is_listed_with_its_status() -> None:
    page = reference.error_table()
    assert "| `invalid_input` | INVALID_ARGUMENT |" in row_of(page, "InvalidInput")
    assert "RESOURCE_EXHAUSTED" in row_of(page, "HostFull")
