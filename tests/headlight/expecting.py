"""Expectations of a client, for tests that make requests and answers by hand."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from headlight.description import ModelDescription
from headlight.interface.arguments import Input
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.wire.answer_checks import Expected
from headlight.wire.reassembly import Expect


def expecting(model: ModelDescription, outputs: pb.Outputs, inputs: Sequence[Input]) -> Expect:
    """Return the check of an answer to a request of these outputs."""
    specs = {
        name: output.spec_of(getattr(outputs, name))
        for name, output in OUTPUTS.items()
        if outputs.HasField(name)
    }
    details = outputs.HasField("token_info")
    return functools.partial(Expected(model, "", specs, {}, details=details).check, inputs=inputs)
