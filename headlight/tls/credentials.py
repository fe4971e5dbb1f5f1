"""Whom a client trusts, and how it proves who it is: TLS and a token, from files that may change while the client lives."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc

from headlight.tls.pem import check_authorities, check_pair
from headlight.tls.watched_file import Watched

T = TypeVar("T")
PathLike = str | os.PathLike[str]
Metadata = tuple[tuple[str, str], ...]
TOKEN = re.compile(r"[!-~]+")
TOKEN_PROBLEM = "must be one word of visible ASCII characters"


class Access(NamedTuple):
    """Both are asked at each call, and cost a look at the files' times.

    Attributes:
        credentials: of the connection; always the same object until a file changes. None: plaintext.
        metadata: of each call; None: nothing is sent with it.
        fixed: whether neither ever changes, and nothing is sent.
        problems: of changed files that are not used, naming the arguments; those before them are, meanwhile.
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
    """From the arguments of a client, which `headlight.client.sync_client.Client` describes.

    Raises:
        ValueError: they contradict each other, or a file cannot be used; the message names the argument.
    """
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("tls_cert, tls_key: give both, or neither")
    if token is not None and token_file is not None:
        raise ValueError("token, token_file: give one of them")
    files = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    given = {name: Path(path) for name, path in files.items() if path is not None}
    if credentials is not None and given:
        raise ValueError(f"credentials, {', '.join(given)}: give one or the other")
    kept: dict[str, Watched[Any]] = {}
    metadata: Callable[[], Metadata] | None = None
    if token is not None:
        metadata = _named("token", lambda: _always(_bearer(token)))
    if token_file is not None:
        kept["token_file"] = _named("token_file", lambda: Watched([Path(token_file)], _bearer_in))
        metadata = kept["token_file"].latest

    def problems() -> list[str]:
        return [f"{names}: {each.problem}" for names, each in kept.items() if each.problem is not None]

    if not given:
        fixed = grpc.ssl_channel_credentials() if tls and credentials is None else credentials
        return Access(lambda: fixed, metadata, fixed=metadata is None, problems=problems)

    def parse(contents: Sequence[bytes]) -> grpc.ChannelCredentials:
        found = dict(zip(given, contents, strict=True))
        root, certificate, key = (found.get(name) for name in files)
        if root is not None:
            check_authorities(root)
        if certificate is not None and key is not None:
            check_pair(certificate, key, "client")
        return grpc.ssl_channel_credentials(root, key, certificate)

    names = ", ".join(given)
    kept[names] = watched = _named(names, lambda: Watched([*given.values()], parse))
    return Access(watched.latest, metadata, fixed=False, problems=problems)


def _named(arguments: str, make: Callable[[], T]) -> T:
    """What is made of some arguments; a ValueError names them."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"{arguments}: {error}") from None


def _always(value: T) -> Callable[[], T]:
    return lambda: value


def _bearer_in(contents: Sequence[bytes]) -> Metadata:
    try:
        token = contents[0].decode("ascii").strip()
    except UnicodeDecodeError:  # whose words quote what is there
        raise ValueError(TOKEN_PROBLEM) from None
    return _bearer(token)


def _bearer(token: str) -> Metadata:
    if not TOKEN.fullmatch(token):
        raise ValueError(TOKEN_PROBLEM)
    return (("authorization", f"Bearer {token}"),)
