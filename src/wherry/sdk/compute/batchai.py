"""``BatchAiCompute``: what Azure ML's first versions called a managed cluster."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import wherry  # the lazy surface: see run.py

from ...core.errors import ComputeTargetException
from .cluster import Cluster
from .configuration import ClusterConfiguration, switch, whole
from .status import BatchAiStatus

_IDLE_S = 300


class BatchAiProvisioningConfiguration(ClusterConfiguration):
    """What a new cluster should be; ``BatchAiCompute.provisioning_configuration`` makes it."""

    type = "BatchAI"


class BatchAiCompute(Cluster):
    """A managed cluster in the words of Azure ML's first versions; it works like ``AmlCompute``."""

    _called = "BatchAI"

    @property
    def status(self) -> BatchAiStatus:
        """How it was when it was last asked."""
        return BatchAiStatus(self._record)

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        vm_priority: str = "",
        autoscale_enabled: Any = None,
        cluster_min_nodes: Any = None,
        cluster_max_nodes: Any = None,
        location: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> BatchAiProvisioningConfiguration:
        """What a new cluster should be. Without autoscale it always has ``cluster_max_nodes``."""
        most = whole("cluster_max_nodes", 1 if cluster_max_nodes is None else cluster_max_nodes)
        least = whole("cluster_min_nodes", 0 if cluster_min_nodes is None else cluster_min_nodes)
        if autoscale_enabled is not None and not switch("autoscale_enabled", autoscale_enabled):
            least = most = max(least, most)
        return BatchAiProvisioningConfiguration(
            vm_size, vm_priority, least, most, _IDLE_S, location, tags, description
        )

    @staticmethod
    def attach(workspace: wherry.Workspace, name: str, resource_id: Any) -> BatchAiCompute:
        """Azure's clusters cannot be reached from here: this says so."""
        raise ComputeTargetException(
            f"{resource_id!r} is a cluster in Azure, which cannot be reached from here",
            hint="make one with ComputeTarget.create and BatchAiCompute.provisioning_configuration",
        )

    def wait_for_completion(  # type: ignore[override]
        self,
        show_output: bool = False,
        min_node_count: Optional[int] = None,
        timeout_in_minutes: Optional[float] = 20,
        is_delete_operation: bool = False,
    ) -> None:
        """Wait until it is made and has ``min_node_count`` nodes, or those that it always has."""
        super().wait_for_completion(
            show_output, min_node_count, timeout_in_minutes, is_delete_operation
        )
