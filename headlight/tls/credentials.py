"""Credentials of a client: TLS and a token, from files that may change during its life."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc

from headlight.tls.pem import check_authorities, check_pair
from headlight.tls.watched_file import StrPath, Watched

T = TypeVar("T")
PathLike = StrPath
Metadata = tuple[tuple[str, str], ...]
TOKEN = re.compile(r"[!-~]+")
TOKEN_PROBLEM = "must be one word of visible ASCII characters"


class Access(NamedTuple):
    """Credentials and metadata, read at each call, which checks the times of the files.

    Attributes:
        credentials: credentials of the connection; the same object until a file changes. None:
            plaintext.
        metadata: metadata of each call; None: none.
        fixed: whether credentials never change, and there is no metadata.
        problems: problems of changed files that are not used, with the names of their arguments.
            The earlier contents stay in use.
    """

    credentials: Callable[[], grpc.ChannelCredentials | None]
    metadata: Callable[[], Metadata] | None
    fixed: bool
    problems: Callable[[], Sequence[str]] = tuple


def access(
    *,
    tls: bool = False,
    credentials: grpc.ChannelCredentials | None = None,
    tls_ca: PathLike | None = None,
    tls_cert: PathLike | None = None,
    tls_key: PathLike | None = None,
    token: str | None = None,
    token_file: PathLike | None = None,
) -> Access:
    """Return the access of a client's arguments; see `headlight.client.sync_client.Client`.

    Raises:
        ValueError: they contradict each other, or a file cannot be used; the message names the
            argument.
    """
    files = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    given = [name for name, path in files.items() if path is not None]
    for wrong, problem in (
        ((tls_cert is None) != (tls_key is None), "tls_cert, tls_key: give both, or neither"),
        (token is not None and token_file is not None, "token, token_file: give one of them"),
        (token is not None and not TOKEN.fullmatch(token), f"token: {TOKEN_PROBLEM}"),
        (
            credentials is not None and bool(given),
            f"credentials, {', '.join(given)}: give one or the other",
        ),
    ):
        if wrong:
            raise ValueError(problem)
    watched: list[Watched[Any]] = []

    def problems() -> list[str]:
        return [each.problem for each in watched if each.problem is not None]

    metadata: Callable[[], Metadata] | None = None
    if token is not None:
        metadata = _always(_bearer(token))
    if token_file is not None:
        watched.append(Watched({"token_file": token_file}, _bearer_in))
        metadata = watched[-1].latest
    if not given:
        fixed = grpc.ssl_channel_credentials() if tls and credentials is None else credentials
        return Access(_always(fixed), metadata, fixed=metadata is None, problems=problems)
    watched.append(Watched(files, _credentials_in))
    return Access(watched[-1].latest, metadata, fixed=False, problems=problems)


def _always(value: T) -> Callable[[], T]:
    return lambda: value


def _credentials_in(contents: Mapping[str, bytes]) -> grpc.ChannelCredentials:
    root, certificate, key = (contents.get(name) for name in ("tls_ca", "tls_cert", "tls_key"))
    if root is not None:
        check_authorities(root)
    if certificate is not None and key is not None:
        check_pair(certificate, key, "client")
    return grpc.ssl_channel_credentials(root, key, certificate)


def _bearer_in(contents: Mapping[str, bytes]) -> Metadata:
    token = contents["token_file"].decode("ascii", "replace").strip()
    if not TOKEN.fullmatch(token):
        raise ValueError(TOKEN_PROBLEM)
    return _bearer(token)


def _bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)
