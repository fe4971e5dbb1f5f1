"""Messages of proto/inference/inference.proto; the .pyi beside this file lists them."""

from __future__ import annotations

from pathlib import Path

from headlight_service.frontends.grpc.calls.contract_services import load

globals().update(load(Path(__file__).with_suffix(".binpb")))
