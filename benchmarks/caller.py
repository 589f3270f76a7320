"""Plain requests over one kept connection, without what the SDK adds."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_KEPT_S = 2.0


class Caller:
    """Asks one server; a refusal is an error."""

    def __init__(self, home: Path) -> None:
        address = urlsplit(json.loads((home / "server.json").read_text())["url"])
        token = (home / "token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}"}
        self._connection = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=60
        )
        self._used_at = time.monotonic()

    def open(self, path: str) -> http.client.HTTPResponse:
        """The answer, to be read as it comes."""
        return self._request("GET", path, None)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        reply = self._request(method, path, body)
        content = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {content[:300]!r}")
        return content

    def _request(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        """By a new connection after a while: the server does not keep those that are silent."""
        if time.monotonic() - self._used_at > _KEPT_S:
            self._connection.close()
        self._connection.request(method, path, body, self._headers)
        reply = self._connection.getresponse()
        self._used_at = time.monotonic()
        return reply

    def send(self, path: str, fields: dict[str, Any]) -> Any:
        return json.loads(self.ask("POST", path, json.dumps(fields).encode()))
