"""What an engine is asked for: the container of one attempt. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Sequence

from . import gpus
from .arguments import parse_arguments
from .container import LABEL, SCRIPT
from .sizes import parse_size

_LISTS = ("Mounts", "SecurityOpt", "GroupAdd")
_PATH = "PYTHONPATH"


@dataclass(frozen=True)
class Request:
    """``docker`` is the environment's section, ``own`` the variables that the image sets.

    The command's output is appended to the file ``log``; ``end`` gets its exit code. What is
    ``writable`` and ``readable`` is where it is outside. ``cpu``, ``cpus`` and ``memory_bytes`` are
    all that it may use, whatever the environment asks for: time, which ones, memory.
    """

    attempt_id: str
    image: str
    argv: Sequence[str]
    env: Mapping[str, str]
    docker: Mapping[str, Any]
    work: str
    log: str
    end: str
    user: str
    groups: Sequence[int] = ()
    writable: Sequence[str] = ()
    readable: Sequence[str] = ()
    own: Sequence[str] = ()
    cdi: bool = False
    cpu: float = 0.0
    cpus: Sequence[int] = ()
    memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> Dict[str, Any]:
        given = parse_arguments(self.docker.get("arguments") or [])
        wanted = given.pop("gpus", self.docker.get("gpus"))
        devices = gpus.parse_gpus(wanted, gpus.placed(dict(self.env)))
        host = self._host(gpus.request(devices, cdi=self.cdi))
        for name, value in given.pop("HostConfig").items():
            host[name] = host.get(name, []) + value if name in _LISTS else value
        self._hold(host)
        variables = {**self._variables(), **gpus.visible(devices)}
        return {
            "Image": self.image,
            "Entrypoint": ["/bin/sh", "-c", SCRIPT, "wherry"],
            "Cmd": [self.log, self.end, *self.argv],
            "Env": [*(f"{k}={v}" for k, v in variables.items()), *given.pop("Env", [])],
            "Labels": {LABEL: self.attempt_id, **self.labels, **given.pop("Labels", {})},
            "WorkingDir": self.work,
            "User": self.user,
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": host,
        }

    def _host(self, devices: List[Dict[str, Any]]) -> Dict[str, Any]:
        mounts = [_mount(path, read_only=False) for path in self.writable]
        mounts += [_mount(path, read_only=True) for path in self.readable]
        host: Dict[str, Any] = {
            "NetworkMode": "host",
            "Mounts": mounts,
            "LogConfig": {"Type": "json-file"},
            "SecurityOpt": ["label=disable"],
            "GroupAdd": [str(group) for group in self.groups],
        }
        if devices:
            host["DeviceRequests"] = devices
        if self.docker.get("shm_size"):
            host["ShmSize"] = parse_size(self.docker["shm_size"], "docker.shm_size")
        return host

    def _hold(self, host: Dict[str, Any]) -> None:
        if self.cpu:
            host["NanoCpus"] = min(host.get("NanoCpus") or math.inf, math.ceil(self.cpu * 1e9))
        if self.cpus:
            host["CpusetCpus"] = ",".join(map(str, self.cpus))
        if self.memory_bytes:
            host["Memory"] = min(host.get("Memory") or self.memory_bytes, self.memory_bytes)
            host["MemorySwap"] = host["Memory"]  # both together: no swap

    def _variables(self) -> Dict[str, str]:
        """The image's own modules stay to be found, behind what the run brings."""
        found = dict(self.env)
        for line in self.own:
            name, _, value = line.partition("=")
            if name == _PATH and value:
                found[_PATH] = f"{found[_PATH]}:{value}" if found.get(_PATH) else value
        return found


def _mount(path: str, *, read_only: bool) -> Dict[str, Any]:
    return {"Type": "bind", "Source": path, "Target": path, "ReadOnly": read_only}
