"""Messages of tei.v1, in a descriptor pool of their own; see `contract_services`."""

from pathlib import Path

from headlight_service.frontends.grpc.calls.contract_services import load

globals().update(load(Path(__file__).with_suffix(".binpb")))
