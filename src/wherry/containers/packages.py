"""Packages on top of an image: a container installs them into itself, and becomes the new image.

Nothing that was needed on the way gets into the image: neither the specification, which may hold
a password, nor downloads.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
from typing import Any, Dict, Iterator, List, Mapping, Sequence

from .container import LABEL

HOME = "/opt/wherry"
BUILT = f"{HOME}/built.json"
_WORKSHOP = f"{HOME}/workshop"
_ENVIRONMENTS = f"{HOME}/environments"

_SCRIPT = f"""\
cd {_WORKSHOP} && . ./settings && exec >>log 2>&1
command -v python3 >/dev/null || {{ echo none >error; exit 1; }}
exec python3 -B -m wherry.builds.inside {_WORKSHOP} {HOME}
"""
_NO_PYTHON = "none"

# Where packages come from, as the node is told; all else of the node's is not the image's.
_SETTINGS = (
    "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
    "UV_INSECURE_HOST", "UV_HTTP_TIMEOUT", "UV_OFFLINE", "UV_PYTHON_DOWNLOADS",
    "UV_PYTHON_INSTALL_MIRROR", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
_CERTIFICATES = "SSL_CERT_FILE"


class Workshop:
    """A folder that the container sees: what to build, with what, and what came of it.

    ``downloads`` are folders of the node's that builds share, by their names.
    """

    def __init__(self, path: str, downloads: Mapping[str, str]) -> None:
        self.path = path
        self._downloads = dict(downloads)
        self._places: List[str] = []
        self._read = 0

    def fill(
        self,
        spec: Mapping[str, Any],
        library: str,
        uv: str,
        variables: Mapping[str, str],
        wheels: Mapping[str, str],
    ) -> None:
        """``library`` is where our own modules are, ``variables`` are the node's.

        ``wheels`` are files that the specification names by their digests.
        """
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(f"{self.path}/wherry/builds", mode=0o700)
        for path in glob.glob(f"{glob.escape(library)}/wherry/builds/*.py"):
            shutil.copy(path, f"{self.path}/wherry/builds/")
        _link(uv, f"{self.path}/uv")
        os.mkdir(f"{self.path}/wheels")
        for digest, path in wheels.items():
            _link(path, f"{self.path}/wheels/{digest}")
        asked = {name: spec[name] for name in ("name", "version", "python") if spec.get(name)}
        self._write("spec.json", json.dumps(asked))
        self._write("settings", "".join(self._settings(variables)))
        self._write("wherry/__init__.py", "")
        self._write("log", "")
        self._write("error", "")
        self._places = local_places(spec, variables)

    def body(self, image: str, attempt_id: str) -> Dict[str, Any]:
        """The container that an engine is asked for."""
        mounts = [_mount(self.path, _WORKSHOP)]
        for name, path in self._downloads.items():
            os.makedirs(path, exist_ok=True)
            mounts.append(_mount(path, f"{_ENVIRONMENTS}/{name}"))
        mounts += [{**_mount(path, path), "ReadOnly": True} for path in self._places]
        return {
            "Image": image,
            "Entrypoint": ["/bin/sh", "-c", _SCRIPT],
            "Cmd": [],
            "Labels": {LABEL: attempt_id},
            "User": "0:0",
            "WorkingDir": "/",
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": {
                "NetworkMode": "host",
                "Mounts": mounts,
                "SecurityOpt": ["label=disable"],
            },
        }

    def new_lines(self) -> List[str]:
        """Whole ones, since the last time."""
        with open(f"{self.path}/log", "rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode("utf-8", "replace").splitlines()

    def error(self) -> str:
        """Why not, in the builder's words; empty if it had none."""
        with open(f"{self.path}/error", encoding="utf-8", errors="replace") as file:
            told = file.read().strip()
        if told == _NO_PYTHON:
            return (
                "packages are installed by the image's own python3, and it has none; use an image "
                "with Python 3.8 or newer"
            )
        return told

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _settings(self, variables: Mapping[str, str]) -> Iterator[str]:
        yield "export UV_LINK_MODE=copy\n"
        for name in _SETTINGS:
            if variables.get(name):
                yield f"export {name}={shlex.quote(variables[name])}\n"
        known = variables.get(_CERTIFICATES, "")
        if os.path.isfile(known):
            shutil.copyfile(known, f"{self.path}/certificates")
            yield f"export {_CERTIFICATES}={_WORKSHOP}/certificates\n"

    def _write(self, name: str, text: str) -> None:
        handle = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)


def local_places(spec: Mapping[str, Any], variables: Mapping[str, str]) -> List[str]:
    """Channels and folders of packages on the node, which are there in the container, too."""
    conda = (spec.get("python") or {}).get("conda") or {}
    named = [str(each) for each in conda.get("channels") or []]
    for each in conda.get("dependencies") or []:
        pip = each.get("pip") if isinstance(each, dict) else None
        named += [word for line in pip or [] for word in re.split(r"[\s=]+", str(line))[1:]]
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        named += re.split(r"[\s,]+", variables.get(name, ""))
    return sorted({path for word in named for path in _folder(word)})


def _folder(word: str) -> Sequence[str]:
    path = re.sub(r"^file://", "", word.split("#", maxsplit=1)[0])
    if not os.path.isabs(path) or not os.path.exists(path):
        return ()
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return () if folder == "/" else (folder.rstrip("/"),)


def _mount(source: str, target: str) -> Dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target}


def _link(source: str, target: str) -> None:
    source = os.path.realpath(source)
    try:
        os.link(source, target)
    except OSError:  # another file system, or a file of another user's
        shutil.copy(source, target)
