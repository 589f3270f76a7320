"""What an engine builds an image from: a folder, and files that are laid over it."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from contextlib import contextmanager
from typing import Iterator, Mapping, Optional

_BLOCK = 1 << 20
DOCKERFILE = "Dockerfile"


class Context:
    """``folder`` may be empty; ``files`` are texts by their path in it."""

    def __init__(self, folder: str, files: Mapping[str, bytes], scratch: str) -> None:
        self._folder = folder
        self._files = dict(files)
        self._scratch = scratch

    def has_dockerfile(self) -> bool:
        at = os.path.join(self._folder, DOCKERFILE)
        return DOCKERFILE in self._files or (bool(self._folder) and os.path.isfile(at))

    @contextmanager
    def archive(self) -> Iterator[Iterator[bytes]]:
        """A tar, piece by piece."""
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                if self._folder:
                    tar.add(self._folder, ".", filter=self._kept)
                for name, content in self._files.items():
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mode = len(content), 0o755
                    tar.addfile(entry, io.BytesIO(content))
            file.seek(0)
            yield iter(lambda: file.read(_BLOCK), b"")

    def _kept(self, entry: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
        """Alike whoever sends it: layers are found again by owner and mode."""
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return None if os.path.normpath(entry.name) in self._files else entry
