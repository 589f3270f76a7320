"""The program uv: found on the machine, or fetched from the package index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Dict, Iterator, List, Optional

from wherry.builds.cache import Cache
from wherry.builds.claim import claim
from wherry.builds.command import run
from wherry.builds.error import BuildError
from wherry.builds.talk import Talk

OLDEST = (0, 8)  # reads and writes pylock.toml
WANTED = "uv>=0.8,<1"
_CLAIM = "tool-uv"


def find_uv(cache: Cache, talk: Talk, given: Optional[str] = None) -> str:
    if given is not None:
        return given
    for path in _places(cache):
        if _works(path):
            return path
    with claim(cache.path("locks"), _CLAIM, "the program uv", talk):
        if not _works(_own(cache)):
            _fetch(cache, talk)
    return _own(cache)


def _places(cache: Cache) -> Iterator[str]:
    named = os.environ.get("WHERRY_UV")
    if named:
        yield named
    on_path = shutil.which("uv")
    if on_path:
        yield on_path
    yield os.path.join(os.path.dirname(sys.executable), "uv")
    yield os.path.expanduser("~/.local/bin/uv")
    yield os.path.expanduser("~/.cargo/bin/uv")
    yield _own(cache)


def _own(cache: Cache) -> str:
    return cache.path("tools", "uv", "bin", "uv")


def _works(path: str) -> bool:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def _fetch(cache: Cache, talk: Talk) -> None:
    """As the wheel on the package index, by pip, into a folder that appears when it is whole."""
    talk.say("fetching uv")
    partial = cache.path("work", _CLAIM)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        pip = _pip(os.path.join(partial, "pip"), talk)
        target = os.path.join(partial, "uv")
        done = run(
            [*pip, "install", "--disable-pip-version-check", "--target", target, WANTED], talk
        )
        if done.code != 0:
            raise BuildError(
                "uv, which makes environments, is not on this machine and could not be fetched",
                hint="install uv on the target, or let it reach a package index",
                explanation=done.output.strip(),
            )
        cache.discard(cache.path("tools", "uv"))
        os.rename(target, cache.path("tools", "uv"))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _pip(folder: str, talk: Talk) -> List[str]:
    """Of this interpreter if it has one, else of an environment made for the moment."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    if run([sys.executable, "-m", "venv", folder], talk).code != 0:
        raise BuildError(
            "uv, which makes environments, is not on this machine, nor is pip to fetch it with",
            hint="install uv on the target: pip install uv, or your system's package",
        )
    return [os.path.join(folder, "bin", "python"), "-m", "pip"]


def variables(cache: Cache) -> Dict[str, str]:
    """The node's settings for pip tell where packages come from, if none for uv do."""
    return {
        **_indexes(),
        "UV_CACHE_DIR": cache.path("uv"),
        "UV_PYTHON_INSTALL_DIR": cache.path("pythons"),
        "UV_NO_PROGRESS": "1",
        "UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "30"),
        "UV_PYTHON_INSTALL_BIN": "0",
        "UV_PREVIEW_FEATURES": "pylock",
        "NO_COLOR": "1",
    }


def _indexes() -> Dict[str, str]:
    known = {
        "UV_DEFAULT_INDEX": ("UV_INDEX_URL", os.environ.get("PIP_INDEX_URL", "")),
        "UV_INDEX": ("UV_EXTRA_INDEX_URL", os.environ.get("PIP_EXTRA_INDEX_URL", "")),
        "UV_FIND_LINKS": ("UV_FIND_LINKS", _there(os.environ.get("PIP_FIND_LINKS", ""))),
    }
    return {
        name: value
        for name, (older, value) in known.items()
        if value and not os.environ.get(name) and not os.environ.get(older)
    }


def _there(places: str) -> str:
    """uv, unlike pip, does not pass over a folder that is not there."""
    found = [each for each in places.split() if "://" in each or os.path.isdir(each)]
    return ",".join(found)


def fetch_python(uv: str, cache: Cache, request: str, talk: Talk) -> Optional[str]:
    """None when it is there now, else why not."""
    if os.environ.get("UV_PYTHON_DOWNLOADS") == "never":
        return "UV_PYTHON_DOWNLOADS is never"
    talk.say(f"fetching Python {request}")
    told = {**variables(cache), "UV_HTTP_TIMEOUT": "15"}
    done = run([uv, "python", "install", request], talk, told)
    if done.code == 0:
        return None
    causes = re.findall(r"(?:error|cause): (.+)", done.output)
    return causes[-1].strip() if causes else f"exit code {done.code}"
