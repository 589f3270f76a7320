"""Sources of ours as they travel to a node: one archive, alike for like sources."""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
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


def needed(module: str) -> list[str]:
    """The module and all of ours that it imports, and what those import: paths in the package."""
    found: dict[str, None] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and _path(name) is not None:
            found[name] = None
            waiting += _imported(name)
    return [_place(name) for name in found]


def _place(name: str) -> str:
    path = _path(name)
    assert path is not None
    return path.relative_to(_PACKAGE).with_suffix("").as_posix()


def _path(name: str) -> Path | None:
    base = _PACKAGE / name.replace(".", "/")
    choices = (base.with_suffix(".py"), base / "__init__.py") if name else ()
    return next((path for path in choices if path.exists()), None)


def _imported(name: str) -> Iterator[str]:
    path = _path(name)
    assert path is not None
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    yield package
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            if base is not None:
                yield base
                yield from (f"{base}.{each.name}".lstrip(".") for each in node.names)


def _base(node: ast.ImportFrom, package: str) -> str | None:
    """What it imports from, as a name inside our package; None for what is others'."""
    module = node.module or ""
    if node.level == 0:
        ours = module == "wherry" or module.startswith("wherry.")
        return module[len("wherry.") :] if ours else None
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join(filter(None, [*above, module]))


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
