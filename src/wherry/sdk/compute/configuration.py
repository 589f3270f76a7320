"""What users ask for when they make or attach a compute target."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ...core.errors import ComputeTargetException
from ..values import texts

DEDICATED, LOW_PRIORITY = "dedicated", "lowpriority"
_YES, _NO = ("true", "yes", "1", "on"), ("false", "no", "0", "off", "")


class ComputeTargetProvisioningConfiguration:
    """What a new target should be."""

    def __init__(
        self,
        location: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> None:
        self.location = location
        self.tags = texts("tags", tags)
        self.description = description or ""

    def validate_configuration(self) -> None:
        """Azure ML's check; it is made at once here."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


class ClusterConfiguration(ComputeTargetProvisioningConfiguration):
    """A cluster: the size of its nodes and how many there may be."""

    type = ""

    def __init__(
        self,
        vm_size: Any,
        vm_priority: Any,
        min_nodes: int,
        max_nodes: int,
        idle_seconds_before_scaledown: int,
        location: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> None:
        super().__init__(location, tags, description)
        self.vm_size = str(vm_size or "")
        self.vm_priority = priority(vm_priority)
        self.min_nodes = min_nodes
        self.max_nodes = max_nodes
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown
        if min_nodes > max_nodes:
            raise ComputeTargetException(
                "Invalid provisioning configuration: max nodes count must be greater than or "
                "equal to min nodes count",
                hint=f"max is {max_nodes}, min is {min_nodes}",
            )

    def _provisioning(self) -> Dict[str, Any]:
        config: Dict[str, Any] = {
            "location": self.location or "",
            "vm_size": self.vm_size,
            "vm_priority": self.vm_priority,
            "min_nodes": self.min_nodes,
            "max_nodes": self.max_nodes,
            "idle_seconds": self.idle_seconds_before_scaledown,
        }
        return {
            "type": self.type,
            "kind": "cluster",
            "config": config,
            "tags": self.tags,
            "description": self.description,
        }


def whole(name: str, value: Any) -> int:
    """A count; text is taken as well, since many scripts read it from a variable."""
    try:
        if not isinstance(value, bool) and float(value) == int(float(value)) >= 0:
            return int(float(value))
    except (TypeError, ValueError, OverflowError):
        pass
    raise ComputeTargetException(
        f"{name} is {value!r}, and must be a whole number that is not below 0"
    )


def switch(name: str, value: Any) -> bool:
    """Yes or no; text is taken as well."""
    if isinstance(value, str) and value.strip().lower() in _NO:
        return False
    if isinstance(value, (bool, int)) or str(value).strip().lower() in _YES:
        return bool(value)
    raise ComputeTargetException(f"{name} is {value!r}, and must be True or False")


def priority(value: Any) -> str:
    plain = str(value or DEDICATED).lower().replace("_", "").replace("-", "")
    if plain in (DEDICATED, LOW_PRIORITY):
        return plain
    raise ComputeTargetException(
        f"vm_priority is {value!r}, and must be 'dedicated' or 'lowpriority'"
    )
