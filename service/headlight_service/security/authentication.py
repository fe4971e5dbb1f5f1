"""Authentication of clients, and their names, which own quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headlight_service.security.auth_tokens import AuthTokens

if TYPE_CHECKING:
    from headlight_service.frontends.grpc.transport.grpc_call import Call

EXEMPT = "/grpc.health.v1.Health/"  # probes have no tokens
ANONYMOUS = ""  # shared by all clients whose certificate has no name


class Authenticator:
    """Authentication of calls. Made only if tokens or quotas are set: else it costs nothing."""

    def __init__(self, tokens: AuthTokens | None) -> None:
        """Refuse calls without a token, if there are tokens."""
        self._tokens = tokens

    def authenticate(self, call: Call) -> None:
        """Authenticate a call of gRPC, before anything of it is read. From any thread.

        Raises:
            Unauthenticated: it has no token, or a wrong one.
        """
        call.token_name = self.token_name(call.context.invocation_metadata() or ())

    def token_name(self, metadata: Sequence[tuple[str, str | bytes]]) -> str | None:
        """Return the client's name by its token; None: no tokens are needed.

        Args:
            metadata: metadata of a call, or headers with lower-case names.

        Raises:
            Unauthenticated: there is no token, or a wrong one.
        """
        return None if self._tokens is None else self._tokens.caller(metadata)

    def client_of(self, call: Call) -> str:
        """Return the name of a call's client: that of its token, else of its certificate."""
        return named_by_certificate(call) if call.token_name is None else call.token_name


def named_by_certificate(call: Call) -> str:
    """Return a client's name by its certificate: alternative name, common name, or ANONYMOUS."""
    fields: Any = call.context.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        for value in fields.get(key, ()):
            return str(value.decode("utf-8", "replace"))
    return ANONYMOUS
