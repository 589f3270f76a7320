"""Sources of ours as they travel to a node: one archive, alike for like sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def sources(parts: Iterable[str]) -> dict[str, bytes]:
    """Every module of these packages, or these modules, by its name in an archive."""
    paths = [_PACKAGE / "__init__.py"]
    for part in parts:
        whole = _PACKAGE / part
        paths += whole.rglob("*.py") if whole.is_dir() else [whole.with_suffix(".py")]
    found = {f"wherry/{path.relative_to(_PACKAGE).as_posix()}": path for path in paths}
    return {name: found[name].read_bytes() for name in sorted(found)}


def archive(contents: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as content:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            content.writestr(info, data)
    return packed.getvalue()


def content_hash(contents: Mapping[str, bytes]) -> str:
    """Of the sources, not of the archive: compression differs between machines."""
    digest = hashlib.sha256()
    for name, source in contents.items():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:32]
