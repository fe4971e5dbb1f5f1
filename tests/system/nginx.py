"""A real nginx in front of replicas, with the settings of deploy/proxies."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from tests.ports import free_port
from tests.system.processes import ROOT

START_SECONDS = 20
SETTINGS = ROOT / "deploy" / "proxies" / "nginx-headlight.conf"
CONFIG = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  {upstream}
  server {{
    listen 127.0.0.1:{port} http2;
    keepalive_requests 1000000;
    location / {{
      {target}
      include {settings};
    }}
  }}
}}
"""


def of_addresses(addresses: Collection[str]) -> tuple[str, str]:
    """Return the configuration for fixed replicas: connections to them are kept.

    A replica that refuses a connection is asked again by the next call. Otherwise one that restarts
    faster than nginx's exclusion time would be missing while the next one is down.
    """
    servers = " ".join(f"server {address} max_fails=0;" for address in addresses)
    return f"upstream replicas {{ {servers} keepalive 16; }}", "grpc_pass grpc://replicas;"


def of_name(name: str, port: int, names_port: int) -> tuple[str, str]:
    """Return the configuration for changing replicas under one name."""
    resolver = f"resolver 127.0.0.1:{names_port} valid=1s ipv6=off;"
    return resolver, f"set $replicas {name}; grpc_pass grpc://$replicas:{port};"


class Nginx:
    """Use as a context manager.

    Attributes:
        target: host:port to reach the replicas at.
    """

    def __init__(self, folder: Path, upstream: str, target: str) -> None:
        port = free_port()
        self.target = f"127.0.0.1:{port}"
        self._folder = folder
        (folder / "nginx.conf").write_text(
            CONFIG.format(
                folder=folder, port=port, upstream=upstream, target=target, settings=SETTINGS
            ),
            encoding="utf-8",
        )

    @property
    def errors(self) -> str:
        """Return the lines of its error log."""
        return (self._folder / "error.log").read_text(encoding="utf-8")

    def __enter__(self) -> Nginx:
        self._process = subprocess.Popen(
            ["nginx", "-p", self._folder, "-c", self._folder / "nginx.conf"]
        )
        host, port = self.target.split(":")
        for _ in range(10 * START_SECONDS):
            with (
                contextlib.suppress(ConnectionRefusedError),
                socket.create_connection((host, int(port))),
            ):
                return self
            # The pause is on the process, so that its end shows here.
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"nginx ended with {self._process.wait(0.1)}: {self.errors}")
        raise AssertionError("nginx never listened")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
