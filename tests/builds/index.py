"""A package index of the test's own, on loopback, that can be made to stall or to forget dates."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def metadata(name: str, version: str, requires: tuple[str, ...]) -> str:
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"


def wheel(name: str, version: str, source: str, described: str) -> bytes:
    """One module and its metadata."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": described,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return content.getvalue()


class Index:
    """``let_go`` is set as long as files are given out; ``asked`` once somebody wanted one."""

    def __init__(self, dates: bool = True, login: str = "") -> None:
        self.dates = dates
        self.login = login
        self.files: dict[str, bytes] = {}
        self.described: dict[str, bytes] = {}
        self.let_go = threading.Event()
        self.let_go.set()
        self.asked = threading.Event()
        self.url = ""

    def add(self, name: str, version: str, *requires: str, source: str = "") -> None:
        described = metadata(name, version, requires)
        file = f"{name}-{version}-py3-none-any.whl"
        self.files[file] = wheel(name, version, source, described)
        self.described[f"{file}.metadata"] = described.encode()

    def add_source(self, name: str, version: str, backend: str) -> None:
        """Without a wheel: whoever installs it builds it, by what ``backend`` says."""
        files = {
            "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n",
            "pyproject.toml": "[build-system]\nrequires = []\n"
            f"build-backend = 'backend'\nbackend-path = ['.']\n"
            f"[project]\nname = '{name}'\nversion = '{version}'\n",
            "backend.py": backend,
        }
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for path, text in files.items():
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        self.files[f"{name}-{version}.tar.gz"] = content.getvalue()

    def page(self, project: str) -> dict[str, Any] | None:
        found = [
            self._file(name)
            for name in self.files
            if name.split("-")[0].replace("_", "-") == project
        ]
        if not found:
            return None
        return {"meta": {"api-version": "1.1"}, "name": project, "files": found}

    def _file(self, name: str) -> dict[str, Any]:
        file: dict[str, Any] = {
            "filename": name,
            "url": f"{self.url}/files/{name}",
            "core-metadata": f"{name}.metadata" in self.described,
            "hashes": {"sha256": hashlib.sha256(self.files[name]).hexdigest()},
        }
        return {**file, "upload-time": "2020-01-01T00:00:00Z"} if self.dates else file


@contextmanager
def serve(index: Index) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, name = self.path.partition("?")[0].strip("/").partition("/")
            wanted = f"Basic {base64.b64encode(index.login.encode()).decode()}"
            if index.login and self.headers.get("Authorization") != wanted:
                self._answer(None, "text/plain", 401)
                return
            if kind == "files":
                if name in index.files:
                    index.asked.set()
                    index.let_go.wait(60)
                content = index.files.get(name) or index.described.get(name)
                self._answer(content, "application/octet-stream")
            else:
                page = index.page(name.strip("/"))
                self._answer(
                    json.dumps(page).encode() if page else None,
                    "application/vnd.pypi.simple.v1+json",
                )

        def _answer(self, content: bytes | None, kind: str, missing: int = 404) -> None:
            self.send_response(200 if content is not None else missing)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            try:
                self.wfile.write(content or b"")
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: the test prints what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield index
    finally:
        index.let_go.set()
        server.shutdown()
        server.server_close()
