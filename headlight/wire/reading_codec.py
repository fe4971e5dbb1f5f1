"""Codec of prompts, special tokens and priority."""

from __future__ import annotations

from typing import NamedTuple

from headlight.outputs.contract import known
from headlight.pb import headlight_pb2 as pb
from headlight.spec import Priority, SpecialTokens


class PromptChoice(NamedTuple):
    """Requested prompt: one of the model's by name, or a text (empty: none).

    Neither: its default.
    """

    name: str | None = None
    text: str | None = None


def prompt_choice(
    request: pb.EncodeRequest
    | pb.TokenizeRequest
    | pb.OccludeRequest
    | pb.RerankRequest
    | pb.ClassifyRequest,
) -> PromptChoice:
    """Decode the prompt of a request."""
    kind = request.WhichOneof("prompt")
    return PromptChoice(
        request.prompt_name if kind == "prompt_name" else None,
        request.prompt_text if kind == "prompt_text" else None,
    )


def special_tokens_of(number: int, default: SpecialTokens) -> SpecialTokens:
    """Decode the reading of special tokens. Raises InvalidInput for an unknown number."""
    name: SpecialTokens = known("special_tokens", "SpecialTokens", number, unspecified=default)
    return name


def priority_of(number: int) -> Priority:
    """Decode a priority. Raises InvalidInput for an unknown number."""
    name: Priority = known("priority", "Priority", number, unspecified="interactive")
    return name
