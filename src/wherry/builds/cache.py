"""The folder on a node in which environments live.

specs/KEY.json            which environment a specification led to, and what was said about it
environments/KEY/         one environment; finished when it holds environment.json
locks/KEY.lock, .use      who builds it, who uses it; .says is the builder's latest sentence
work/KEY/                 what a build needs on the way; of no use to anyone else
trash/                    on its way out
uv/, conda/, wheels/      downloads, shared by all builds, linked into environments
pythons/, tools/          interpreters and programs that were fetched
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Optional

from wherry.builds.use import Use

MARKER = "environment.json"
FORMAT = 2


def default_root() -> str:
    """Where runs on this node look."""
    cache = os.environ.get("WHERRY_CACHE") or os.path.expanduser("~/.cache/wherry")
    return os.path.join(cache, "environments")


class Cache:
    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def make_folders(self) -> None:
        for part in ("specs", "environments", "locks", "work", "trash", "tools"):
            os.makedirs(self.path(part), exist_ok=True)

    def environment(self, key: str) -> str:
        return self.path("environments", key)

    def use_file(self, key: str) -> str:
        return self.path("locks", key + ".use")

    def answer(self, spec_key: str) -> Optional[Dict[str, Any]]:
        """What this specification led to, if it was ever built here."""
        found = read_json(self.path("specs", spec_key + ".json"))
        return found if found and found.get("format") == FORMAT else None

    def remember(self, spec_key: str, environment: str, notices: List[str]) -> None:
        answer = {"format": FORMAT, "environment": environment, "notices": notices}
        write_json(self.path("specs", spec_key + ".json"), answer)

    def finished(self, key: str) -> Optional[Dict[str, Any]]:
        """The marker of an environment that can be used here and now."""
        marker = read_json(os.path.join(self.environment(key), MARKER))
        if not marker or marker.get("format") != FORMAT:
            return None
        if marker.get("prefix") != self.environment(key):
            return None  # the folder was moved, and environments hold their own path
        return marker if os.path.exists(str(marker.get("interpreter"))) else None

    def finish(self, key: str, marker: Dict[str, Any]) -> None:
        write_json(os.path.join(self.environment(key), MARKER), {"format": FORMAT, **marker})

    def mark_used(self, key: str) -> Use:
        """Takes the mark first: what is found after it stays."""
        use = Use.of(self.use_file(key))
        with contextlib.suppress(OSError):
            os.utime(os.path.join(self.environment(key), MARKER))
        return use

    def discard(self, folder: str) -> None:
        """Gone in one step for everyone who looks, whatever the removal meets."""
        target = self.path("trash", os.urandom(16).hex())
        try:
            os.rename(folder, target)
        except FileNotFoundError:
            return
        import shutil  # loaded for nothing where there is nothing to remove

        shutil.rmtree(target, ignore_errors=True)


def read_json(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: str, content: Dict[str, Any]) -> None:
    """All of it or nothing."""
    partial = f"{path}.{os.urandom(16).hex()}"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
