"""What all clusters can do."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import wherry  # the lazy surface: see run.py

from ...core.compute_configs import site_name
from ..client import quote
from . import waiting
from .configuration import whole
from .status import AmlComputeStatus, ScaleSettings
from .target import ComputeTarget


class Cluster(ComputeTarget):
    """A target whose nodes are made when runs wait and removed when they are idle."""

    _called = "AmlCompute"

    @property
    def status(self) -> AmlComputeStatus:
        """How it was when it was last asked."""
        return AmlComputeStatus(self._record)

    @property
    def vm_size(self) -> str:
        return self.status.vm_size

    @property
    def vm_priority(self) -> str:
        return self.status.vm_priority

    @property
    def scale_settings(self) -> ScaleSettings:
        return self.status.scale_settings

    def get_status(self) -> Any:
        """How it is now: nodes by state, whether it grows or shrinks, errors."""
        self.refresh_state()
        return self.status

    def wait_for_completion(  # type: ignore[override]  # as in Azure ML
        self,
        show_output: bool = False,
        min_node_count: Optional[int] = None,
        timeout_in_minutes: Optional[float] = 25,
        is_delete_operation: bool = False,
    ) -> None:
        """Wait until it is made and has ``min_node_count`` nodes, or those that it always has.

        When the time is over it says so and returns. Where it cannot be made,
        ``ComputeTargetException`` says why.

        >>> target.wait_for_completion(show_output=True, min_node_count=None, timeout_in_minutes=20)
        """
        count = None if min_node_count is None else whole("min_node_count", min_node_count)
        minutes = None if timeout_in_minutes is None else float(timeout_in_minutes)
        waiting.cluster(self, show_output, count, minutes, is_delete_operation, self._called)

    def update(
        self,
        min_nodes: Any = None,
        max_nodes: Any = None,
        idle_seconds_before_scaledown: Any = None,
        *,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> None:
        """Change how many nodes there may be, or for how long one may be idle."""
        given = {
            "min_nodes": min_nodes,
            "max_nodes": max_nodes,
            "idle_seconds": idle_seconds_before_scaledown,
        }
        config = {name: whole(name, each) for name, each in given.items() if each is not None}
        self._patch({"config": config, "tags": tags, "description": description})

    def list_nodes(self) -> List[Dict[str, Any]]:
        """Its nodes, in Azure ML's keys.

        >>> [(node["nodeId"], node["nodeState"], node["runId"]) for node in target.list_nodes()]
        [('cpu-cluster-1', 'running', 'churn_1700000000_1a2b3c4d')]
        """
        return [_node(each) for each in self._get("nodes")]

    def start(self) -> None:
        """Let it have nodes again, after ``stop``."""
        self._post("start")

    def stop(self) -> None:
        """Remove its nodes and make none until ``start``; runs wait."""
        self._post("stop")

    def restart(self) -> None:
        """Make its nodes anew."""
        self._post("restart")

    def simulate_eviction(self, node: Optional[str] = None) -> None:
        """Take a node of a low-priority cluster away, to see how its run bears it.

        Without ``node`` it is one that runs something.
        """
        self._post("evict", {"node": node})

    def give_up_node(self, node: str) -> None:
        """Declare a node lost that does not answer and will not come back.

        Its run fails with the reason ``RunnerLost``, though it may still be executed there; what it
        still sends is refused. The host is used again once it has answered and been cleared.
        """
        self._post(f"nodes/{quote(node)}/give-up")

    @staticmethod
    def supported_vmsizes(
        workspace: wherry.Workspace, location: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """The sizes that nodes of a site may have, the local one's without ``location``.

        >>> [size["name"] for size in AmlCompute.supported_vmsizes(ws)]
        ['local-1', 'local-2', 'local-4']
        """
        from_site = f"/sites/{quote(site_name(location or ''))}/sizes"
        return [_size(each) for each in workspace._client.get(from_site)["items"]]

    def _ready_nodes(self) -> int:
        counts = self.status.node_state_counts
        return counts.idle_node_count + counts.running_node_count


def _node(record: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "nodeId": record.get("name") or record.get("id"),
        "port": record.get("port"),
        "publicIpAddress": record.get("address"),
        "privateIpAddress": record.get("address"),
        "nodeState": record.get("state"),
        "runId": record.get("run_id"),
        "reason": record.get("reason"),
    }


def _size(record: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "name": record["name"],
        "vCPUs": record.get("cpu"),
        "gpus": record.get("gpu") or 0,
        "memoryGB": round((record.get("memory_bytes") or 0) / 2**30, 1),
        "maxResourceVolumeMB": 0,
        "pricePerHour": record.get("price_per_hour"),
    }
