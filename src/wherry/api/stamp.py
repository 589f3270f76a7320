"""What every answer carries: which server, of which version."""

from __future__ import annotations

from wherry.core.version import API, VERSION

Headers = list[tuple[bytes, bytes]]


def stamp(server_id: str) -> Headers:
    return [
        (b"wherry-version", VERSION.encode()),
        (b"wherry-api", str(API).encode()),
        (b"wherry-server", server_id.encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
