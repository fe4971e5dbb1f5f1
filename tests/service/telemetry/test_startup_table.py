"""The table on a terminal once the service answers."""

from __future__ import annotations

from typing import Any

import pytest

from headlight.description import Parity
from headlight.results import ModelRef
from headlight_service.telemetry.startup_table import startup_table

MODEL = ModelRef("paraphrase-multilingual-MiniLM-L12-v2", "8224d42715d6", "ab" * 32, "cpu", "fp32")
PROOF = Parity("pooled", "cpu", "fp32", 3.28e-7, 1e-5)
COMMIT = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
HUB = {
    "model": "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    "revision": "main",
    "commit": COMMIT,
}


def table(**changed: Any) -> str:
    values: dict[str, Any] = {
        "model": MODEL,
        "hub": HUB,
        "proof": PROOF,
        "limit": 1e-5,
        "addresses": {"gRPC": ("127.0.0.1", 50051), "metrics": ("127.0.0.1", 8080)},
        "commands": ['embed "two paths"', 'attend "join two paths" --open', "info"],
    }
    return startup_table(**{**values, **changed})


def row(text: str, title: str) -> str:
    [found] = [line for line in text.splitlines() if line.split()[:1] == [title]]
    return found.split(None, 1)[1]


def test_it_fits_80_columns() -> None:
    longest = table(
        addresses={"gRPC": ("2001:db8:ffff::1", 50151), "metrics": ("2001:db8:ffff::1", 18080)}
    )
    assert max(map(len, longest.splitlines())) <= 80


def test_it_shows_model_commit_proof_and_addresses() -> None:
    shown = table()
    assert row(shown, "model") == f"{MODEL.name}, version {MODEL.version}"
    assert row(shown, "from") == HUB["model"]
    assert row(shown, "revision") == f"main, commit {COMMIT[:12]}"
    assert row(shown, "proof").endswith("max |Δ| 3.3e-07 from PyTorch, limit 1.0e-05")
    assert row(shown, "gRPC") == "127.0.0.1:50051"
    assert row(shown, "metrics") == "http://127.0.0.1:8080/metrics"


@pytest.mark.parametrize(
    ("service", "host", "shown"),
    [
        ("HTTP", "127.0.0.1", "http://127.0.0.1:8000 (OpenAI's clients: /v1)"),
        ("HTTP", "0.0.0.0", "http://127.0.0.1:8000 (OpenAI's clients: /v1)"),
        ("HTTPS", "::1", "https://[::1]:8000 (OpenAI's clients: /v1)"),
    ],
)
def test_it_shows_the_address_of_http(service: str, host: str, shown: str) -> None:
    addresses = {"gRPC": ("127.0.0.1", 50051), service: (host, 8000)}
    assert row(table(addresses=addresses), service) == shown
    assert row(table(addresses=addresses), "page") == f"{shown.partition(' ')[0]}/"
    assert "page" not in table(addresses=addresses, page=False)


def test_a_model_of_no_hub_has_no_commit_and_an_unmeasured_provider_no_number() -> None:
    shown = table(hub={}, proof=None)
    assert "commit" not in shown
    assert row(shown, "proof") == "self-test passed: pooled vectors within 1.0e-05 of PyTorch's"


@pytest.mark.parametrize(
    ("host", "port", "option"),
    [
        ("127.0.0.1", 50051, ""),
        ("0.0.0.0", 50051, ""),
        ("::", 50051, ""),
        ("127.0.0.1", 50151, " --target 127.0.0.1:50151"),
        ("::1", 50051, " --target [::1]:50051"),
    ],
)
def test_commands_name_a_target_that_is_not_the_default(host: str, port: int, option: str) -> None:
    shown = table(addresses={"gRPC": (host, port), "metrics": ("127.0.0.1", 8080)})
    assert f"headlight info{option}" in [line.strip() for line in shown.splitlines()]


def test_options_that_clients_need_are_named() -> None:
    shown = table(client_options=["--tls-ca", "--token-file"])
    assert "Try in another terminal, with --tls-ca and --token-file:" in shown
