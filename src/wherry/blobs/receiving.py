"""Contents as they arrive: counted, and named by their digest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable

from wherry.core.errors import UserErrorException

from .base import Blob

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def place_of(digest: str) -> str:
    """The name of a blob within its store; anything but a digest is refused."""
    if not _DIGEST.match(digest):
        raise UserErrorException(f"{digest[:80]!r} is not a SHA-256 digest")
    return f"{digest[:2]}/{digest}"


def receive(path: str, expected: str | None, chunks: Iterable[bytes]) -> Blob:
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
            size += len(chunk)
    check(digest.hexdigest(), expected)
    return Blob(digest.hexdigest(), size)


def check(digest: str, expected: str | None) -> None:
    if expected is not None and digest != expected:
        raise UserErrorException(
            f"the content sent as {expected} has digest {digest}",
            hint="the file changed while it was sent: submit again",
        )
