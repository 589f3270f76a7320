"""What a JupyterLab says of itself, asked through a unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

_ANSWER_S = 20.0
_MOST_BYTES = 1 << 20


class SilentError(Exception):
    """It does not answer, or not as JupyterLab does."""


def ask(path: str, base_url: str, token: str, what: str) -> Any:
    """The answer to ``GET api/<what>``. That somebody asked is no use of it."""
    connection = _Connection(path)
    try:
        address = f"{base_url}api/{what}?no_track_activity=1"
        connection.request("GET", address, headers={"Authorization": f"token {token}"})
        answer = connection.getresponse()
        content = answer.read(_MOST_BYTES)
        if answer.status != http.client.OK:
            raise SilentError(f"it answers {answer.status}")
        return json.loads(content)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SilentError(str(error) or type(error).__name__) from None
    finally:
        connection.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER_S)
        self.sock.connect(self._path)
