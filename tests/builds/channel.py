"""A conda channel in a folder, with packages that exist nowhere else and a Python of its own."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SUBDIR = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[os.uname().machine]
# Of the standard library, what neither an installation nor a small script needs.
_LEFT_OUT = {
    "__pycache__", "site-packages", "dist-packages", "test", "idlelib", "lib2to3", "tkinter",
    "turtledemo", "ensurepip", "pydoc_data", "unittest", "distutils",
}  # fmt: skip


class CondaChannel:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packages: dict[str, dict[str, Any]] = {"noarch": {}, _SUBDIR: {}}
        self._write_index()

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def add_python(self) -> str:
        """This interpreter and its standard library, as a package; returns its version.

        A shared libpython stays where the loader finds it: it is large, and slow to compress.
        """
        version = ".".join(map(str, sys.version_info[:3]))
        minor = ".".join(version.split(".")[:2])
        binary = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        files: dict[str, Path | bytes | str] = {f"bin/python{minor}": binary}
        files |= {"bin/python": f"->python{minor}", "bin/python3": f"->python{minor}"}
        library = Path(sysconfig.get_path("stdlib"))
        for path in _standard_library(library):
            files[f"lib/python{minor}/{path.relative_to(library).as_posix()}"] = path
        packages = _packages_folder(binary)
        files[f"{packages}/README.txt"] = b"packages go here\n"
        where = {"python_site_packages_path": packages}
        self.add("python", version, files, subdir=_SUBDIR, extra=where)
        return version

    def add_module(
        self, name: str, version: str, source: str, depends: list[str] | None = None
    ) -> None:
        """A pure Python package."""
        module = name.replace("-", "_")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        info = f"site-packages/{module}-{version}.dist-info"
        files: dict[str, Path | bytes | str] = {
            f"site-packages/{module}.py": source.encode(),
            f"{info}/METADATA": metadata.encode(),
            f"{info}/INSTALLER": b"conda",
        }
        needs = ["python", *(depends or [])]
        self.add(name, version, files, depends=needs, extra={"noarch": "python"})

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, Path | bytes | str],
        depends: list[str] | None = None,
        subdir: str = "noarch",
        extra: dict[str, Any] | None = None,
    ) -> None:
        """``files`` are contents, paths to copy, or ``->target`` for a link."""
        index = {
            "name": name, "version": version, "build": "0", "build_number": 0,
            "subdir": subdir, "depends": depends or [], "timestamp": 1_600_000_000_000,
            **(extra or {}),
        }  # fmt: skip
        path = self.folder / subdir / f"{name}-{version}-0.tar.bz2"
        _pack(path, files, index)
        content = path.read_bytes()
        self._packages[subdir][path.name] = {
            **index,
            "sha256": hashlib.sha256(content).hexdigest(),
            "md5": hashlib.md5(content).hexdigest(),
            "size": len(content),
        }
        self._write_index()

    def _write_index(self) -> None:
        for subdir, packages in self._packages.items():
            (self.folder / subdir).mkdir(parents=True, exist_ok=True)
            index = {"info": {"subdir": subdir}, "packages": packages, "packages.conda": {}}
            text = json.dumps({**index, "repodata_version": 1})
            (self.folder / subdir / "repodata.json").write_text(text)


def _packages_folder(binary: Path) -> str:
    """Below the prefix; Debian's Python looks elsewhere than others."""
    code = (
        "import os, sys, sysconfig as s; print(os.path.relpath(s.get_path('purelib'), sys.prefix))"
    )
    return subprocess.check_output([binary, "-I", "-c", code], text=True).strip()


def _standard_library(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = [
            each for each in folders if each not in _LEFT_OUT and not each.startswith("config-")
        ]
        yield from (Path(where) / name for name in names if not name.startswith("_test"))


def _pack(path: Path, files: Mapping[str, Path | bytes | str], index: dict[str, Any]) -> None:
    with tarfile.open(path, "w:bz2", compresslevel=1) as archive:
        paths = []
        for name, content in files.items():
            paths.append(_put(archive, name, content))
        listed = {"paths_version": 1, "paths": paths}
        _put(archive, "info/index.json", json.dumps(index).encode())
        _put(archive, "info/paths.json", json.dumps(listed).encode())
        _put(archive, "info/files", "\n".join(files).encode() + b"\n")
        if index.get("noarch") == "python":
            link = {"noarch": {"type": "python"}, "package_metadata_version": 1}
            _put(archive, "info/link.json", json.dumps(link).encode())


def _put(archive: tarfile.TarFile, name: str, content: Path | bytes | str) -> dict[str, Any]:
    info = tarfile.TarInfo(name)
    info.mode = 0o755 if name.startswith("bin/") else 0o644
    if isinstance(content, str):
        info.type, info.linkname = tarfile.SYMTYPE, content.removeprefix("->")
        archive.addfile(info)
        return {"_path": name, "path_type": "softlink"}
    data = content.read_bytes() if isinstance(content, Path) else content
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
    digest = hashlib.sha256(data).hexdigest()
    return {"_path": name, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(data)}
