"""The runner as it travels to a node: one archive of sources, alike for like sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import lru_cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_PARTS = ("builds", "containers", "core", "runner", "sdk")
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def files() -> dict[str, bytes]:
    """What ``command`` needs beside it in the attempt's folder."""
    return {"runner.pyz": build(), "runner.py": _bootstrap()}


def command(interpreter: str) -> list[str]:
    """How a driver starts the runner; ``{dir}`` is the attempt's folder."""
    return [interpreter, "-I", "-S", "{dir}/runner.py", "{dir}"]


def nursery(interpreter: str) -> list[str]:
    """How a driver starts a process that starts runners."""
    return [*command(interpreter), "--nursery"]


@lru_cache(maxsize=1)
def build() -> bytes:
    """A zip application: the runner, and the SDK for the script's own use. Needs Python 3.8."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
        _add(content, "__main__.py", _bootstrap())
        for name, source in _sources().items():
            _add(content, name, source)
    return archive.getvalue()


@lru_cache(maxsize=1)
def content_hash() -> str:
    """Of the sources, not of the archive: compression differs between machines."""
    digest = hashlib.sha256()
    for name, source in _sources().items():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:32]


@lru_cache(maxsize=1)
def _sources() -> dict[str, bytes]:
    paths = [_PACKAGE / "__init__.py"]
    for part in _PARTS:
        paths += (_PACKAGE / part).rglob("*.py")
    found = {f"wherry/{path.relative_to(_PACKAGE).as_posix()}": path for path in paths}
    return {name: found[name].read_bytes() for name in sorted(found)}


@lru_cache(maxsize=1)
def _bootstrap() -> bytes:
    source = _sources()["wherry/runner/bootstrap.py"].decode()
    return source.replace('HASH = ""', f'HASH = "{content_hash()}"', 1).encode()


def _add(content: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    content.writestr(info, data)
