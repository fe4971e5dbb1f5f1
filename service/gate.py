"""Who may call, and on whose account: looked at before a message is read."""

from __future__ import annotations

from typing import Any

import grpc

from service.quota import Quotas, on_account_of
from service.tokens import AuthTokens

Context = grpc.aio.ServicerContext[Any, Any]
EXEMPT = "/grpc.health.v1.Health/"  # probes have no tokens
ANONYMOUS = ""  # all callers together whose certificate names nobody


class Gate:
    """What calls have to pass. Made only where some are to be stopped: without it a call costs nothing more."""

    def __init__(self, tokens: AuthTokens | None, quotas: Quotas | None) -> None:
        """Stop who has no token, where there are tokens; note whose quota is used, where there are quotas."""
        self._tokens = tokens
        self._quotas = quotas

    def enter(self, context: Context) -> None:
        """Let a call in, from within its own task.

        Raises:
            Unauthenticated: it has no token, or a wrong one.
        """
        name = None
        if self._tokens is not None:
            name = self._tokens.caller(context.invocation_metadata() or ())  # type: ignore[arg-type]  # pairs, whatever the stubs say
        if self._quotas is not None:
            on_account_of(self._quotas.of(named_by_certificate(context) if name is None else name))


def gate_of(tokens: AuthTokens | None, quotas: Quotas | None) -> Gate | None:
    """A gate, where anything is asked of callers."""
    return None if tokens is None and quotas is None else Gate(tokens, quotas)


def named_by_certificate(context: Context) -> str:
    """A caller's name by its certificate: the first of its alternative names, else its common name, else ANONYMOUS."""
    told: Any = context.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        for value in told.get(key, ()):
            return str(value.decode("utf-8", "replace"))
    return ANONYMOUS
