"""Certificates made with the openssl command line: an authority, and what it signs.

EC keys, so that making one takes 20 ms.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Pair(NamedTuple):
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path

    def write_to(self, cert: Path, key: Path) -> None:
        """Copy both to the paths that a service watches, one after the other."""
        cert.write_bytes(self.cert.read_bytes())
        key.write_bytes(self.key.read_bytes())


def openssl(*arguments: str | Path) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


class Authority:
    """Certificate authority in a folder.

    Attributes:
        cert: its certificate.
    """

    def __init__(self, folder: Path, days: int = 30, above: Authority | None = None) -> None:
        """Create a root, or an intermediate authority if `above` is given."""
        folder.mkdir(parents=True)
        self._folder = folder
        self.cert, self._key = folder / "ca.crt", folder / "ca.key"
        if days > 0 and above is None:
            names = ("-keyout", self._key, "-out", self.cert)
            openssl("req", "-x509", *KEY, *names, "-days", str(days), "-subj", f"/CN={folder.name}")
            return
        request = folder / "ca.csr"
        openssl("req", *KEY, "-keyout", self._key, "-out", request, "-subj", f"/CN={folder.name}")
        extensions = folder / "ca.ext"
        extensions.write_text("basicConstraints=critical,CA:TRUE\n", encoding="ascii")
        signer = (
            ("-signkey", self._key) if above is None else ("-CA", above.cert, "-CAkey", above._key)
        )
        signed = ("-req", "-in", request, *signer, "-extfile", extensions, "-out", self.cert)
        openssl("x509", *signed, "-days", str(days))

    def sign(
        self,
        name: str,
        names: str = "DNS:localhost,IP:127.0.0.1",
        days: int = 5,
        usage: str = "",
        key: Sequence[str] = KEY,
    ) -> Pair:
        """Return a signed certificate.

        Args:
            name: its common name, and that of its files.
            names: its alternative names; empty for none.
            days: validity; negative: it has expired.
            usage: its extended key usage; empty for any.
            key: the openssl arguments for its key.
        """
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        wanted = {"subjectAltName": names, "extendedKeyUsage": usage}
        lines = [f"{key}={value}\n" for key, value in wanted.items() if value]
        extensions.write_text("basicConstraints=CA:FALSE\n" + "".join(lines), encoding="ascii")
        openssl("req", *key, "-keyout", pair.key, "-out", request, "-subj", f"/CN={name}")
        signed = (
            "-req",
            "-in",
            request,
            "-CA",
            self.cert,
            "-CAkey",
            self._key,
            "-extfile",
            extensions,
        )
        openssl("x509", *signed, "-days", str(days), "-out", pair.cert)
        return pair
