"""Opens a page whose address holds a secret, without showing it to other users of the machine.

A browser gets its address on its command line, which everyone can read. So it gets another one,
good for a single visit, from where it is sent on.
"""

from __future__ import annotations

import secrets
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

_PATIENCE_S = 20.0


def show(address: str) -> bool:
    """Whether a browser has come for the page."""
    browser = _browser()
    if browser is None:
        return False
    with _Usher(address) as usher:
        return bool(browser.open(usher.address)) and usher.wait()


def _browser() -> Any:
    """A browser with a window; one that would take over the terminal does not count."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    in_terminal = type(browser) is webbrowser.GenericBrowser
    return None if in_terminal else browser


class _Usher(HTTPServer):
    """Sends the first visitor of one address on to another."""

    def __init__(self, destination: str) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.destination = destination
        self.path = "/" + secrets.token_urlsafe(16)
        self.address = f"http://127.0.0.1:{self.server_port}{self.path}"
        self.done = False
        self.timeout = 0.5

    def wait(self) -> bool:
        import time

        deadline = time.monotonic() + _PATIENCE_S
        while not self.done and time.monotonic() < deadline:
            self.handle_request()
        return self.done


class _Door(BaseHTTPRequestHandler):
    server: _Usher
    timeout = 5.0

    def do_GET(self) -> None:
        if self.path != self.server.path or self.server.done:
            self.send_error(404)
            return
        self.server.done = True
        self.send_response(302)
        self.send_header("Location", self.server.destination)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
