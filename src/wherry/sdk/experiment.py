"""``Experiment``: a named series of runs."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import wherry  # the lazy surface: see run.py

from ..core.errors import NotFoundError, UserErrorException
from ..core.ids import check_name
from ..core.nearest import suggest
from . import display, listing
from .client import quote
from .console import say
from .ignore import left_out_by_default
from .interactive import ClientRecorder, begin, drive
from .run import Run
from .script_run_config import ScriptRunConfig
from .settings import load
from .submission import plan, submit, submit_many
from .values import texts

_SUBMIT_OPTIONS = ("display_name", "description", "properties", "parent_id", "submission_key")


class Experiment:
    """A named series of runs in a workspace; made by its first run.

    >>> experiment = Experiment(ws, "churn")
    >>> run = experiment.submit(ScriptRunConfig(source_directory="src", script="train.py"))
    """

    def __init__(
        self, workspace: wherry.Workspace, name: str, *, _exists: bool = False, **_: Any
    ) -> None:
        self.workspace = workspace
        # One that MLflow's client has made may be called otherwise.
        self.name = name if _exists else check_name("experiment", name)
        self._record: Dict[str, Any] = {}

    @staticmethod
    def list(
        workspace: wherry.Workspace,
        experiment_name: Optional[str] = None,
        view_type: str = "ActiveOnly",
        tags: listing.Labels = None,
    ) -> List[Experiment]:
        """The experiments of a workspace. ``view_type`` is ActiveOnly, ArchivedOnly or All."""
        wanted = {"ActiveOnly": (False,), "ArchivedOnly": (True,), "All": (False, True)}
        if view_type not in wanted:
            raise UserErrorException(
                f"view_type is {view_type!r}", hint="it is ActiveOnly, ArchivedOnly or All"
            )
        found = []
        for record in workspace._experiment_records(archived=view_type != "ActiveOnly"):
            archived = record.get("archived_at") is not None
            if (
                archived in wanted[view_type]
                and experiment_name in (None, record["name"])
                and listing.matches(record, "tags", tags)
            ):
                found.append(workspace._experiment(record))
        return found

    @staticmethod
    def delete(workspace: wherry.Workspace, experiment_id: str) -> None:
        """Remove an experiment that has no runs."""
        for record in workspace._experiment_records(archived=True):
            if experiment_id in (record["id"], record["name"]):
                workspace._client.delete(workspace._experiment_path(record["name"]))
                return
        raise NotFoundError(
            f"workspace {workspace.name!r} has no experiment with the id {experiment_id!r}"
        )

    @property
    def id(self) -> str:
        return str(self._known()["id"])

    @property
    def archived_time(self) -> Optional[str]:
        archived_at = self.refresh()._record.get("archived_at")
        return None if archived_at is None else str(archived_at)

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self.refresh()._record.get("tags") or {})

    def submit(
        self,
        config: ScriptRunConfig,
        tags: Optional[Mapping[str, Any]] = None,
        *,
        progress: Optional[Callable[[int, int], None]] = None,
        **kwargs: Any,
    ) -> Run:
        """Send a script to its target and return its run at once.

        Options: ``display_name``, ``description``, ``properties``, ``parent_id`` and
        ``submission_key``; two submissions with the same key make one run. ``progress`` is called
        with the bytes sent and those to send.

        >>> run = experiment.submit(config, tags={"try": "1"}, display_name="first")
        """
        _check_config(config)
        _check_options(kwargs)
        record = submit(
            self.workspace._client,
            self.workspace.name,
            self.name,
            config,
            load(),
            {**kwargs, "tags": tags},
            progress,
        )
        return Run(self, record["id"], _record=record)

    def submit_many(
        self, configs: Sequence[ScriptRunConfig], tags: Optional[Mapping[str, Any]] = None
    ) -> List[Run]:
        """Send many scripts at once and return their runs: a thousand in about a second.

        All of them are taken, or none. Each source directory is captured once.

        >>> runs = experiment.submit_many(
        ...     [ScriptRunConfig("src", "train.py", ["--seed", seed]) for seed in range(1000)]
        ... )
        """
        for config in configs:
            _check_config(config)
        if not configs:
            return []
        ids = submit_many(
            self.workspace._client,
            self.workspace.name,
            self.name,
            configs,
            load(),
            {"tags": tags},
        )
        return [Run(self, run_id) for run_id in ids]

    def plan(self, config: ScriptRunConfig) -> Dict[str, Any]:
        """What ``submit`` would execute; nothing is stored.

        >>> print(experiment.plan(config)["rendered"])
        """
        _check_config(config)
        return plan(self.workspace._client, self.workspace.name, self.name, config)

    def start_logging(
        self,
        *args: Any,
        name: Optional[str] = None,
        run_id: Optional[str] = None,
        outputs: Any = None,
        snapshot_directory: Any = os.curdir,
        display_name: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        **_: Any,
    ) -> Run:
        """A run that this process drives, for notebooks and scripts that are not submitted.

        The current folder is captured if it is small; name a ``snapshot_directory`` to capture it
        whatever its size, or None for none.

        >>> with experiment.start_logging() as run:
        ...     run.log("accuracy", 0.91)
        """
        body = {
            "experiment": self.name,
            "run_id": run_id,
            "display_name": display_name or name or "",
            "snapshot_id": self._snapshot_for_logging(snapshot_directory),
            "tags": texts("tags", tags),
        }
        workspace = self.workspace
        record = begin(workspace._client, workspace.name, body)
        recorder = ClientRecorder(workspace._client, record["id"])
        run = Run(self, record["id"], _record=record, _recorder=recorder)
        drive(run)
        return run

    def get_runs(
        self,
        type: Optional[str] = None,
        tags: listing.Labels = None,
        properties: listing.Labels = None,
        include_children: bool = False,
        status: Union[str, Sequence[str], None] = None,
        *,
        filter: Optional[str] = None,
        order_by: Optional[str] = None,
    ) -> Iterator[Run]:
        """Its runs, newest first, or in the order of what they logged; with ``-`` in front the
        greatest first.

        >>> best = next(experiment.get_runs(order_by="-metrics.auc"))
        >>> good = experiment.get_runs(filter="metrics.auc > 0.8 and tags.team = 'x'")
        """
        return self.workspace.iter_runs(
            experiment=self.name,
            type=type,
            tags=tags,
            properties=properties,
            include_children=include_children,
            status=status,
            filter=filter,
            order_by=order_by,
        )

    def to_pandas(self, **filters: Any) -> Any:
        """Its runs as a ``DataFrame``: one row each, with its last metrics, parameters, script
        arguments and tags. Filters are those of ``Workspace.list_runs``.

        >>> experiment.to_pandas().plot.scatter("params.lr", "metrics.auc")
        """
        return self.workspace.to_pandas(experiment=self.name, **filters)

    def export(self, path: Any, *, history: bool = False, **filters: Any) -> int:
        """Write the same table to a ``.csv`` or ``.parquet`` file; how many rows it has.

        With ``history`` there is one row for every point of every metric.

        >>> experiment.export("runs.parquet")
        """
        return self.workspace.export(path, history=history, experiment=self.name, **filters)

    def archive(self) -> None:
        """Hide it from lists."""
        self._change(archived=True)

    def reactivate(self, new_name: Optional[str] = None) -> None:
        """Take it out of the archive."""
        if new_name is not None and new_name != self.name:
            raise UserErrorException("an experiment keeps its name when it is reactivated")
        self._change(archived=False)

    def tag(self, key: str, value: Optional[str] = None) -> None:
        self.set_tags({key: value})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        self._change(tags=texts("tags", tags))

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        self._change(remove_tags=[tags] if isinstance(tags, str) else [str(tag) for tag in tags])

    def refresh(self) -> Experiment:
        """Ask the server again; makes the experiment if there is none."""
        client = self.workspace._client
        try:
            self._record = client.get(self.workspace._experiment_path(self.name))
        except NotFoundError:
            path = f"/workspaces/{quote(self.workspace.name)}/experiments"
            self._record = client.post(path, json={"name": self.name}, retry=True)
        return self

    def get_portal_url(self) -> str:
        """Where to look at it in a browser."""
        return f"{self.workspace.get_portal_url()}&experiment={quote(self.name)}"

    def __repr__(self) -> str:
        return f"Experiment(Name: {self.name},\nWorkspace: {self.workspace.name})"

    def _repr_html_(self) -> str:
        return display.fields(
            [
                ("Name", self.name),
                ("Workspace", self.workspace.name),
                ("Report Page", display.link(self.get_portal_url(), "Link to the experiment")),
            ]
        )

    def _known(self) -> Dict[str, Any]:
        return self._record or self.refresh()._record

    def _change(self, **changes: Any) -> None:
        self._known()
        self._record = self.workspace._client.patch(
            self.workspace._experiment_path(self.name), changes
        )

    def _snapshot_for_logging(self, directory: Any) -> Optional[str]:
        if directory is None:
            return None
        folder = os.fspath(directory)
        if folder == os.curdir:
            problem = _too_large(os.getcwd())
            if problem:
                say(
                    f"no snapshot is taken of {os.getcwd()}: {problem}; "
                    "start_logging(snapshot_directory=...) names another folder"
                )
                return None
        return self.workspace.take_snapshot(folder)


def _check_config(config: Any) -> None:
    if not isinstance(config, ScriptRunConfig):
        raise UserErrorException(
            f"a {type(config).__name__} cannot be submitted", hint="submit a ScriptRunConfig"
        )


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in _SUBMIT_OPTIONS:
            raise TypeError(f"submit() has no option {name!r}{suggest(name, _SUBMIT_OPTIONS)}")


_MANY_FILES = 2000
_MANY_BYTES = 300_000_000


def _too_large(root: str) -> str:
    """Why a folder that nobody named should not be captured; found out in little time."""
    if root in (os.path.sep, os.path.expanduser("~")):
        return "it is not a project's folder"
    count = size = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "venv" and not left_out_by_default(name)]
        for name in names:
            count += 1
            try:
                size += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
            if count > _MANY_FILES:
                return f"it has more than {_MANY_FILES} files"
            if size > _MANY_BYTES:
                return f"it has more than {_MANY_BYTES // 1_000_000} MB"
    return ""
