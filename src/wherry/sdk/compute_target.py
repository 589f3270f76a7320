"""``ComputeTarget``: a named place where runs execute."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import wherry  # the lazy surface: see run.py

from ..core.errors import ComputeTargetException
from ..core.nearest import suggest
from ..core.resources import Resources
from . import display


class ComputeTarget:
    """A compute target of the server, as it was when it was asked for.

    >>> target = ComputeTarget(ws, "local")
    >>> target.resources.cpu
    8.0
    >>> ScriptRunConfig(source_directory="src", script="train.py", compute_target=target)
    """

    def __init__(
        self,
        workspace: wherry.Workspace,
        name: str,
        *,
        _record: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.workspace = workspace
        self._record = dict(_record or _existing(workspace, name))

    @staticmethod
    def list(workspace: wherry.Workspace) -> List[ComputeTarget]:
        """All compute targets."""
        return [
            ComputeTarget(workspace, record["name"], _record=record)
            for record in workspace.list_targets()
        ]

    @property
    def name(self) -> str:
        return str(self._record["name"])

    @property
    def type(self) -> str:
        """The kind of the target, such as ``local``."""
        return str(self._record["kind"])

    @property
    def status(self) -> str:
        """``Ready``, or ``Unavailable`` where it could not be reached."""
        return "Unavailable" if self._record.get("problem") else "Ready"

    @property
    def resources(self) -> Resources:
        """What all of its nodes have together."""
        parts = [
            Resources(node["cpu"], node["memory_bytes"], node["gpu"])
            for node in self._record["nodes"]
        ]
        return sum(parts, Resources(0, 0, 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputeTarget) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"ComputeTarget(Name: {self.name},\nType: {self.type},\nStatus: {self.status})"

    def _repr_html_(self) -> str:
        return display.fields(
            [
                ("Compute target", self.name),
                ("Type", self.type),
                ("Status", self.status),
                ("Resources", str(self.resources)),
            ]
        )


class ComputeTargets(Dict[str, ComputeTarget]):
    """Targets by name. ``ws.compute_targets()`` means the same as ``ws.compute_targets``."""

    def __init__(self, targets: List[ComputeTarget]) -> None:
        super().__init__({target.name: target for target in targets})

    def __call__(self) -> ComputeTargets:
        return self


def _existing(workspace: wherry.Workspace, name: str) -> Dict[str, Any]:
    records = {record["name"]: record for record in workspace.list_targets()}
    if name not in records:
        raise ComputeTargetException(
            f"ComputeTargetNotFound: Compute Target with name {name} not found in provided "
            f"workspace{suggest(str(name), records)}",
            hint=f"the targets are {', '.join(records)}",
        )
    return records[name]
