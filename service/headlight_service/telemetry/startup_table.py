"""Start-up table: what is served, its proof, where, and how to call it. Fits 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from headlight.description import Parity
from headlight.results import ModelRef

CLIENT_TARGET = "127.0.0.1:50051"  # of a client that names none
# "127.0.0.1" reaches a service that listens on these.
EVERYWHERE = ("0.0.0.0", "::", "localhost")
DIGEST_DIGITS = 12


def startup_table(
    model: ModelRef,
    hub: Mapping[str, Any],
    proof: Parity | None,
    limit: float,
    addresses: Mapping[str, tuple[str, int]],
    commands: Sequence[str],
    client_options: Sequence[str] = (),
    *,
    page: bool = True,
    others: Sequence[tuple[str, ModelRef]] = (),
) -> str:
    """Return the table and the commands to try.

    Args:
        model: what is served.
        hub: the model, revision and commit on the Hugging Face Hub; empty: it came from elsewhere.
        proof: worst distance of pooled vectors from PyTorch; None: the exporter did not measure it.
        limit: of that distance, which the self-test at start-up has checked.
        addresses: host and port of "gRPC", "HTTP" or "HTTPS", "metrics" and so on.
        commands: of the command line, without `headlight`.
        client_options: that clients need, such as --tls-ca.
        page: whether HTTP has the page for browsers.
        others: names of further models, and what is served by them.
    """
    name = f"{model.name}, version {model.version}" if model.version else model.name
    rows = [("model", name)]
    if hub:
        commit = str(hub.get("commit", ""))[:DIGEST_DIGITS]
        rows.append(("from", str(hub.get("model", ""))))
        rows.append(("revision", f"{hub.get('revision', '')}, commit {commit}"))
    rows += [
        ("bundle", f"sha256:{model.bundle_sha256[:DIGEST_DIGITS]}..."),
        ("precision", model.precision),
        ("provider", model.provider),
        ("proof", _proof(proof, limit)),
    ]
    for other, ref in others:
        rows.append(("further", f"{other}, {ref.precision} on {ref.provider}"))
    for service, where in addresses.items():
        rows.append((service, _address(service, *where)))
        if page and service in ("HTTP", "HTTPS"):
            rows.append(("page", f"{service.lower()}://{_target(*where)}/"))
    width = max(len(title) for title, _ in rows)
    lines = [f"{title:<{width}}  {value}" for title, value in rows]
    target = _target(*addresses["gRPC"])
    options = "" if target == CLIENT_TARGET else f" --target {target}"
    needed = f", with {' and '.join(client_options)}" if client_options else ""
    lines += ["", f"Try in another terminal{needed}:"]
    lines += [f"  headlight {command}{options}" for command in commands]
    return textwrap.indent("\n".join(lines), "  ")


def _proof(proof: Parity | None, limit: float) -> str:
    if proof is None:
        return f"self-test passed: pooled vectors within {limit:.1e} of PyTorch's"
    return f"pooled vectors: max |Δ| {proof.max_error:.1e} from PyTorch, limit {limit:.1e}"


def _target(host: str, port: int) -> str:
    """Return the address by which this machine reaches a service."""
    host = "127.0.0.1" if host in EVERYWHERE else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(service: str, host: str, port: int) -> str:
    if service == "metrics":
        return f"http://{_target(host, port)}/metrics"
    if service in ("HTTP", "HTTPS"):
        return f"{service.lower()}://{_target(host, port)} (OpenAI's clients: /v1)"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
