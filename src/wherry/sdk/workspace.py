"""``Workspace``: what holds experiments, runs and snapshots, and the way to the server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ..core.errors import NotFoundError, UserErrorException, WorkspaceException
from ..core.ids import check_name
from . import config_file, display, listing
from .client import Client, quote
from .connection import connect
from .environment import Environment
from .experiment import Experiment
from .late import Late
from .restore import restore
from .run import Run
from .settings import give_to_mlflow, load, run_context, server_file
from .submission import Registry, capture
from .values import texts

if TYPE_CHECKING:
    from . import run_table, table_file
    from .compute import target as compute_target
else:
    compute_target = Late("compute.target")
    run_table, table_file = Late("run_table"), Late("table_file")

DEFAULT_CPU_CLUSTER_NAME = "cpu-cluster"
DEFAULT_GPU_CLUSTER_NAME = "gpu-cluster"
_NOT_HERE = (
    "containerRegistry",
    "keyVault",
    "applicationInsights",
    "identityPrincipalId",
    "identityTenantId",
    "identityType",
    "storageAccount",
    "resourceCmkUri",
    "imageBuildCompute",
    "systemDatastoresAuthMode",
)


class Workspace:
    """A workspace on a Wherry server; the server of this machine starts by itself.

    >>> ws = Workspace.create("churn", exist_ok=True)
    >>> ws.write_config()
    >>> ws = Workspace.from_config()

    ``subscription_id``, ``resource_group`` and what else Azure ML asks for may be given and
    is kept, but means nothing here.
    """

    DEFAULT_CPU_CLUSTER_NAME = DEFAULT_CPU_CLUSTER_NAME
    DEFAULT_GPU_CLUSTER_NAME = DEFAULT_GPU_CLUSTER_NAME

    def __init__(
        self,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        workspace_name: Optional[str] = None,
        auth: Any = None,
        _location: Optional[str] = None,
        _disable_service_check: bool = False,
        _workspace_id: Optional[str] = None,
        sku: str = "basic",
        tags: Any = None,
        _cloud: str = "AzureCloud",
        *,
        _client: Optional[Client] = None,
        _record: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.name = check_name("workspace", workspace_name or load().workspace)
        self.subscription_id = subscription_id or "wherry"
        self.resource_group = resource_group or "wherry"
        self.location = _location or "local"
        self.sku = sku
        self._given_client = _client
        self._record: Dict[str, Any] = dict(_record or {})
        if not self._record and not _disable_service_check:
            self._record = _existing(self._client, self.name)

    @staticmethod
    def create(
        name: str,
        auth: Any = None,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        location: Optional[str] = None,
        create_resource_group: bool = True,
        sku: str = "basic",
        tags: Optional[Mapping[str, Any]] = None,
        friendly_name: Optional[str] = None,
        *,
        description: str = "",
        exist_ok: bool = False,
        show_output: bool = True,
        **_: Any,
    ) -> Workspace:
        """Make a workspace; with ``exist_ok`` an existing one is returned.

        >>> ws = Workspace.create("churn", exist_ok=True)
        """
        client = connect()
        body = {
            "name": check_name("workspace", name),
            "exist_ok": bool(exist_ok),
            "description": description or friendly_name or "",
            "tags": texts("tags", tags),
        }
        record = client.post("/workspaces", json=body, retry=bool(exist_ok))
        return Workspace(
            subscription_id,
            resource_group,
            name,
            _location=location,
            _client=client,
            _record=record,
        )

    @staticmethod
    def get(
        name: Optional[str] = None,
        auth: Any = None,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        location: Optional[str] = None,
        **_: Any,
    ) -> Workspace:
        """An existing workspace; without a name the one that the settings name.

        >>> ws = Workspace.get("churn")
        """
        return Workspace(subscription_id, resource_group, name, _location=location)

    @staticmethod
    def list(
        subscription_id: Optional[str] = None,
        auth: Any = None,
        resource_group: Optional[str] = None,
    ) -> Dict[str, List[Workspace]]:
        """All workspaces of the server, by name (Azure ML's form: a list for each name)."""
        client = connect()
        return {
            record["name"]: [
                Workspace(workspace_name=record["name"], _client=client, _record=record)
            ]
            for record in client.get("/workspaces")["items"]
        }

    @staticmethod
    def from_config(
        path: Any = None,
        auth: Any = None,
        _logger: Any = None,
        _file_name: Optional[str] = None,
    ) -> Workspace:
        """The workspace that a ``config.json`` here, or in a folder above, names.

        A file of Azure ML serves as it is: only its ``workspace_name`` counts. Inside a run no
        file is needed.

        >>> ws = Workspace.from_config()
        """
        text = os.fspath(path) if path is not None else None
        found = config_file.find(text, _file_name)
        if found is None:
            settings = load()
            if settings.origin("workspace") == "environment":
                return Workspace(workspace_name=settings.workspace)
            raise config_file.missing(text, _file_name)
        file = config_file.read(found)
        return Workspace(
            file.subscription_id,
            file.resource_group,
            file.workspace_name,
            _client=connect(server=file.server),
        )

    @property
    def id(self) -> str:
        return str(self._known()["id"])

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._known().get("tags") or {})

    @property
    def description(self) -> str:
        return str(self._known().get("description") or "")

    @property
    def experiments(self) -> Dict[str, Experiment]:
        """The experiments by name; archived ones are left out."""
        return {
            record["name"]: self._experiment(record)
            for record in self._experiment_records(archived=False)
        }

    @property
    def environments(self) -> Dict[str, Environment]:
        """The newest version of every environment by name, curated ones among them."""
        return Environment.list(self)

    def write_config(self, path: Any = None, file_name: Optional[str] = None) -> None:
        """Write ``.azureml/config.json`` below ``path``, for ``from_config`` to find.

        >>> ws.write_config()
        """
        settings = load()
        address = "" if server_file() else settings.server  # which is another one tomorrow
        fields = config_file.WorkspaceFile(
            self.name, self.subscription_id, self.resource_group, address
        )
        config_file.write(fields, os.fspath(path) if path is not None else None, file_name)

    def delete(self, delete_dependent_resources: bool = False, no_wait: bool = False) -> None:
        """Remove the workspace with all of its runs, which must have ended."""
        self._client.delete(self._path)

    def get_run(self, run_id: str) -> Run:
        """The run with this id, whichever workspace it is in.

        >>> ws.get_run("churn_1700000000_1a2b3c4d")
        """
        return Run.get(self, run_id)

    def resolve_run(self, text: str) -> Run:
        """The one run that an id, the beginning or the ending of one, or a display name means.

        Where several fit, ``ConflictError`` has them in ``fields["candidates"]``.
        """
        if not text:
            raise UserErrorException("an empty id names no run", hint="wherry ps lists the runs")
        return self._run(self._client.get(f"{self._path}/runs/resolve/{quote(text)}"))

    def list_runs(
        self, *, limit: int = 50, cursor: Optional[str] = None, **filters: Any
    ) -> listing.Page:
        """One page of records. Filters: ``experiment``, ``status``, ``type``, ``target``, ``tags``,
        ``properties``, ``parent_id``, ``include_children``, ``archived``, ``filter`` (such as
        ``"metrics.auc > 0.8 and tags.team = 'x'"``) and ``order_by`` (such as ``"-metrics.auc"``).
        ``include=["metrics"]`` adds the last values of their metrics to the records.

        >>> page = ws.list_runs(status=["Queued", "Running"], limit=20)
        >>> page = ws.list_runs(cursor=page.next_cursor)
        """
        return listing.page(self._client, self.name, listing.query(**filters), limit, cursor)

    def iter_runs(self, **filters: Any) -> Iterator[Run]:
        """All runs that the filters of ``list_runs`` let through.

        >>> best = next(ws.iter_runs(filter="tags.team = 'x'", order_by="-metrics.auc"))
        """
        for record in listing.every(self._client, self.name, listing.query(**filters)):
            yield self._run(record)

    def to_pandas(self, **filters: Any) -> Any:
        """The runs that the filters of ``list_runs`` let through, as a ``DataFrame``: one row each,
        with its last metrics, parameters, script arguments and tags.

        >>> ws.to_pandas(experiment="churn").sort_values("metrics.auc")
        """
        return table_file.to_pandas(run_table.of_runs(self._rows(filters)))

    def export(self, path: Any, *, history: bool = False, **filters: Any) -> int:
        """Write the same table to a ``.csv`` or ``.parquet`` file; how many rows it has.

        With ``history`` there is one row for every point of every metric of these runs.

        >>> ws.export("runs.csv", filter="metrics.auc > 0.8")
        """
        file, records = table_file.check(path), self._rows(filters)
        if history:
            points = (
                point for each in records for point in run_table.points(self._client, each["id"])
            )
            table = run_table.of_points(points)
        else:
            table = run_table.of_runs(records)
        table_file.write(file, table)
        return len(next(iter(table.values())))

    @property
    def compute_targets(self) -> compute_target.ComputeTargets:
        """The compute targets by name; may also be called, as in Azure ML's first versions.

        >>> ws.compute_targets["local"].status
        'Ready'
        """
        every = compute_target.ComputeTarget.list(self)
        return compute_target.ComputeTargets(every)

    def get_default_compute_target(self, type: str = "CPU") -> Any:
        """The target ``cpu-cluster`` or, for ``"GPU"``, ``gpu-cluster``; else None."""
        names = {"CPU": DEFAULT_CPU_CLUSTER_NAME, "GPU": DEFAULT_GPU_CLUSTER_NAME}
        if str(type).upper() not in names:
            raise UserErrorException(
                f"there is no default target of type {type!r}", hint="the types are CPU and GPU"
            )
        return self.compute_targets.get(names[str(type).upper()])

    def list_targets(self) -> List[Dict[str, Any]]:
        """The records of the compute targets, with their nodes."""
        items: List[Dict[str, Any]] = self._client.get(f"{self._path}/computes")["items"]
        return items

    def get_costs(self, by: str = "target") -> List[Dict[str, Any]]:
        """Node-seconds and what they cost, by ``run``, ``target`` or ``day``.

        >>> ws.get_costs("day")
        """
        items: List[Dict[str, Any]] = self._client.get(f"{self._path}/costs", {"by": by})["items"]
        return items

    def get_sites(self) -> List[Dict[str, Any]]:
        """Where clusters take their nodes from, with the hosts of pools and who has which.

        >>> [host["state"] for site in ws.get_sites() for host in site["hosts"]]
        """
        items: List[Dict[str, Any]] = self._client.get("/sites")["items"]
        return items

    def take_snapshot(self, path: Any = os.curdir) -> str:
        """Keep a folder, or the folder of a file, as a snapshot; its id."""
        source = os.fspath(path)
        include = [os.path.basename(source)] if os.path.isfile(source) else []
        folder = os.path.dirname(source) or os.curdir if include else source
        settings = load()
        snapshot = capture(folder, settings, include)
        registry = Registry(self._client, self.name, settings)
        if not registry.knows(snapshot.id):
            registry.register(snapshot)
        return snapshot.id

    def restore_snapshot(self, snapshot_id: str, path: Any) -> str:
        """Unpack a snapshot into a folder that is empty or new; its path."""
        return restore(self._client, snapshot_id, os.fspath(path))

    def show_snapshot(self, snapshot_id: str) -> Dict[str, Any]:
        """Its files, each with path, digest and size."""
        found: Dict[str, Any] = self._client.get(f"/snapshots/{quote(snapshot_id)}")
        return found

    def diff_snapshots(self, snapshot_id: str, other_id: str) -> Dict[str, List[str]]:
        """The paths ``added``, ``removed`` and ``changed`` from the first to the second."""
        path = f"/snapshots/{quote(snapshot_id)}/diff/{quote(other_id)}"
        found: Dict[str, List[str]] = self._client.get(path)
        return found

    def get_details(self) -> Dict[str, Any]:
        """The workspace in Azure ML's keys."""
        record = _existing(self._client, self.name)
        return {
            "id": record["id"],
            "name": self.name,
            "location": self.location,
            "type": "Wherry/workspaces",
            "tags": dict(record.get("tags") or {}),
            "workspaceid": record["id"],
            "description": record.get("description") or "",
            "friendlyName": self.name,
            "creationTime": record.get("created_at"),
            **dict.fromkeys(_NOT_HERE),
            "sku": self.sku,
            "hbiWorkspace": False,
        }

    def get_mlflow_tracking_uri(self, _with_auth: bool = False) -> str:
        """The address to give to ``mlflow.set_tracking_uri``; MLflow in this process, and in those
        that it starts, has the token by then.

        >>> mlflow.set_tracking_uri(ws.get_mlflow_tracking_uri())
        """
        give_to_mlflow(self._client.token)
        return self.mlflow_tracking_uri

    @property
    def mlflow_tracking_uri(self) -> str:
        """The address alone, as in Azure ML's v2; MLflow asks ``MLFLOW_TRACKING_TOKEN`` for the
        token."""
        return f"{self._client.url}/mlflow/{quote(self.name)}"

    def get_portal_url(self) -> str:
        """Where to look at it in a browser."""
        return f"{self._client.url}/view/#/?workspace={quote(self.name)}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Workspace)
            and other.name == self.name
            and other._client.url == self._client.url
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return (
            f"Workspace.create(name={self.name!r}, subscription_id={self.subscription_id!r}, "
            f"resource_group={self.resource_group!r})"
        )

    def _repr_html_(self) -> str:
        return display.fields(
            [
                ("Workspace", self.name),
                ("Server", self._client.url),
                ("Page", display.link(self.get_portal_url(), "Link to the workspace")),
            ]
        )

    @staticmethod
    def _of_context(client: Client) -> Tuple[Workspace, Experiment]:
        """Where the run of this process belongs."""
        context = run_context()
        if context is None or not context.workspace or not context.experiment:
            raise WorkspaceException(
                "this run was not told which workspace and experiment it belongs to"
            )
        workspace = Workspace(
            workspace_name=context.workspace, _disable_service_check=True, _client=client
        )
        return workspace, Experiment(workspace, context.experiment)

    @property
    def _client(self) -> Client:
        if self._given_client is None:
            self._given_client = connect()
        return self._given_client

    @property
    def _path(self) -> str:
        return f"/workspaces/{quote(self.name)}"

    def _rows(self, filters: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
        params = run_table.wanted(listing.query(**filters))
        return listing.every(self._client, self.name, params, at_once=1000)

    def _known(self) -> Dict[str, Any]:
        if not self._record:
            self._record = _existing(self._client, self.name)
        return self._record

    def _experiment_path(self, name: str) -> str:
        return f"{self._path}/experiments/{quote(name)}"

    def _experiment_records(self, *, archived: bool) -> List[Dict[str, Any]]:
        params = {"archived": archived}
        items: List[Dict[str, Any]] = self._client.get(f"{self._path}/experiments", params)["items"]
        return items

    def _experiment(self, record: Mapping[str, Any]) -> Experiment:
        experiment = Experiment(self, record["name"], _exists=True)
        if "id" in record:
            experiment._record = dict(record)
        return experiment

    def _run(self, record: Mapping[str, Any]) -> Run:
        """The run in its own workspace: an id leads to it from any."""
        home = self
        if record["workspace"] != self.name:
            home = Workspace(
                workspace_name=record["workspace"],
                _disable_service_check=True,
                _client=self._client,
            )
        experiment = Experiment(home, record["experiment"], _exists=True)
        return Run(experiment, record["id"], _record=record)


def _existing(client: Client, name: str) -> Dict[str, Any]:
    try:
        record: Dict[str, Any] = client.get(f"/workspaces/{quote(name)}")
    except NotFoundError:
        raise WorkspaceException(
            f"there is no workspace {name!r} on the server at {client.url}",
            hint=f"make it with: wherry workspace create {name}",
        ) from None
    return record
