"""``ComputeInstance``: a machine of one's own, with JupyterLab on it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from . import waiting
from .instance_configuration import (
    ComputeInstanceProvisioningConfiguration,
    idle_minutes,
    listed_schedules,
)
from .target import ComputeTarget


class ComputeInstanceStatus:
    """How a compute instance is.

    >>> instance.get_status().state
    'Running'
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        told = record.get("instance") or {}
        config = record.get("config") or {}
        self.state = str(told.get("state") or "Unknown")
        self.creation_time = record.get("created_at")
        self.modified_time = record.get("modified_at")
        self.created_by_user_name = record.get("created_by")
        self.created_by_user_id = record.get("created_by")
        self.created_by_user_org = None
        self.errors: Optional[List[Any]] = list(told.get("errors") or []) or None
        self.vm_size = str(record.get("node_size") or config.get("vm_size") or "")
        self.last_operation = told.get("last_operation")
        self.idle_since = told.get("idle_since")
        self.idle_stop_at = told.get("idle_stop_at")
        self.next_schedule = told.get("next_schedule")

    def serialize(self) -> Dict[str, Any]:
        """For JSON, in Azure ML's keys."""
        return {
            "state": self.state,
            "vmSize": self.vm_size,
            "creationTime": self.creation_time,
            "modifiedTime": self.modified_time,
            "createdByUserName": self.created_by_user_name,
            "createdByUserId": self.created_by_user_id,
            "createdByUserOrg": self.created_by_user_org,
            "errors": self.errors,
            "lastOperation": self.last_operation,
            "idleSince": self.idle_since,
            "idleStopAt": self.idle_stop_at,
            "nextSchedule": self.next_schedule,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.serialize()})"


class ComputeInstance(ComputeTarget):
    """A machine of one's own with JupyterLab; it also runs what is submitted to it.

    >>> config = ComputeInstance.provisioning_configuration(
    ...     vm_size="STANDARD_DS3_V2", idle_time_before_shutdown_minutes=60
    ... )
    >>> instance = ComputeInstance.create(ws, "my-notebooks", config)
    >>> instance.wait_for_completion(show_output=True)
    >>> instance.sign_in_url()
    'http://127.0.0.1:8470/instances/w/my-notebooks/?code=...'

    What lies in its home stays when it is stopped, and goes when it is deleted.
    """

    @staticmethod
    def provisioning_configuration(
        vm_size: str = "",
        ssh_public_access: Any = False,
        admin_user_ssh_public_key: Optional[str] = None,
        vnet_resourcegroup_name: Any = None,
        vnet_name: Any = None,
        subnet_name: Any = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        assigned_user_object_id: Any = None,
        assigned_user_tenant_id: Any = None,
        *,
        location: Optional[str] = None,
        idle_time_before_shutdown_minutes: Any = None,
        schedules: Any = None,
        setup_scripts: Optional[Mapping[str, Any]] = None,
        environments: Any = None,
    ) -> ComputeInstanceProvisioningConfiguration:
        """What a new instance should be. ``location`` names the site that it comes from.

        ``schedules`` start and stop it; ``setup_scripts`` has a ``creation_script``, executed once,
        and a ``startup_script``, executed at each start: paths, or ``{"path", "arguments",
        "timeout_minutes"}``. ``environments`` are there as kernels besides Python's own. What
        belongs to Azure's accounts and networks may be given and means nothing here.
        """
        return ComputeInstanceProvisioningConfiguration(
            vm_size=vm_size,
            ssh_public_access=ssh_public_access,
            admin_user_ssh_public_key=admin_user_ssh_public_key,
            location=location,
            idle_time_before_shutdown_minutes=idle_time_before_shutdown_minutes,
            schedules=schedules,
            setup_scripts=setup_scripts,
            environments=environments,
            tags=tags,
            description=description,
        )

    @property
    def status(self) -> ComputeInstanceStatus:
        """How it was when it was last asked."""
        return ComputeInstanceStatus(self._record)

    @property
    def state(self) -> str:
        """``Running``, ``Stopped``, ``Starting`` ...: Azure ML's words."""
        return self.status.state

    @property
    def vm_size(self) -> str:
        return self.status.vm_size

    @property
    def schedules(self) -> List[Dict[str, Any]]:
        """When it is started and stopped."""
        return list((self._record.get("config") or {}).get("schedules") or [])

    @property
    def applications(self) -> List[Dict[str, str]]:
        """What can be opened on it now, in Azure ML's keys. ``sign_in_url`` opens it, too."""
        services = (self._record.get("instance") or {}).get("services") or []
        return [
            {
                "displayName": str(each["display_name"]),
                "endpointUri": self.workspace._client.url + str(each["endpoint_uri"]),
            }
            for each in services
        ]

    def get_status(self) -> ComputeInstanceStatus:
        """How it is now: its state, errors, when it stops by itself."""
        self.refresh_state()
        return self.status

    def sign_in_url(self) -> str:
        """An address that opens JupyterLab for whoever has it: once, and not for long."""
        return self.workspace._client.url + str(self._post("open")["url"])

    def start(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Start it again, after ``stop``. Its files and installed packages are as they were."""
        self._act("start", wait_for_completion, show_output)

    def stop(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Stop JupyterLab and give the machine back; its home stays. Runs on it are let finish."""
        self._act("stop", wait_for_completion, show_output)

    def restart(self, wait_for_completion: bool = False, show_output: bool = False) -> None:
        """Stop it and start it again."""
        self._act("restart", wait_for_completion, show_output)

    def update(
        self,
        *,
        idle_time_before_shutdown_minutes: Any = None,
        schedules: Any = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
    ) -> None:
        """Change when it stops by itself: 0 minutes is never, an empty list no schedule."""
        config: Dict[str, Any] = {}
        if idle_time_before_shutdown_minutes is not None:
            minutes = idle_minutes(idle_time_before_shutdown_minutes)
            config["idle_seconds"] = minutes * 60 if minutes else None
        if schedules is not None:
            config["schedules"] = listed_schedules(schedules)
        self._patch({"config": config, "tags": tags, "description": description})

    def wait_for_completion(
        self, show_output: bool = False, is_delete_operation: bool = False
    ) -> None:
        """Wait until it runs, or is stopped, or with ``is_delete_operation`` is gone.

        Where it cannot be made or set up, ``ComputeTargetException`` says why.
        """
        waiting.instance(self, show_output, is_delete_operation)

    def _act(self, what: str, wait: bool, show_output: bool) -> None:
        self._record = self._post(what)
        if wait:
            waiting.instance(self, show_output, False)

    @property
    def _progress(self) -> str:
        return self.state
