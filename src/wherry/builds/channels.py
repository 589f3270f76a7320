"""Conda channels: their addresses, and whether anyone answers there."""

from __future__ import annotations

import http.client
import os
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Dict, List, Sequence

from wherry.builds.redacting import without_secrets
from wherry.builds.talk import Talk

ALIAS = "https://conda.anaconda.org"
_NAMED = {
    "defaults": ["https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r"],
    "nodefaults": [],
}
ANSWER_S = 10.0
_FILES = ("noarch/repodata.json.zst", "noarch/repodata.json")


@dataclass(frozen=True)
class Channel:
    name: str
    url: str
    silence: str = ""  # why nobody answers

    @property
    def shown(self) -> str:
        name, url = without_secrets(self.name), without_secrets(self.url)
        return name if name.rstrip("/") == url else f"{name} ({url})"


def addresses(names: Sequence[str]) -> List[Channel]:
    """In the order of the file; conda-forge where it names none."""
    found: List[Channel] = []
    for name in names or ["conda-forge"]:
        if re.match(r"^[a-z]+://", name):
            found.append(Channel(name, name.rstrip("/")))
        elif name.startswith(("/", "./", "~")):
            path = os.path.abspath(os.path.expanduser(name))
            found.append(Channel(name, "file://" + urllib.parse.quote(path)))
        else:
            urls = _NAMED.get(name, [f"{ALIAS}/{name}"])
            found += [Channel(name, url) for url in urls]
    return found


def probe(channels: Sequence[Channel], talk: Talk) -> List[Channel]:
    """All at once, each within ten seconds; a cancel leaves them to themselves."""
    answers: Dict[int, Channel] = {}

    def ask(place: int, channel: Channel) -> None:
        answers[place] = _probe(channel)

    asking = [
        threading.Thread(target=ask, args=numbered, daemon=True) for numbered in enumerate(channels)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        while thread.is_alive():
            talk.check()
            thread.join(0.1)
    return [answers[place] for place in range(len(channels))]


def why_silent(channels: Sequence[Channel]) -> str:
    """A reason that several have is told once."""
    reasons: Dict[str, List[str]] = {}
    for channel in channels:
        reasons.setdefault(channel.silence, []).append(channel.shown)
    return "; ".join(f"{', '.join(shown)}: {reason}" for reason, shown in reasons.items())


def _probe(channel: Channel) -> Channel:
    reason = ""
    for file in _FILES:
        try:
            _begin(f"{channel.url}/{file}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = _reason(error)
            if not isinstance(error, urllib.error.HTTPError) and "file:" not in channel.url:
                break
        else:
            return channel
    return Channel(channel.name, channel.url, reason)


def _begin(url: str) -> None:
    """Its first byte: some servers answer a HEAD and nothing else."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise ValueError(f"{scheme}: is not an address of a channel")
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310 - checked above
        answer.read(1)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError) or "timed out" in str(cause):
        return f"no answer within {ANSWER_S:.0f} seconds"
    return getattr(cause, "strerror", None) or str(cause)
