"""``python -m tests.ssh.serving FILE``: a server that has the machines in FILE as targets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fastapi import FastAPI

import wherry.api.__main__ as server
from wherry.api.app import create_app
from wherry.control.plane import Plane
from wherry.core.targets import key
from wherry.drivers.base import Driver
from wherry.drivers.ssh import SshDriver
from wherry.drivers.ssh_host import Host


def with_machines(plane: Plane) -> FastAPI:
    machines = json.loads(Path(sys.argv[1]).read_text())
    drivers: dict[str, Driver] = dict(plane.drivers)
    for each in machines:
        host = Host.of(each["host"], each["host"])
        drivers[each["name"]] = SshDriver(host, "~/unused", plane.url)
        drivers[key("w", each["name"])] = SshDriver(host, each["root"], plane.url)
    plane.drivers = drivers
    return create_app(plane)


if __name__ == "__main__":
    setattr(server, "create_app", with_machines)  # noqa: B010  # for this process alone
    sys.exit(server.main())
