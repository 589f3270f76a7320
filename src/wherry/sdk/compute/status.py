"""How a cluster is, in the words and shapes of both of Azure ML's eras."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

_STATES = ("preparing", "running", "idle", "unusable", "leaving", "preempted")
_PRIORITIES = {"dedicated": "Dedicated", "lowpriority": "LowPriority"}


class NodeStateCounts:
    """How many nodes are in each state."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.preparing_node_count = int(counts.get("preparing") or 0)
        self.running_node_count = int(counts.get("running") or 0)
        self.idle_node_count = int(counts.get("idle") or 0)
        self.unusable_node_count = int(counts.get("unusable") or 0)
        self.leaving_node_count = int(counts.get("leaving") or 0)
        self.preempted_node_count = int(counts.get("preempted") or 0)

    def serialize(self) -> Dict[str, int]:
        return {f"{state}NodeCount": getattr(self, f"{state}_node_count") for state in _STATES}

    def __repr__(self) -> str:
        return f"NodeStateCounts({self.serialize()})"


class ScaleSettings:
    """Between how many nodes a cluster breathes, and how long one may be idle."""

    def __init__(
        self,
        minimum_node_count: int = 0,
        maximum_node_count: int = 0,
        idle_seconds_before_scaledown: float = 0,
    ) -> None:
        self.minimum_node_count = minimum_node_count
        self.maximum_node_count = maximum_node_count
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ScaleSettings:
        return cls(
            int(fields.get("min_nodes") or 0),
            int(fields.get("max_nodes") or 0),
            fields.get("idle_seconds") or 0,
        )

    def serialize(self) -> Dict[str, Any]:
        return {
            "minNodeCount": self.minimum_node_count,
            "maxNodeCount": self.maximum_node_count,
            "nodeIdleTimeBeforeScaleDown": f"PT{self.idle_seconds_before_scaledown:g}S",
        }

    def __repr__(self) -> str:
        return f"ScaleSettings({self.serialize()})"


class AmlComputeStatus:
    """How a cluster is.

    >>> target.get_status().serialize()["currentNodeCount"]
    2
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        status = record.get("status") or {}
        config = record.get("config") or {}
        self.current_node_count = int(status.get("current_node_count") or 0)
        self.target_node_count = int(status.get("target_node_count") or 0)
        self.node_state_counts = NodeStateCounts(status.get("node_state_counts") or {})
        self.allocation_state = str(status.get("allocation_state") or "Steady")
        self.allocation_state_transition_time = status.get("allocation_state_transition_time")
        self.errors: Optional[List[Any]] = list(status.get("errors") or []) or None
        self.creation_time = record.get("created_at")
        self.modified_time = record.get("modified_at")
        self.provisioning_state = str(record.get("provisioning_state") or "Succeeded")
        self.provisioning_state_transition_time = record.get("provisioning_state_at")
        self.scale_settings = ScaleSettings.of(status.get("scale_settings") or config)
        self.vm_priority = _priority(status.get("vm_priority") or config.get("vm_priority"))
        self.vm_size = str(status.get("vm_size") or config.get("vm_size") or "")

    def serialize(self) -> Dict[str, Any]:
        """For JSON, in Azure ML's keys."""
        return {
            "currentNodeCount": self.current_node_count,
            "targetNodeCount": self.target_node_count,
            "nodeStateCounts": self.node_state_counts.serialize(),
            "allocationState": self.allocation_state,
            "allocationStateTransitionTime": self.allocation_state_transition_time,
            "errors": self.errors,
            "creationTime": self.creation_time,
            "modifiedTime": self.modified_time,
            "provisioningState": self.provisioning_state,
            "provisioningStateTransitionTime": self.provisioning_state_transition_time,
            "scaleSettings": self.scale_settings.serialize(),
            "vmPriority": self.vm_priority,
            "vmSize": self.vm_size,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.serialize()})"


class BatchAiStatus(AmlComputeStatus):
    """The same as Azure ML's first versions told it of a Batch AI cluster."""

    def serialize(self) -> Dict[str, Any]:
        """For JSON, in the keys and the small letters of that time."""
        counts = self.node_state_counts.serialize()
        return {
            "allocationState": self.allocation_state.lower(),
            "allocationStateTransitionTime": self.allocation_state_transition_time,
            "creationTime": self.creation_time,
            "currentNodeCount": self.current_node_count,
            "errors": self.errors,
            "nodeStateCounts": {
                f"{state}NodeCount": counts[f"{state}NodeCount"]
                for state in sorted(_STATES)
                if state != "preempted"
            },
            "provisioningState": self.provisioning_state.lower(),
            "provisioningStateTransitionTime": self.provisioning_state_transition_time,
            "scaleSettings": self._scale(),
            "vmPriority": self.vm_priority.lower(),
            "vmSize": self.vm_size,
        }

    def _scale(self) -> Dict[str, Any]:
        least, most = self.scale_settings.minimum_node_count, self.scale_settings.maximum_node_count
        if least == most:
            manual = {"targetNodeCount": most, "nodeDeallocationOption": "requeue"}
            return {"manual": manual, "autoScale": None}
        automatic = {
            "maximumNodeCount": most,
            "minimumNodeCount": least,
            "initialNodeCount": least,
        }
        return {"manual": None, "autoScale": automatic}


def _priority(text: Any) -> str:
    plain = str(text or "dedicated").lower().replace("_", "")
    return _PRIORITIES.get(plain, str(text))
