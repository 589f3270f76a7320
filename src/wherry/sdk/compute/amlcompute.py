"""``AmlCompute``: a managed cluster."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...core.errors import ComputeTargetException
from .cluster import Cluster
from .configuration import DEDICATED, ClusterConfiguration, whole


class AmlComputeProvisioningConfiguration(ClusterConfiguration):
    """What a new cluster should be; ``AmlCompute.provisioning_configuration`` makes it."""

    type = "AmlCompute"


class AmlCompute(Cluster):
    """A managed cluster: nodes are made when runs wait and removed when they are idle.

    >>> config = AmlCompute.provisioning_configuration(
    ...     vm_size="STANDARD_D2_V2", min_nodes=0, max_nodes=4, idle_seconds_before_scaledown=300
    ... )
    >>> cluster = ComputeTarget.create(ws, "cpu-cluster", config)
    >>> cluster.wait_for_completion(show_output=True)
    """

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        vm_priority: str = DEDICATED,
        min_nodes: Any = 0,
        max_nodes: Any = None,
        idle_seconds_before_scaledown: Any = 1800,
        admin_username: Any = None,
        admin_user_password: Any = None,
        admin_user_ssh_key: Any = None,
        vnet_resourcegroup_name: Any = None,
        vnet_name: Any = None,
        subnet_name: Any = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        remote_login_port_public_access: str = "NotSpecified",
        identity_type: Any = None,
        identity_id: Any = None,
        location: Optional[str] = None,
        enable_node_public_ip: bool = True,
    ) -> AmlComputeProvisioningConfiguration:
        """What a new cluster should be. ``location`` names the site that its nodes come from.

        ``vm_size`` is a size of that site or one of Azure's, which means the nearest. Counts may be
        text, as variables of the environment are. What belongs to Azure's accounts and networks may
        be given and means nothing here.
        """
        if max_nodes in (None, ""):
            raise ComputeTargetException(
                "Invalid provisioning configuration: max nodes count is mandatory",
                hint="such as max_nodes=4",
            )
        return AmlComputeProvisioningConfiguration(
            vm_size,
            vm_priority,
            whole("min_nodes", min_nodes if min_nodes not in (None, "") else 0),
            whole("max_nodes", max_nodes),
            whole("idle_seconds_before_scaledown", idle_seconds_before_scaledown or 0),
            location,
            tags,
            description,
        )
