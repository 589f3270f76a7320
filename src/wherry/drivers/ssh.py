"""Runs attempts on a machine that is reached by SSH."""

from __future__ import annotations

from . import ssh_connection
from .agent_driver import ROOT, AgentDriver
from .ssh_host import Host


class SshDriver(AgentDriver):
    def __init__(
        self,
        host: Host,
        root: str = ROOT,
        server: str = "",
        *,
        cpus: float | None = None,
        memory_bytes: int | None = None,
        gpus: int | None = None,
    ) -> None:
        super().__init__(
            host,
            ssh_connection.connect,
            root,
            server,
            cpus=cpus,
            memory_bytes=memory_bytes,
            gpus=gpus,
        )
