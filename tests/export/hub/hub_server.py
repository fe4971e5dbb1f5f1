"""Hub on loopback: the part of the Hugging Face Hub's HTTP interface that a download needs.

`python -m tests.export.hub.hub_server org/name REVISION FOLDER` writes a small model to FOLDER,
serves it, and prints its address, for deploy/image/try.sh.

Model info, tree, `resolve` with redirects, ranges and ETags; and its refusals.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LFS = (".safetensors", ".bin")  # stored elsewhere: `resolve` redirects
PART = 4096  # bytes of a file at a time


@dataclasses.dataclass
class Repository:
    """A model of the Hub.

    Attributes:
        folder: its files.
        token: needed to read it, if any; None: public.
        commit: that every revision of `revisions` means.
        cut_after: bytes of a weights file after which the connection ends, while above 0 cuts are
            left.
        cuts: connections still to be cut.
    """

    folder: Path
    token: str | None = None
    gated: bool = False
    commit: str = "0123456789abcdef0123456789abcdef01234567"
    revisions: tuple[str, ...] = ("main",)
    cut_after: int = 0
    cuts: int = 0
    refusals: int = 0  # calls still to be refused with `refusal`
    refusal: int = 429

    def files(self) -> dict[str, Path]:
        return {
            str(path.relative_to(self.folder)): path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


class Hub:
    """The server: its address, its models, and the paths that were asked of it."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str]] = []  # method and path
        self.sent: dict[str, int] = {}  # bytes of each file of a repository
        self._lock = threading.Lock()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self)

            def do_HEAD(self) -> None:
                hub.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._cdn = f"http://localhost:{self._server.server_port}"  # another host, by name
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Hub]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(call.path).path)
        with self._lock:
            self.requests.append((call.command, path))
        if found := re.fullmatch(r"/api/models/(.+?)/tree/([^/]+)", path):
            self._reply(call, found[1], found[2], self._tree)
        elif found := re.fullmatch(r"/api/models/(.+?)/revision/([^/]+)", path):
            self._reply(call, found[1], found[2], self._info)
        elif found := re.fullmatch(r"/api/models/(.+)", path):
            self._reply(call, found[1], "main", self._info)
        elif found := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path):
            self._resolve(call, found[1], found[2], found[3])
        elif found := re.fullmatch(r"/cdn/(.+?)//(.+)", path):
            repository = self.repositories[found[1]]
            self._send_file(call, repository, found[2], {})
        else:
            self._refuse(call, 404, "EntryNotFound")

    def _reply(self, call, name, revision, make) -> None:  # type: ignore[no-untyped-def]
        if (repository := self._allowed(call, name, revision)) is not None:
            body = json.dumps(make(name, repository)).encode()
            self._head(call, 200, {"Content-Type": "application/json", "Content-Length": len(body)})
            if call.command == "GET":
                call.wfile.write(body)

    def _allowed(self, call: BaseHTTPRequestHandler, name: str, revision: str) -> Repository | None:
        """Return the repository, or refuse as the Hub does: without a token, unknown is 401."""
        repository = self.repositories.get(name)
        bearer = call.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository is not None and repository.refusals > 0:
            with self._lock:
                repository.refusals -= 1
            self._refuse(call, repository.refusal, "")
        elif repository is None:
            self._refuse(call, 404 if bearer else 401, "RepoNotFound")
        elif repository.token is not None and bearer != repository.token:
            if repository.gated:
                self._refuse(call, 403 if bearer else 401, "GatedRepo")
            else:
                self._refuse(call, 404 if bearer else 401, "RepoNotFound")
        elif revision not in (*repository.revisions, repository.commit):
            self._refuse(call, 404, "RevisionNotFound")
        else:
            return repository
        return None

    def _info(self, name: str, repository: Repository) -> dict[str, object]:
        names = [{"rfilename": file} for file in repository.files()]
        return {"_id": "0", "id": name, "sha": repository.commit, "siblings": names}

    def _tree(self, _name: str, repository: Repository) -> list[dict[str, object]]:
        rows = []
        for file, path in repository.files().items():
            digest, size = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
            row: dict[str, object] = {"type": "file", "oid": digest[:40], "size": size}
            row["path"] = file
            if file.endswith(LFS):
                row["lfs"] = {"oid": digest, "size": size, "pointerSize": 100}
            rows.append(row)
        return rows

    def _resolve(self, call: BaseHTTPRequestHandler, name: str, revision: str, file: str) -> None:
        repository = self._allowed(call, name, revision)
        if repository is None:
            return
        path = repository.files().get(file)
        if path is None:
            self._refuse(call, 404, "EntryNotFound", {"X-Repo-Commit": repository.commit})
            return
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        told = {"X-Repo-Commit": repository.commit}
        if file.endswith(LFS):
            told |= {
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(path.stat().st_size),
                "Location": f"{self._cdn}/cdn/{name}//{file}",
                "Content-Length": "0",
            }
            self._head(call, 302, told)
        else:
            self._send_file(call, repository, file, told | {"ETag": f'"{digest[:40]}"'})

    def _send_file(
        self, call: BaseHTTPRequestHandler, repository: Repository, file: str, told: dict[str, str]
    ) -> None:
        data = repository.files()[file].read_bytes()
        begin, status = 0, 200
        if found := re.fullmatch(r"bytes=(\d+)-", call.headers.get("Range", "")):
            begin, status = int(found[1]), 206
            told = told | {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        self._head(call, status, told | {"Content-Length": str(len(data) - begin)})
        if call.command == "HEAD":
            return
        cut = file.endswith(LFS) and repository.cuts > 0
        end = min(len(data), begin + repository.cut_after) if cut else len(data)
        with self._lock:
            self.sent[file] = self.sent.get(file, 0) + end - begin
            repository.cuts -= cut
        with contextlib.suppress(OSError):  # the client was killed
            for at in range(begin, end, PART):
                call.wfile.write(data[at : min(at + PART, end)])
        if cut:
            call.close_connection = True

    def _refuse(
        self,
        call: BaseHTTPRequestHandler,
        status: int,
        code: str,
        more: dict[str, str] | None = None,
    ) -> None:
        told = {"Content-Length": "0", **(more or {})} | ({"X-Error-Code": code} if code else {})
        self._head(call, status, told)

    def _head(
        self, call: BaseHTTPRequestHandler, status: int, headers: dict[str, object] | dict[str, str]
    ) -> None:
        call.send_response(status)
        for name, value in headers.items():
            call.send_header(name, str(value))
        call.end_headers()


if __name__ == "__main__":
    from tests.bert_folder import write_bert

    name, revision, folder = sys.argv[1:]
    hub = Hub()
    hub.repositories[name] = Repository(write_bert(Path(folder)), revisions=(revision,))
    with hub.running():
        sys.stdout.write(f"{hub.address}\n")
        sys.stdout.flush()
        threading.Event().wait()  # until it is killed
