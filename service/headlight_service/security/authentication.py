"""Who may call, and on whose account: looked at before a message is read."""

from __future__ import annotations

from typing import Any

from headlight_service.core.admission.rate_limit import Quotas, on_account_of
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.security.auth_tokens import AuthTokens

EXEMPT = "/grpc.health.v1.Health/"  # probes have no tokens
ANONYMOUS = ""  # all callers together whose certificate names nobody


class Gate:
    """What calls have to pass. Made only where some are to be stopped: without it a call costs nothing more."""

    def __init__(self, tokens: AuthTokens | None, quotas: Quotas | None) -> None:
        """Stop who has no token, where there are tokens; note whose quota is used, where there are quotas."""
        self._tokens = tokens
        self._quotas = quotas

    def identify(self, call: Call) -> None:
        """Let a call in, before anything of it is read. From any thread.

        Raises:
            Unauthenticated: it has no token, or a wrong one.
        """
        if self._tokens is not None:
            call.caller = self._tokens.caller(call.invocation_metadata())

    def account(self, call: Call) -> None:
        """Note whose quota a call uses, from within its own task."""
        if self._quotas is not None:
            name = named_by_certificate(call) if call.caller is None else call.caller
            on_account_of(self._quotas.of(name))


def gate_of(tokens: AuthTokens | None, quotas: Quotas | None) -> Gate | None:
    """A gate, where anything is asked of callers."""
    return None if tokens is None and quotas is None else Gate(tokens, quotas)


def named_by_certificate(call: Call) -> str:
    """A caller's name by its certificate: the first of its alternative names, else its common name, else ANONYMOUS."""
    told: Any = call.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        for value in told.get(key, ()):
            return str(value.decode("utf-8", "replace"))
    return ANONYMOUS
