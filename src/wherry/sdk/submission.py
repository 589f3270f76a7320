"""From a configuration to a run: the snapshot captured and sent, then one request."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar

from ..core.errors import NotFoundError
from ..core.settings import Settings
from .batch import Progress
from .client import Client, quote
from .console import say
from .environment_spec import kept
from .git import GitFacts
from .script_run_config import ScriptRunConfig
from .sent_trees import WORTH_KEEPING, SentTree, SentTrees
from .snapshot import Snapshot
from .upload import upload, upload_changes
from .values import texts

T = TypeVar("T")

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
    registry = Registry(client, workspace, settings)
    with Source(config.source_directory, [spec], settings) as source:
        environment = _with_context(spec, registry, settings)["environment"]

        def send() -> Dict[str, Any]:
            (whole,) = source.specs()
            answer: Dict[str, Any] = client.post(
                f"/workspaces/{quote(workspace)}/runs",
                json={**whole, "environment": environment},
                retry=True,
            )
            return answer

        return _with_snapshots(registry, [source.snapshot], progress, send)


def submit_many(
    client: Client,
    workspace: str,
    experiment: str,
    configs: Sequence[ScriptRunConfig],
    settings: Settings,
    labels: Mapping[str, Any],
) -> List[str]:
    """The ids of the new runs. Each folder is captured once; all runs are stored, or none."""
    given = {**_labels(labels), "experiment": experiment}
    registry = Registry(client, workspace, settings)
    specs: List[Dict[str, Any]] = [
        _with_context({**config.to_spec(), **given}, registry, settings) for config in configs
    ]
    by_folder: Dict[str, List[int]] = {}
    for place, config in enumerate(configs):
        by_folder.setdefault(os.path.abspath(config.source_directory), []).append(place)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(Source(folder, [specs[each] for each in places], settings))
            for folder, places in by_folder.items()
        ]

        def send() -> List[str]:
            for source, places in zip(sources, by_folder.values()):
                for place, spec in zip(places, source.specs()):
                    specs[place] = spec
            path = f"/workspaces/{quote(workspace)}/runs/bulk"
            answer = client.post(path, json={"runs": specs}, retry=True)
            return [item["id"] for item in answer["items"]]

        return _with_snapshots(registry, [source.snapshot for source in sources], None, send)


class Source:
    """A folder that runs are made from: captured, and git asked about it. Use it in a ``with``."""

    def __init__(self, folder: str, specs: Sequence[Mapping[str, Any]], settings: Settings) -> None:
        keys = [spec.get("submission_key") or os.urandom(16).hex() for spec in specs]
        self._specs = [{**spec, "submission_key": key} for spec, key in zip(specs, keys)]
        scripts = sorted({spec["script"] for spec in specs if spec.get("script")})
        self._git = GitFacts(folder)
        with ExitStack() as stack:
            stack.push(self._git)
            self.snapshot = capture(folder, settings, scripts)
            stack.pop_all()
        self._git.ask(self.snapshot.read)
        self._facts: Optional[Dict[str, str]] = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._git.__exit__(*error)

    def specs(self) -> List[Dict[str, Any]]:
        """What is asked for, with all that follows from the folder.

        Asked for late: git may take until then, and what was sent may differ from the capture.
        """
        if self._facts is None:
            self._facts = self._git.properties()
        return [
            {
                **spec,
                "properties": {**self._facts, **spec.get("properties", {})},
                "snapshot_id": self.snapshot.id,
            }
            for spec in self._specs
        ]


def _with_context(spec: Dict[str, Any], registry: Registry, settings: Settings) -> Dict[str, Any]:
    """With the folder that an image is built from, if there is one, sent as a snapshot."""
    environment = spec["environment"]
    if not environment.get("specification"):
        return spec

    def keep(folder: str) -> str:
        snapshot = capture(folder, settings, [])
        registry.register(snapshot)
        return snapshot.id

    wanted = kept(environment["specification"], keep)
    return {**spec, "environment": {**environment, "specification": wanted}}


def _with_snapshots(
    sent: Registry,
    snapshots: Sequence[Snapshot],
    progress: Optional[Progress],
    send: Callable[[], T],
) -> T:
    """Send what needs these snapshots; they go first where the server does not have them."""
    known = {snapshot.id for snapshot in snapshots if sent.knows(snapshot.id)}
    for snapshot in snapshots:
        if snapshot.id not in known:
            sent.register(snapshot, progress)
    try:
        return send()
    except NotFoundError:
        if not known:
            raise
    for snapshot in snapshots:
        sent.register(snapshot, progress)  # the server has lost what it once had
    return send()


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
        self._trees = SentTrees(settings.cache, name)

    def knows(self, snapshot_id: str) -> bool:
        return snapshot_id in self._read()

    def register(self, snapshot: Snapshot, progress: Optional[Progress] = None) -> None:
        base = self._trees.get(snapshot.directory)
        differing = None
        if base is not None:
            differing = upload_changes(snapshot, self._client, self._workspace, base)
        if differing is None:
            upload(snapshot, self._client, self._workspace, progress=progress)
        if differing is None or differing > WORTH_KEEPING:
            self._trees.put(snapshot.directory, SentTree(snapshot.id, snapshot.pieces))
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
    part = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
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
