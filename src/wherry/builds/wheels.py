"""Wheels that a workspace keeps: fetched from its server, handed to uv as files of this machine.

An environment names one by digest (``wherry://wheels/SHA256/NAME``), and so do locks and what is
installed: where the file lies matters to uv alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Callable, Dict, List, Match, Optional, Tuple
from urllib.parse import quote

from wherry.builds.cache import Cache
from wherry.builds.error import BuildError
from wherry.builds.talk import Talk

FOLDER = "wheels"
_NAMED = r"([0-9a-f]{64})/([A-Za-z0-9][A-Za-z0-9_.!+-]*\.whl)"
_ADDRESS = re.compile(rf"wherry://wheels/{_NAMED}")
_ADDRESS_LOCKED = re.compile(rf'url = "wherry://wheels/{_NAMED}"')
_BLOCK = 1 << 20

# Writes the content of a digest to a path; raises BuildError where it cannot be had.
Fetch = Callable[[str, str], object]


class Wheels:
    """Those of one build. ``called`` names the environment in sentences."""

    def __init__(self, cache: Cache, talk: Talk, called: str, fetch: Optional[Fetch]) -> None:
        self._cache = cache
        self._talk = talk
        self._called = called
        self._fetch = fetch
        root = re.escape(self._cache.path(FOLDER))
        self._place_locked = re.compile(rf'path = "{root}/{_NAMED}"')
        self._url = re.compile(rf"file://{re.escape(_quoted(self._cache.path(FOLDER)))}/{_NAMED}")

    def required(self, requirement: str) -> str:
        """The requirement as uv takes it, its wheel on this machine."""
        return _ADDRESS.sub(lambda found: f"file://{_quoted(self._here(found))}", requirement)

    def to_install(self, pylock: str) -> str:
        return _ADDRESS_LOCKED.sub(lambda found: f'path = "{self._here(found)}"', pylock)

    def to_keep(self, pylock: str) -> str:
        """A lock that means the same on every machine."""
        return self._place_locked.sub(r'url = "wherry://wheels/\1/\2"', pylock)

    def shown(self, text: str) -> str:
        """What somebody says of the file, said of the wheel."""
        return self._url.sub(r"wherry://wheels/\1/\2", text)

    def file(self, digest: str, name: str) -> str:
        """Where the wheel is on this machine, verified; fetched if it is not there."""
        path = self._cache.path(FOLDER, digest, name)
        if _digest(path) == digest:
            return path
        if self._fetch is None:
            raise BuildError(
                f"{self._called} needs the wheel {name}, which a workspace keeps: it can be made"
                " for a run of that workspace alone"
            )
        self._talk.say(f"fetching the wheel {name}")
        partial = f"{self._cache.path(FOLDER)}/{os.urandom(16).hex()}.part"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            self._fetch(digest, partial)
            if _digest(partial) != digest:
                raise BuildError(
                    f"the wheel {name} of {self._called} did not come as the workspace keeps it:"
                    f" its SHA-256 is not {digest}",
                    hint="submit again; if that does not help, add the wheel again",
                )
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.unlink(partial)
        return path

    def _here(self, found: Match[str]) -> str:
        return self.file(found[1], found[2])


def named_in(python: Dict[str, Any]) -> List[Tuple[str, str]]:
    """Digests and names of the wheels that this part of a specification asks for."""
    texts = [str((python.get("lock") or {}).get("pylock") or "")]
    for each in (python.get("conda") or {}).get("dependencies") or []:
        texts += [str(line) for line in each.get("pip") or []] if isinstance(each, dict) else []
    return sorted({found for text in texts for found in _ADDRESS.findall(text)})


def _quoted(path: str) -> str:
    return quote(path, safe="/~+!")


def _digest(path: str) -> Optional[str]:
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(_BLOCK), b""):
                found.update(block)
    except FileNotFoundError:
        return None
    return found.hexdigest()
