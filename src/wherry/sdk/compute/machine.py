"""Single machines: ``RemoteCompute`` that is attached over SSH, ``DsvmCompute`` that is made."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

import wherry  # the lazy surface: see run.py

from ...core.errors import ComputeTargetException
from . import waiting
from .cluster import Cluster
from .configuration import ClusterConfiguration, whole
from .target import ComputeTarget

_PORTS = 2**16


class RemoteComputeAttachConfiguration:
    """A machine that can be reached over SSH; ``RemoteCompute.attach_configuration`` makes it."""

    def __init__(
        self,
        username: Optional[str],
        address: str,
        ssh_port: int,
        password: str,
        private_key_file: str,
        private_key_passphrase: str,
        jump: Optional[str],
        host_key: Optional[str],
        python: Optional[str],
    ) -> None:
        self.username = username
        self.address = address
        self.ssh_port = ssh_port
        self.private_key_file = private_key_file
        self.jump = jump
        self.host_key = host_key
        self.python = python
        self._secrets = {
            "password": password,
            "private_key": read_key(private_key_file) if private_key_file else "",
            "passphrase": private_key_passphrase,
        }

    def validate_configuration(self) -> None:
        """Azure ML's check; it is made at once here."""

    def _attaching(self) -> Dict[str, Any]:
        config = {
            "address": self.address,
            "port": self.ssh_port,
            "username": self.username,
            "jump": self.jump,
            "host_key": self.host_key,
            "python": self.python,
        }
        return {
            "type": "VirtualMachine",
            "kind": "machine",
            "config": {name: value for name, value in config.items() if value},
            "secrets": {name: value for name, value in self._secrets.items() if value},
        }

    def __repr__(self) -> str:
        where = f"address={self.address!r}, ssh_port={self.ssh_port}"
        return f"{type(self).__name__}(username={self.username!r}, {where})"


class RemoteCompute(ComputeTarget):
    """A machine that is attached over SSH. It needs sshd and a Python of 3.8 or later.

    >>> target = RemoteCompute.attach(
    ...     ws, name="attach-dsvm", username="me", address="10.0.0.4", ssh_port=22, password="..."
    ... )
    >>> target.wait_for_completion(show_output=True)

    Its host key is kept when it is attached; a machine that shows another one later is refused.
    """

    @staticmethod
    def attach_configuration(
        username: Optional[str] = None,
        subscription_id: Any = None,
        resource_group: Any = None,
        vm_name: Any = None,
        resource_id: Any = None,
        address: Optional[str] = None,
        ssh_port: Any = 22,
        password: str = "",
        private_key_file: Any = "",
        private_key_passphrase: str = "",
        *,
        jump: Optional[str] = None,
        host_key: Optional[str] = None,
        python: Optional[str] = None,
    ) -> RemoteComputeAttachConfiguration:
        """How a machine is reached. The key file is read here and sent to the server, sealed.

        Without password and key the server uses its own agent and ``~/.ssh``. ``jump`` is a host to
        go through (``user@gate:22``), ``host_key`` the key that the machine must show.
        """
        if not address:
            raise _no_address(resource_id or vm_name)
        return RemoteComputeAttachConfiguration(
            username,
            str(address),
            _port(ssh_port),
            password or "",
            os.fspath(private_key_file or ""),
            private_key_passphrase or "",
            jump,
            host_key,
            python,
        )

    @staticmethod
    def attach(  # type: ignore[override]
        workspace: wherry.Workspace,
        name: str,
        username: Any = None,
        address: Optional[str] = None,
        ssh_port: Any = 22,
        password: str = "",
        private_key_file: Any = "",
        private_key_passphrase: str = "",
        *,
        attach_configuration: Any = None,
        **others: Any,
    ) -> RemoteCompute:
        """Make a machine a target of the workspace, by a configuration or by the fields of one."""
        config = attach_configuration
        if isinstance(username, RemoteComputeAttachConfiguration):
            config = username
        if config is None:
            config = RemoteCompute.attach_configuration(
                username=username,
                address=address,
                ssh_port=ssh_port,
                password=password,
                private_key_file=private_key_file,
                private_key_passphrase=private_key_passphrase,
                **others,
            )
        made = ComputeTarget.attach(workspace, name, config)
        assert isinstance(made, RemoteCompute)
        return made

    @property
    def address(self) -> str:
        return str(self._config.get("address") or "")

    @property
    def ssh_port(self) -> int:
        return int(self._config.get("port") or 22)

    @property
    def username(self) -> Optional[str]:
        return self._config.get("username")

    def get_credentials(self) -> Dict[str, Any]:
        """Secrets are never given back: this says so."""
        raise ComputeTargetException(
            f"the credentials of {self.name} stay with the server",
            hint="attach it again to change them",
        )

    def check(self) -> Dict[str, Any]:
        """Look at it now, and say what it has: Python, CPUs, memory, GPUs, disk, clock.

        Where it cannot be used, ``ComputeTargetException`` says precisely what is wrong.
        """
        answer = self._post("check")
        if not answer["ok"]:
            raise ComputeTargetException(answer["problem"], hint=answer.get("hint"))
        found: Dict[str, Any] = answer["found"]
        return found

    def detach(self, *, cancel_active_runs: bool = False, force: bool = False) -> None:
        """Take it out of the workspace. Active runs prevent it, unless they may be canceled.

        ``force`` declares a machine lost that does not answer: runs on it fail, though they may
        still be executed there.
        """
        self._remove(cancel_active_runs, force)

    @property
    def _config(self) -> Dict[str, Any]:
        return self._record.get("config") or {}


class DsvmProvisioningConfiguration(ClusterConfiguration):
    """What a new machine should be; ``DsvmCompute.provisioning_configuration`` makes it."""

    type = "VirtualMachine"

    def __init__(self, vm_size: Any, ssh_port: Any, location: Optional[str]) -> None:
        super().__init__(vm_size, None, 1, 1, 0, location)
        self.ssh_port = None if ssh_port in (None, "") else _port(ssh_port)

    def _provisioning(self) -> Dict[str, Any]:
        asked = super()._provisioning()
        return {**asked, "config": {**asked["config"], "ssh_port": self.ssh_port or 0}}


class DsvmCompute(Cluster):
    """A machine that is made from a site and stays until it is deleted.

    >>> config = DsvmCompute.provisioning_configuration(vm_size="Standard_D2_v2")
    >>> target = DsvmCompute.create(ws, "mydsvm", config)
    >>> target.wait_for_completion(show_output=True)

    Of this machine it is a slot, of a pool of hosts one of them, and at a site of containers one
    with sshd and a home that stays; ``address``, ``ssh_port`` and ``username`` say where that is.
    """

    _called = "DSVM"

    @staticmethod
    def provisioning_configuration(
        vm_size: Optional[str] = None, ssh_port: Any = None, location: Optional[str] = None
    ) -> DsvmProvisioningConfiguration:
        """What a new machine should be. ``location`` names the site that it comes from.

        ``ssh_port`` is the port of the engine's host at which a container will listen; any that is
        free without it.
        """
        return DsvmProvisioningConfiguration(vm_size, ssh_port, location)

    @property
    def address(self) -> Optional[str]:
        """Where its sshd listens; None for a slot of the server's own machine, or before it is
        made.
        """
        return self._node.get("address") if self._node.get("port") else None

    @property
    def ssh_port(self) -> Optional[int]:
        return self._node.get("port")

    @property
    def username(self) -> Optional[str]:
        return self._node.get("username") or None

    @property
    def _node(self) -> Dict[str, Any]:
        return next(iter(self._record.get("nodes") or []), {})

    def wait_for_completion(  # type: ignore[override]
        self, show_output: bool = False, is_delete_operation: bool = False
    ) -> None:
        """Wait until it can be used, or with ``is_delete_operation`` until it is gone."""
        waiting.provisioned(self, show_output, is_delete_operation)

    def _is_ready(self) -> bool:
        if self.status.errors:
            raise waiting.reported(self, self._called)
        return self._ready_nodes() > 0


def read_key(path: Any) -> str:
    """The text of a private key."""
    where = os.path.expanduser(os.fspath(path))
    try:
        with open(where, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is no text").lower()
        raise ComputeTargetException(f"the private key {where} cannot be read: {reason}") from None
    if "PRIVATE KEY" not in text:
        public = where[: -len(".pub")] if where.endswith(".pub") else ""
        raise ComputeTargetException(
            f"{where} is no private key",
            hint=f"the private one is {public}" if public else "ssh-keygen makes one",
        )
    return text


def _port(value: Any) -> int:
    port = whole("ssh_port", value)
    if 0 < port < _PORTS:
        return port
    raise ComputeTargetException(f"ssh_port is {value!r}, and must be between 1 and {_PORTS - 1}")


def _no_address(resource: Any) -> ComputeTargetException:
    if resource:
        return ComputeTargetException(
            f"{resource!r} is a machine in Azure, whose address cannot be looked up from here",
            hint="give address='...', by which the server can reach it",
        )
    return ComputeTargetException(
        "Please provide subscription_id, resource_group, vm_name or provide resource_id or address "
        "for virtual machine being attached.",
        hint="here it is address='...'",
    )
