"""``Run``: one execution, as its submitter, its script and a notebook see it."""

from __future__ import annotations

import io
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

import wherry  # the lazy surface: names are looked up when used, so that no import is circular

from ..core.errors import (
    NotFoundError,
    RunEnvironmentException,
    UserErrorException,
    WherryError,
)
from ..core.ids import check_run_id
from . import display, listing, watch
from .client import quote
from .console import say
from .details import details, error_of
from .environment import Environment, from_spec
from .fetching import download
from .files import RunFiles
from .handle import BUILD_LOG, EARLY, STD_LOG, TERMINAL
from .interactive import ClientRecorder, begin, drive, release, why_failed
from .labels import Labels
from .late import Late
from .offline import _OfflineRun
from .recorder import Recorder, SubmittedRecorder
from .settings import run_context

if TYPE_CHECKING:
    from . import run_table, table_file
else:
    run_table, table_file = Late("run_table"), Late("table_file")

_DOCS = "https://github.com/wherry-ml/wherry/blob/main/docs/reference/sdk.md"


class Run(Labels, RunFiles):
    """One run of an experiment.

    >>> run = experiment.submit(config)
    >>> run.wait_for_completion(show_output=True)
    >>> run.get_metrics()
    {'accuracy': 0.91}

    In the script itself:

    >>> run = Run.get_context()
    >>> run.log("accuracy", 0.91)
    """

    def __init__(
        self,
        experiment: Optional[wherry.Experiment],
        run_id: str,
        outputs: Any = None,
        *,
        _record: Optional[Mapping[str, Any]] = None,
        _recorder: Optional[Recorder] = None,
        _client: Any = None,
        **_: Any,
    ) -> None:
        client = experiment.workspace._client if experiment is not None else _client
        super().__init__(check_run_id(run_id), client, _record)
        self._experiment = experiment  # None in a script, and looked up when it is asked for
        self._recorder = _recorder
        self._submitted = isinstance(_recorder, SubmittedRecorder) and _recorder.run_id == self.id
        self._tagged = {}
        self._mute = False

    @staticmethod
    def get_context(
        allow_offline: bool = True, used_for_context_manager: bool = False, **_: Any
    ) -> Any:
        """The run that this script is executed for.

        Outside a run: an offline run that prints what it is asked to log or, with
        ``allow_offline=False``, an error.

        >>> run = Run.get_context()
        """
        context = run_context()
        if context is not None and context.spool:
            if context.run_id not in _of_this_process:
                recorder = SubmittedRecorder(context.run_id, context.spool)
                _of_this_process[context.run_id] = Run(None, context.run_id, _recorder=recorder)
            return _of_this_process[context.run_id]
        if allow_offline:
            return _OfflineRun()
        raise RunEnvironmentException(
            "Could not load a submitted run, if outside of an execution context, "
            "use experiment.start_logging to initialize an azureml.core.Run."
        )

    @staticmethod
    def get_submitted_run(**_: Any) -> Any:
        """The old name of ``get_context``."""
        return Run.get_context()

    @staticmethod
    def get(workspace: wherry.Workspace, run_id: str) -> Run:
        """The run with this id.

        >>> Run.get(ws, "churn_1700000000_1a2b3c4d")
        """
        record = workspace._client.get(f"/runs/{quote(check_run_id(run_id))}")
        return workspace._run(record)

    @staticmethod
    def list(
        experiment: wherry.Experiment,
        type: Optional[str] = None,
        tags: listing.Labels = None,
        properties: listing.Labels = None,
        status: Optional[str] = None,
        include_children: bool = False,
        **_: Any,
    ) -> Iterator[Run]:
        """The runs of an experiment, newest first.

        >>> [run.id for run in Run.list(experiment, status="Failed")]
        """
        return experiment.workspace.iter_runs(
            experiment=experiment.name,
            type=type,
            tags=tags,
            properties=properties,
            status=status,
            include_children=include_children,
        )

    @property
    def experiment(self) -> wherry.Experiment:
        if self._experiment is None:
            self._experiment = wherry.Workspace._of_context(self._client)[1]
        return self._experiment

    @property
    def number(self) -> int:
        return int(self._known()["number"])

    @property
    def type(self) -> Optional[str]:
        kind = self._known().get("type")
        return None if kind is None else str(kind)

    @property
    def parent(self) -> Optional[Run]:
        parent_id = self._known().get("parent_id")
        if not parent_id:
            return None
        recorder = self._recorder
        shared = recorder if recorder is not None and recorder.run_id != self.id else None
        return self._relative(self._client.get(f"/runs/{quote(parent_id)}"), shared)

    @property
    def status(self) -> str:
        return self.get_status()

    @property
    def record(self) -> Dict[str, Any]:
        """Everything the server says of the run, as it says it."""
        return dict(self._refresh())

    def get_status(self) -> str:
        """The status of now: ``Queued``, ``Running``, ``Completed``, ...

        >>> run.get_status()
        'Completed'
        """
        return str(self._current()["status"])

    def get_detailed_status(self) -> Dict[str, Any]:
        """The status, and in one sentence what the run waits for or why it ended."""
        record = self._current()
        return {"status": record["status"], "details": record.get("message") or ""}

    def get_details(self) -> Dict[str, Any]:
        """The run in Azure ML's keys; ``error`` says why it failed.

        >>> run.get_details()["status"]
        'Failed'
        >>> run.get_details()["error"]["message"]
        'exited with code 1: ValueError: no rows (train.py, line 12)'
        """
        return self._details(self._refresh())

    def get_details_with_logs(self) -> Dict[str, Any]:
        """``get_details`` with the text of every log in the place of its address."""
        found = self.get_details()
        for name in found["logFiles"]:
            text = io.BytesIO()
            download(self._client, f"{self._path}/files/{quote(name, safe='/')}", text)
            found["logFiles"][name] = text.getvalue().decode("utf-8", "replace")
        return found

    def get_error(self) -> Optional[Dict[str, Any]]:
        """Why it failed: message, exit code or signal, exception, file, line, last lines."""
        record = self._current()
        return error_of(record) if record.get("error") else None

    def get_events(self) -> List[Dict[str, Any]]:
        """What happened to it: every change of status with its time and reason."""
        items: List[Dict[str, Any]] = self._client.get(f"{self._path}/events")["items"]
        return items

    def get_portal_url(self) -> str:
        """Where to look at it in a browser."""
        workspace = quote(str(self._known().get("workspace") or ""))
        return f"{self._client.url}/view/#/runs/{quote(self.id)}?workspace={workspace}"

    def get_environment(self) -> Environment:
        """The environment it was submitted with."""
        return from_spec((self._refresh().get("spec") or {}).get("environment"))

    def wait_for_completion(
        self,
        show_output: bool = False,
        wait_post_processing: bool = False,
        raise_on_error: bool = True,
    ) -> Dict[str, Any]:
        """Wait until it has ended; ``show_output`` shows what it prints while it does.

        A failed run raises ``ActivityFailedException`` unless ``raise_on_error`` is False.
        Interrupting (Ctrl-C) ends the watching, not the run.

        >>> run.wait_for_completion(show_output=True)
        """
        record = watch.show(self) if show_output else watch.wait(self)
        watch.conclude(record, shown=show_output, raise_on_error=raise_on_error)
        return self._details(record)

    def stream_logs(
        self,
        write: Callable[[bytes], Any],
        *,
        name: str = STD_LOG,
        offset: int = 0,
        follow: bool = True,
    ) -> int:
        """Hand the bytes of a log to ``write`` as they come; how far it came, to resume there.

        With ``follow`` it returns when the run has ended and every byte was handed over; that of a
        build when the environment is made.

        >>> run.stream_logs(sys.stdout.buffer.write)
        """
        path = f"{self._path}/logs/{quote(name, safe='/')}"
        while True:
            try:
                for chunk in self._client.stream(path, offset=offset, follow=follow):
                    write(chunk)
                    offset += len(chunk)
            except NotFoundError:
                if follow and name in (STD_LOG, BUILD_LOG):
                    return offset  # a client drives it, or it ended before it began
                raise
            # A server that is being stopped ends the stream, too.
            over = self._made if name == BUILD_LOG else self._ended
            if not follow or (over() and self._log_size(name) <= offset):
                return offset

    def get_metrics(
        self,
        name: Optional[str] = None,
        recursive: bool = False,
        run_type: Optional[str] = None,
        populate: bool = False,
    ) -> Dict[str, Any]:
        """What was logged: a number logged once, a list when logged again, dicts for rows and
        tables. ``recursive`` gives ``{run id: metrics}`` with all child runs.

        >>> run.get_metrics("loss")
        {'loss': [0.9, 0.5, 0.3]}
        """
        self._flush_own(60.0)
        params = {"name": name, "recursive": recursive or None}
        answer = self._client.get(f"{self._path}/metrics", params)
        metrics: Dict[str, Any] = answer["runs"] if recursive else answer["metrics"]
        return metrics

    def get_metric_history(self, name: str, points: Optional[int] = None) -> List[Dict[str, Any]]:
        """Every value of a metric with its ``step`` and time ``at``; with ``points`` about so many
        of them, the lowest and highest values among them.

        >>> run.get_metric_history("loss")[0]
        {'step': 0, 'at': '2026-01-02T03:04:05.678000Z', 'value': 0.9}
        """
        self._flush_own(60.0)
        params = {"name": name, "points": points}
        answer = self._client.get(f"{self._path}/metrics/history", params)
        from datetime import datetime, timezone  # slow to load, and scripts on a node only log

        moment, utc = datetime.fromtimestamp, timezone.utc
        times = [f"{moment(at, utc).isoformat()[:-6]}Z" for at in answer["times"]]
        return [
            {"step": step, "at": at, "value": value}
            for step, at, value in zip(answer["steps"], times, answer["values"])
        ]

    def metrics_to_pandas(self, name: Optional[str] = None) -> Any:
        """Every point of its metrics, or of one, as a ``DataFrame`` with the columns ``run_id``,
        ``metric``, ``step``, ``at`` and ``value``.

        >>> run.metrics_to_pandas().pivot(index="step", columns="metric", values="value").plot()
        """
        self._flush_own(60.0)
        return table_file.to_pandas(
            run_table.of_points(run_table.points(self._client, self.id, name))
        )

    def get_children(
        self,
        recursive: bool = False,
        tags: listing.Labels = None,
        properties: listing.Labels = None,
        type: Optional[str] = None,
        status: Union[str, Sequence[str], None] = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """The runs below this one."""
        answer = self._client.get(f"{self._path}/children", {"recursive": recursive or None})
        for record in answer["items"]:
            if (
                listing.matches(record, "tags", tags)
                and listing.matches(record, "properties", properties)
                and type in (None, record.get("type"))
                and (not status or record.get("status") in listing.several(status))
            ):
                yield self._relative(record, self._recorder)

    def child_run(
        self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None
    ) -> Run:
        """A new run below this one, driven by this process.

        >>> with run.child_run("fold 1") as fold:
        ...     fold.log("accuracy", 0.9)
        """
        return self._child(name, run_id, {})

    def create_children(
        self,
        count: Optional[int] = None,
        tag_key: Optional[str] = None,
        tag_values: Optional[Sequence[Any]] = None,
    ) -> List[Run]:
        """Several child runs; with ``tag_key``, one for each of ``tag_values``."""
        if tag_values is not None and (tag_key is None or count not in (None, len(tag_values))):
            raise UserErrorException("tag_values needs tag_key, and as many values as count says")
        if tag_values is None and (count is None or count < 0):
            raise UserErrorException("create_children needs count, or tag_key and tag_values")
        labels: List[Dict[str, str]] = (
            [{str(tag_key): str(value)} for value in tag_values]
            if tag_values is not None
            else [{} for _ in range(count or 0)]
        )
        return [self._child(None, None, tags) for tags in labels]

    def submit_child(
        self,
        config: wherry.ScriptRunConfig,
        tags: Optional[Mapping[str, Any]] = None,
        **kwargs: Any,
    ) -> Run:
        """Submit a configuration as a child of this run."""
        return self.experiment.submit(config, tags, parent_id=self.id, **kwargs)

    def start(self) -> None:
        """Nothing is to be done: a run that a client drives has started."""

    def complete(self, _set_status: bool = True) -> None:
        """End a run of ``start_logging`` or ``child_run`` as completed.

        A submitted run completes when its command exits with 0; here its metrics are sent.
        """
        self._end("Completed", None, _set_status)

    def fail(
        self, error_details: Any = None, error_code: Optional[str] = None, _set_status: bool = True
    ) -> None:
        """End a run of ``start_logging`` or ``child_run`` as failed."""
        error = {"message": str(error_details or "the run was reported as failed")}
        if error_code:
            error["code"] = str(error_code)
        if self._submitted:
            say(
                f"run.fail: {error['message']} (a submitted run fails by its exit code: "
                "raise an exception or call sys.exit(1))"
            )
        self._end("Failed", error, _set_status)

    def cancel(self) -> None:
        """Ask for its end; its processes get SIGTERM and, after a grace, SIGKILL.

        >>> run.cancel()
        """
        release(self.id)
        self._take(self._client.post(f"{self._path}/cancel", retry=True))

    def archive(self) -> None:
        """Hide it from lists."""
        self._change(archived=True)

    def unarchive(self) -> None:
        """Show it in lists again."""
        self._change(archived=False)

    def delete(self) -> None:
        """Remove it for good, with its children, files and metrics. It must have ended."""
        self._client.delete(self._path)
        release(self.id)
        self._record = {}

    def flush(self, timeout_seconds: float = 300) -> None:
        """Wait until the server has everything that was logged."""
        if self._recorder is not None:
            self._recorder.flush(self._client, timeout_seconds)

    def clean(self) -> List[str]:
        """Nothing of a run stays on its target; returns the removed paths, none."""
        return []

    def get_snapshot_id(self) -> Optional[str]:
        """The id of the source directory as it was submitted."""
        snapshot_id = self._known().get("snapshot_id")
        return None if snapshot_id is None else str(snapshot_id)

    def restore_snapshot(self, snapshot_id: Optional[str] = None, path: Any = None) -> str:
        """Unpack the source directory as it was submitted; the folder it went to.

        >>> run.restore_snapshot(path="as-submitted")
        """
        wanted = snapshot_id or self.get_snapshot_id()
        if not wanted:
            raise UserErrorException(f"run {self.id} has no snapshot")
        folder = os.fspath(path) if path is not None else os.path.join(os.curdir, wanted[:12])
        return self.experiment.workspace.restore_snapshot(wanted, folder)

    def take_snapshot(self, file_or_folder_path: Any = os.curdir) -> str:
        """Keep a folder as a snapshot; its id, noted in the run's properties."""
        snapshot_id = self.experiment.workspace.take_snapshot(file_or_folder_path)
        if "ContentSnapshotId" not in self.get_properties():
            self.add_properties({"ContentSnapshotId": snapshot_id})
        return snapshot_id

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        failure = why_failed(error)
        if failure is None:
            self.complete()
            return
        try:
            self.fail(error_details=failure)
        except WherryError as problem:  # the error of the block is the one to see
            say(f"warning: run {self.id} could not be ended: {problem.message}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        record = self._latest()
        return (
            f"Run(Experiment: {record.get('experiment', '')},\nId: {self.id},\n"
            f"Type: {record.get('type')},\nStatus: {record.get('status', 'unknown')})"
        )

    def _repr_html_(self) -> str:
        record = self._latest()
        return display.fields(
            [
                ("Experiment", record.get("experiment")),
                ("Id", self.id),
                ("Type", record.get("type")),
                ("Status", record.get("status", "unknown")),
                ("Details Page", display.link(self.get_portal_url(), "Link to the run")),
                ("Docs Page", display.link(_DOCS, "Link to Documentation")),
            ]
        )

    def _relative(self, record: Mapping[str, Any], recorder: Optional[Recorder]) -> Run:
        """A run of the same tree; with the same recorder it reads what this process logged."""
        experiment = self.experiment.workspace._experiment({"name": record["experiment"]})
        return Run(experiment, record["id"], _record=record, _recorder=recorder)

    def _child(self, name: Optional[str], run_id: Optional[str], tags: Mapping[str, str]) -> Run:
        workspace, experiment = self._place()
        body = {
            "experiment": experiment,
            "parent_id": self.id,
            "display_name": name or "",
            "run_id": run_id,
            "tags": dict(tags),
        }
        record = begin(self._client, workspace, body)
        recorder = self._recorder or self._get_recorder()
        child = Run(self._experiment, record["id"], _record=record, _recorder=recorder)
        child._given_client = self._client
        drive(child)
        return child

    def _place(self) -> Sequence[str]:
        context = run_context()
        if self._experiment is None and context is not None and context.workspace:
            return context.workspace, context.experiment
        return self.experiment.workspace.name, self.experiment.name

    def _details(self, record: Mapping[str, Any]) -> Dict[str, Any]:
        names = record.get("log_names")
        if names is None:
            names = [file["path"] for file in self.list_files()]
        return details(record, names, f"{self._client.url}/api/v1{self._path}/files")

    def _await(
        self, seen: str, timeout_s: float, until: str = "", patience_s: float = 600.0
    ) -> Dict[str, Any]:
        """The record once the status is not ``seen`` any more, or the time is up.

        ``until="end"`` lets the server hold back what comes before the end.
        """
        path, params = f"{self._path}/wait", {"seen": seen, "until": until}
        return self._take(
            self._client.wait(path, params, timeout_s=timeout_s, patience_s=patience_s)
        )

    def _get_recorder(self) -> Optional[Recorder]:
        if self._recorder is None and not self._mute:
            try:
                self._recorder = ClientRecorder(self._client, self.id)
            except (WherryError, OSError, RuntimeError) as error:  # the last: no more threads
                self._mute = True
                say(f"warning: run {self.id} cannot be logged to: {error}")
        return self._recorder

    def _ended(self) -> bool:
        return self._refresh()["status"] in TERMINAL

    def _made(self) -> bool:
        return self._refresh()["status"] not in EARLY

    def _log_size(self, name: str) -> int:
        return sum(int(file["size"]) for file in self.list_files() if file["path"] == name)

    def _end(self, status: str, error: Optional[Mapping[str, Any]], set_status: bool) -> None:
        release(self.id)
        recorder = self._recorder
        if self._submitted:
            return  # its runner sends what is left, and its exit code decides
        if isinstance(recorder, ClientRecorder):
            if recorder.run_id == self.id:
                recorder.close()
                self._recorder = None
            else:
                recorder.flush(self._client, 60.0)
        if set_status:
            body = {"status": status, "error": dict(error) if error else None}
            self._take(self._client.post(f"{self._path}/end", json=body, retry=True))


def get_run(
    experiment: wherry.Experiment, run_id: str, rehydrate: bool = True, clean_up: bool = True
) -> Run:
    """The run with this id in the workspace of the experiment.

    >>> get_run(experiment, "churn_1700000000_1a2b3c4d")
    """
    return Run.get(experiment.workspace, run_id)


_of_this_process: Dict[str, Run] = {}
