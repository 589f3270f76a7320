"""A real server process to be attacked, with something of everything in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.homes import wait_until

SCRIPT = """
import os, pathlib, sys, time
print("hello")
if sys.argv[1:]:
    pathlib.Path(sys.argv[1] + ".part").write_text(os.environ["WHERRY_RUN_TOKEN"])
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    time.sleep(3600)
"""


class Target:
    """The address of the server, its owner, and one attempt whose script goes on for long."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.token = (folder / "home" / "token").read_text().strip()
        self.client = httpx2.Client(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=120,
        )
        self.snapshot_id = ""
        self.ended = self.interactive = self.running = self.attempt_id = self.run_token = ""

    def prepare(self) -> None:
        """Whatever an attack has taken away is there again."""
        self.ask("POST", "workspaces", json={"name": "w", "exist_ok": True})
        self._computes()
        self.snapshot_id = self._snapshot(SCRIPT.encode())
        if self._status(self.ended) != "Completed":
            self.ended = self._submit()
            wait_until(lambda: self._status(self.ended) == "Completed")
        if self._status(self.interactive) != "Running":
            body = {"experiment": "e"}
            self.interactive = self.ask("POST", "workspaces/w/runs/interactive", json=body)["id"]
            self.client.put(f"runs/{self.interactive}/files/outputs/a.txt", content=b"0123456789")
        if self._status(self.running) != "Running":
            self._start()

    def ask(self, method: str, path: str, **options: Any) -> Any:
        reply = self.client.request(method, path, **options)
        assert reply.status_code < 400, (method, path, reply.status_code, reply.text)
        return reply.json()

    def server_log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def _computes(self) -> None:
        """A site and targets: one with nodes of this machine, one that cannot be reached."""
        nowhere = {"address": "127.0.0.1", "port": 1}
        self.client.put("sites/lab", json={"kind": "ssh", "config": {"hosts": [nowhere]}})
        cluster = {"type": "AmlCompute", "config": {"max_nodes": 1, "vm_priority": "lowpriority"}}
        self.client.put("workspaces/w/computes/cluster", json=cluster)
        machine = {"type": "VirtualMachine", "config": nowhere}
        self.client.put("workspaces/w/computes/machine", json=machine)

    def _start(self) -> None:
        file = self.folder / f"token-{uuid.uuid4()}"
        self.running = self._submit(str(file))
        wait_until(file.exists)
        wait_until(lambda: self._status(self.running) == "Running")
        self.run_token = file.read_text()
        self.attempt_id = self.run_token.split(".")[1]

    def _submit(self, *arguments: str) -> str:
        body = {
            "experiment": "e",
            "script": "train.py",
            "snapshot_id": self.snapshot_id,
            "arguments": list(arguments),
            "resources": {"cpu": 0.1},
        }
        return str(self.ask("POST", "workspaces/w/runs", json=body)["id"])

    def _snapshot(self, content: bytes) -> str:
        import hashlib

        digest = hashlib.sha256(content).hexdigest()
        self.ask("POST", "blobs", content=f"{digest} {len(content)}\n".encode() + content)
        entry = {"path": "train.py", "digest": digest, "size": len(content)}
        return str(self.ask("POST", "workspaces/w/snapshots", json={"files": [entry]})["id"])

    def _status(self, run_id: str) -> str:
        reply = self.client.get(f"runs/{run_id}") if run_id else None
        return str(reply.json()["status"]) if reply is not None and reply.is_success else ""


@contextmanager
def serve(folder: Path, database_url: str = "", **settings: str) -> Iterator[Target]:
    """A server of its own in ``folder``; every run is ended with it."""
    home = folder / "home"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")},
        "WHERRY_HOME": str(home),
        "WHERRY_CACHE": str(folder / "cache"),
        "WHERRY_DATABASE_URL": database_url,
        "WHERRY_LOCAL_CPUS": "4",
        "WHERRY_CANCEL_GRACE_S": "0.1",
        **settings,
    }
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen([sys.executable, "-m", "wherry.api"], env=env, stderr=log)
    try:
        wait_until(lambda: server.poll() is not None or (home / "server.json").exists())
        assert server.poll() is None, (folder / "server.log").read_text()
        target = Target(folder, json.loads((home / "server.json").read_text())["url"])
        with target.client:
            yield target
            _cancel_all(target)
    finally:
        server.terminate()
        server.wait(60)


def _cancel_all(target: Target) -> None:
    """By the reconciler, so that no process is left."""
    for workspace in target.ask("GET", "workspaces")["items"]:
        listing = f"workspaces/{workspace['name']}/runs?include_children=true&archived=all"
        live = "".join(f"&status={each}" for each in ("Queued", "Starting", "Preparing", "Running"))

        def none_live(path: str = f"{listing}{live}&status=CancelRequested&limit=1000") -> bool:
            items = target.ask("GET", path)["items"]
            for run in items:
                target.client.post(f"runs/{run['id']}/cancel")
            return not items

        wait_until(none_live, 120)
