"""Plain requests over one kept connection, without what the SDK adds."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Caller:
    """Asks one server; a refusal is an error."""

    def __init__(self, home: Path) -> None:
        address = urlsplit(json.loads((home / "server.json").read_text())["url"])
        token = (home / "token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}"}
        self._connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=60
        )

    def open(self, path: str) -> http.client.HTTPResponse:
        """The answer, to be read as it comes."""
        self._connection.request("GET", path, headers=self._headers)
        return self._connection.getresponse()

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        reply = self._connection.getresponse()
        content = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {content[:300]!r}")
        return content

    def send(self, path: str, fields: dict[str, Any]) -> Any:
        return json.loads(self.ask("POST", path, json.dumps(fields).encode()))
