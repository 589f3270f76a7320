"""What a bucket is known to have, noted on this machine."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from pathlib import Path


class Known:
    """A small file for each blob: its size within, and as its age when it was last asked for."""

    def __init__(self, root: Path, bucket: str) -> None:
        self._root = root / hashlib.sha256(bucket.encode()).hexdigest()[:16]

    def size(self, digest: str) -> int | None:
        """None where nothing is noted; asking makes it young."""
        path = self._path(digest)
        try:
            os.utime(path)
            with open(path, "rb", 0) as file:
                text = file.read()
        except FileNotFoundError:
            return None
        return int(text) if text.endswith(b"\n") else None

    def add(self, digest: str, size: int) -> None:
        path = self._path(digest)
        try:
            self._write(path, size)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            self._write(path, size)

    def is_stale(self, digest: str, before: datetime) -> bool:
        """Whether nobody has asked for it since; so it is where nothing is noted."""
        try:
            return os.stat(self._path(digest)).st_mtime < before.timestamp()
        except FileNotFoundError:
            return True

    def remove(self, digest: str) -> None:
        Path(self._path(digest)).unlink(missing_ok=True)

    def _write(self, path: str, size: int) -> None:
        # In one piece: what a power cut leaves is no number, and then nothing is noted.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%d\n" % size)
        finally:
            os.close(descriptor)

    def _path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"
