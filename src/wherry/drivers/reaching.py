"""Whether a server answers at an address, as seen from a node."""

from __future__ import annotations

from typing import Optional

from wherry.runner.connection import Connection, NetworkError


def trouble(url: str, limit_s: float) -> Optional[str]:
    """Why not, or None."""
    try:
        connection = Connection(url, limit_s)
        try:
            response = connection.request("GET", "/api/v1/health", "")
            response.body()
        finally:
            connection.close()
    except (NetworkError, ValueError) as error:
        return f"{url} does not answer: {error}"
    if "wherry-api" not in response.headers:
        return f"something else answers at {url}"
    return None
