"""From a configuration to a run: the snapshot captured and sent, then one request."""

from __future__ import annotations

import hashlib
import os
import uuid
from typing import Any, Dict, List, Mapping, Optional

from ..core.errors import NotFoundError
from ..core.settings import Settings
from .client import Client, quote
from .console import say
from .git import GitFacts
from .script_run_config import ScriptRunConfig
from .snapshot import Progress, Snapshot
from .values import texts

_REMEMBERED = 1000
_NOTICES_SHOWN = 5


def submit(
    client: Client,
    workspace: str,
    experiment: str,
    config: ScriptRunConfig,
    settings: Settings,
    labels: Mapping[str, Any],
    progress: Optional[Progress] = None,
) -> Dict[str, Any]:
    """The record of the new run. Nothing is sent for a configuration that cannot be carried out.

    A lost answer is asked for again under the same ``submission_key``: it makes no second run.
    """
    spec = {**config.to_spec(), **_labels(labels), "experiment": experiment}
    scripts = [spec["script"]] if spec.get("script") else []
    with GitFacts(config.source_directory) as git:
        snapshot = capture(config.source_directory, settings, scripts)
        spec["properties"] = {**git.properties(), **spec.get("properties", {})}
    spec["submission_key"] = spec.get("submission_key") or uuid.uuid4().hex
    sent = Registry(client, workspace, settings)
    known = sent.knows(snapshot.id)
    if not known:
        sent.register(snapshot, progress)
    try:
        return _post(client, workspace, {**spec, "snapshot_id": snapshot.id})
    except NotFoundError:
        if not known:
            raise
    sent.register(snapshot, progress)  # the server has lost what it once had
    return _post(client, workspace, {**spec, "snapshot_id": snapshot.id})


def plan(
    client: Client, workspace: str, experiment: str, config: ScriptRunConfig
) -> Dict[str, Any]:
    """What a submission would execute; nothing is captured, sent or stored."""
    spec = {**config.to_spec(), "experiment": experiment}
    answer: Dict[str, Any] = client.post(
        f"/workspaces/{quote(workspace)}/runs/plan", json=spec, retry=True
    )
    return answer


def capture(
    directory: str, settings: Settings, include: List[str], *, remind: bool = False
) -> Snapshot:
    """The snapshot; what the user should know of it is told.

    What was told the last time is told again only if the user is to be reminded.
    """
    snapshot = Snapshot.capture(directory, cache_dir=settings.cache, include=include, warn=say)
    news = _is_news(snapshot, settings)
    if not news and not remind:
        return snapshot
    for notice in snapshot.notices[:_NOTICES_SHOWN]:
        say(f"snapshot: {notice}")
    hidden = len(snapshot.notices) - _NOTICES_SHOWN
    if hidden > 0:
        say(f"snapshot: and {hidden} more of the kind")
    return snapshot


class Registry:
    """Which snapshots a server has been seen to hold, so that it need not be asked."""

    def __init__(self, client: Client, workspace: str, settings: Settings) -> None:
        self._client = client
        self._workspace = workspace
        name = quote(f"{client.server_file or client.url} {workspace}")[-200:]
        self._path = os.path.join(settings.cache, "registered", name)

    def knows(self, snapshot_id: str) -> bool:
        return snapshot_id in self._read()

    def register(self, snapshot: Snapshot, progress: Optional[Progress] = None) -> None:
        snapshot.upload(self._client, self._workspace, progress=progress)
        self._remember(snapshot.id)

    def _read(self) -> List[str]:
        return _read(self._path)

    def _remember(self, snapshot_id: str) -> None:
        known = [known for known in self._read() if known != snapshot_id][-_REMEMBERED + 1 :]
        _replace(self._path, [*known, snapshot_id])  # else the server is asked next time


def _is_news(snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the notices are others than those of the last capture of this folder."""
    told = [_digest(str(notice)) for notice in snapshot.notices]
    path = os.path.join(settings.cache, "told", _digest(snapshot.directory))
    if sorted(told) == sorted(_read(path)):
        return False
    _replace(path, told)
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _read(path: str) -> List[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().split()
    except OSError:
        return []


def _replace(path: str, words: List[str]) -> None:
    """What cannot be remembered is forgotten: this is a cache."""
    part = f"{path}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(part, "w", encoding="ascii") as file:
            file.write("\n".join([*words, ""]))
        os.replace(part, path)
    except OSError:
        pass


def _labels(labels: Mapping[str, Any]) -> Dict[str, Any]:
    found = {name: value for name, value in labels.items() if value is not None}
    for kind in ("tags", "properties"):
        if kind in found:
            found[kind] = texts(kind, found[kind])
    return found


def _post(client: Client, workspace: str, spec: Mapping[str, Any]) -> Dict[str, Any]:
    answer: Dict[str, Any] = client.post(
        f"/workspaces/{quote(workspace)}/runs", json=spec, retry=True
    )
    return answer
