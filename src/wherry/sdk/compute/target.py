"""``ComputeTarget``: a named place where runs execute."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Type, TypeVar

import wherry  # the lazy surface: see run.py

from ...core.errors import ComputeTargetException, NotFoundError, UserErrorException
from ...core.nearest import listed, suggest
from ...core.resources import Resources
from ...core.targets import check_compute_name
from .. import display
from ..client import quote
from ..console import say
from . import waiting

_PAGE = 200

T = TypeVar("T", bound="ComputeTarget")


class ComputeTarget:
    """A compute target of a workspace; its name gives an object of the right class.

    >>> target = ComputeTarget(ws, "cpu-cluster")
    >>> target.type, target.provisioning_state
    ('AmlCompute', 'Succeeded')
    >>> ScriptRunConfig(source_directory="src", script="train.py", compute_target=target)

    What it says is what the server said when it was made; ``refresh_state`` asks again.
    """

    workspace: wherry.Workspace
    _record: Dict[str, Any]

    def __new__(
        cls: Type[T],
        workspace: wherry.Workspace,
        name: str = "",
        *,
        _record: Optional[Mapping[str, Any]] = None,
    ) -> T:
        record = dict(_record or _existing(workspace, name))
        kind = _class_of(record)
        if not issubclass(kind, cls):
            raise ComputeTargetException(
                f"compute target {record['name']!r} is of type {record['type']}, and no "
                f"{cls.__name__}",
                hint=f"{kind.__name__}(ws, {record['name']!r}) is what it is",
            )
        made: Any = object.__new__(kind)
        made.workspace, made._record = workspace, record
        return made  # type: ignore[no-any-return]

    def __init__(
        self,
        workspace: wherry.Workspace,
        name: str = "",
        *,
        _record: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """All is done in ``__new__``, which asks the server what the name stands for."""

    @staticmethod
    def create(
        workspace: wherry.Workspace, name: str, provisioning_configuration: Any
    ) -> ComputeTarget:
        """Make a target and return at once; ``wait_for_completion`` waits for it.

        >>> config = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=4)
        >>> target = ComputeTarget.create(ws, "cpu-cluster", config)
        """
        return _put(workspace, name, provisioning_configuration, "_provisioning")

    @staticmethod
    def attach(workspace: wherry.Workspace, name: str, attach_configuration: Any) -> ComputeTarget:
        """Make a machine that is there already a target of the workspace.

        >>> config = RemoteCompute.attach_configuration(
        ...     username="me", address="node1.lab", private_key_file="~/.ssh/id_ed25519"
        ... )
        >>> target = ComputeTarget.attach(ws, "node1", config)
        """
        return _put(workspace, name, attach_configuration, "_attaching")

    @staticmethod
    def list(workspace: wherry.Workspace) -> List[ComputeTarget]:
        """All compute targets of a workspace."""
        return [ComputeTarget(workspace, _record=record) for record in workspace.list_targets()]

    @classmethod
    def deserialize(cls: Type[T], workspace: wherry.Workspace, object_dict: Mapping[str, Any]) -> T:
        """What ``serialize`` wrote; the server is not asked."""
        missing = [key for key in ("name", "type") if not object_dict.get(key)]
        if missing:
            raise ComputeTargetException(
                f"this describes no compute target: it has no {missing[0]!r}",
                hint="it takes what serialize() gave",
            )
        return cls(workspace, _record=_deserialized(object_dict))

    def serialize(self) -> Dict[str, Any]:
        """What is known of it, in Azure ML's keys, for JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "location": self.location,
            "type": self.type,
            "tags": self.tags,
            "description": self.description,
            "created_on": self.created_on,
            "modified_on": self.modified_on,
            "provisioning_state": self.provisioning_state,
            "provisioning_errors": self.provisioning_errors,
            "properties": {
                "kind": self._record.get("kind"),
                "config": dict(self._record.get("config") or {}),
                "status": self._record.get("status"),
            },
        }

    @property
    def id(self) -> str:
        return str(self._record.get("id") or self._path)

    @property
    def name(self) -> str:
        return str(self._record["name"])

    @property
    def type(self) -> str:
        """Azure ML's word for its kind: ``AmlCompute``, ``VirtualMachine``, ...; or ``local``."""
        return str(self._record["type"])

    @property
    def location(self) -> str:
        """The site that its nodes come from."""
        return str(self._record.get("location") or "local")

    @property
    def cluster_location(self) -> str:
        return self.location

    @property
    def cluster_resource_id(self) -> Optional[str]:
        """Azure's resource; there is none here."""
        return None

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._record.get("tags") or {})

    @property
    def description(self) -> str:
        return str(self._record.get("description") or "")

    @property
    def created_on(self) -> Optional[str]:
        return self._record.get("created_at")

    @property
    def modified_on(self) -> Optional[str]:
        return self._record.get("modified_at")

    @property
    def provisioning_state(self) -> str:
        """``Creating``, ``Updating``, ``Deleting``, ``Succeeded`` or ``Failed``."""
        return str(self._record.get("provisioning_state") or "Succeeded")

    @property
    def provisioning_errors(self) -> List[Any]:
        """Why it could not be made."""
        return list(self._record.get("provisioning_errors") or [])

    @property
    def problem(self) -> Optional[str]:
        """What is wrong with it now, in a sentence."""
        return self._record.get("problem")

    @property
    def doing(self) -> Optional[str]:
        """What is being done to have it ready, such as building an image; None where nothing is."""
        return self._record.get("doing")

    @property
    def is_attached(self) -> bool:
        """Whether it was there before the workspace knew of it."""
        return self._record.get("kind") == "machine"

    @property
    def status(self) -> Any:
        """``Ready``, or ``Unavailable`` where it could not be reached."""
        return "Unavailable" if self.problem else "Ready"

    @property
    def resources(self) -> Resources:
        """What all of its nodes have together."""
        parts = [
            Resources(node.get("cpu") or 0, node.get("memory_bytes") or 0, node.get("gpu") or 0)
            for node in self._record.get("nodes") or []
        ]
        return sum(parts, Resources(0, 0, 0))

    def refresh_state(self) -> None:
        """Ask the server how it is now."""
        self._record = _existing(self.workspace, self.name)

    def get_status(self) -> Any:
        """The provisioning state of now; for clusters more than that."""
        self.refresh_state()
        return self.provisioning_state

    def get_active_runs(
        self, type: Any = None, tags: Any = None, properties: Any = None, status: Any = None
    ) -> Iterator[wherry.Run]:
        """The runs that wait for it or run on it."""
        wanted = {"type": type, "tags": tags, "properties": properties, "status": status}
        cursor = None
        while True:
            asked = {"limit": _PAGE, "cursor": cursor}
            page = self.workspace._client.get(f"{self._path}/runs", asked)
            for record in page["items"]:
                if _fits(record, wanted):
                    yield self.workspace._run(record)
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def wait_for_completion(
        self, show_output: bool = False, is_delete_operation: bool = False
    ) -> None:
        """Wait until it is made, or with ``is_delete_operation`` until it is gone.

        Where it cannot be made, ``ComputeTargetException`` says why.
        """
        waiting.provisioned(self, show_output, is_delete_operation)

    def delete(self, *, cancel_active_runs: bool = False) -> None:
        """Remove it with its nodes. While runs are active on it, only if they may be canceled."""
        self._remove(cancel_active_runs)

    def detach(self, *, cancel_active_runs: bool = False) -> None:
        """Take a machine out of the workspace; on the machine nothing is left behind."""
        raise ComputeTargetException(
            f"Detach is not supported for {type(self).__name__} object. Try to use delete instead."
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ComputeTarget)
            and other.name == self.name
            and other.workspace == self.workspace
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(workspace={self.workspace!r}, name={self.name}, id={self.id}, "
            f"type={self.type}, provisioning_state={self.provisioning_state}, "
            f"location={self.location}, tags={self.tags})"
        )

    def _repr_html_(self) -> str:
        return display.fields(
            [
                ("Compute target", self.name),
                ("Type", self.type),
                ("Location", self.location),
                ("State", self.provisioning_state),
                ("Resources", str(self.resources)),
                ("Problem", self.problem or ""),
            ]
        )

    @property
    def _progress(self) -> str:
        """What whoever waits for it is shown."""
        return self.provisioning_state

    def _is_ready(self) -> bool:
        """Whether a target that is made can be used at once."""
        return True

    @property
    def _path(self) -> str:
        return f"{self.workspace._path}/computes/{quote(self.name)}"

    def _get(self, below: str) -> List[Dict[str, Any]]:
        items: List[Dict[str, Any]] = self.workspace._client.get(f"{self._path}/{below}")["items"]
        return items

    def _post(self, what: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        return self.workspace._client.post(f"{self._path}/{what}", json=dict(body or {}))

    def _patch(self, changes: Mapping[str, Any]) -> None:
        given = {name: value for name, value in changes.items() if value not in (None, {})}
        if given:
            self._record = told(self.workspace._client.patch(self._path, json=given))

    def _remove(self, cancel: bool, force: bool = False) -> None:
        if self.type == "local":
            raise UserErrorException("the compute target 'local' is always there")
        query = "?force=true" if force else "?cancel=true" if cancel else ""
        answer = self.workspace._client.delete(self._path + query)
        self._record = {**self._record, **(answer or {}), "provisioning_state": "Deleting"}


class ComputeTargets(Dict[str, ComputeTarget]):
    """Targets by name. ``ws.compute_targets()`` means the same as ``ws.compute_targets``."""

    def __init__(self, targets: Iterable[ComputeTarget]) -> None:
        super().__init__({target.name: target for target in targets})

    def __call__(self) -> ComputeTargets:
        return self


def told(record: Dict[str, Any]) -> Dict[str, Any]:
    """The record, with what the server has to say about the request said."""
    for notice in record.pop("notices", None) or []:
        say(notice)
    return record


def _put(workspace: wherry.Workspace, name: str, config: Any, form: str) -> ComputeTarget:
    describe = getattr(config, form, None)
    if describe is None:
        wanted = "provisioning" if form == "_provisioning" else "attach"
        raise ComputeTargetException(
            f"Invalid {wanted} configuration object: {type(config).__name__}",
            hint="AmlCompute.provisioning_configuration(...) makes one"
            if wanted == "provisioning"
            else "RemoteCompute.attach_configuration(...) makes one",
        )
    path = f"{workspace._path}/computes/{quote(check_compute_name(workspace.name, name))}"
    record = told(workspace._client.request("PUT", path, json=describe()))
    return ComputeTarget(workspace, _record=record)


def _existing(workspace: wherry.Workspace, name: str) -> Dict[str, Any]:
    path = f"{workspace._path}/computes/{quote(str(name))}"
    try:
        record: Dict[str, Any] = workspace._client.get(path)
    except NotFoundError:
        names = [each["name"] for each in workspace.list_targets()]
        raise ComputeTargetException(
            f"ComputeTargetNotFound: Compute Target with name {name} not found in provided "
            f"workspace{suggest(str(name), names)}",
            hint=f"the targets are {listed(names)}",
        ) from None
    return record


def _class_of(record: Mapping[str, Any]) -> Type[ComputeTarget]:
    """Attached machines and those that were made differ in their kind alone."""
    if record["type"] == "VirtualMachine":
        return wherry.RemoteCompute if record.get("kind") == "machine" else wherry.DsvmCompute
    if record["type"] == "AmlCompute":
        return wherry.AmlCompute
    if record["type"] == "ComputeInstance":
        return wherry.ComputeInstance
    return wherry.BatchAiCompute if record["type"] == "BatchAI" else ComputeTarget


def _deserialized(fields: Mapping[str, Any]) -> Dict[str, Any]:
    own = ("id", "name", "location", "type", "tags", "description")
    known = {name: fields.get(name) for name in (*own, "provisioning_state", "provisioning_errors")}
    return {
        **known,
        "created_at": fields.get("created_on"),
        "modified_at": fields.get("modified_on"),
        **dict(fields.get("properties") or {}),
    }


def _fits(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tags and properties: a name that is there, or names with their values."""
    for name in ("type", "status"):
        if wanted[name] is not None and record.get(name) != wanted[name]:
            return False
    for name in ("tags", "properties"):
        asked, held = wanted[name], record.get(name) or {}
        if isinstance(asked, str):
            asked = {asked: None}
        for key, value in (asked or {}).items():
            if key not in held or value not in (None, held[key]):
                return False
    return True
