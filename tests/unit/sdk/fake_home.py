"""``python -m tests.unit.sdk.fake_home HOME``: a fake server that behaves as the one of a home."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from .fake_server import TOKEN, FakeServer, route


def publish(home: Path, server: FakeServer, pid: int, **more: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    token = home / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    facts = {"url": server.url, "pid": pid, "version": server.version, "api": int(server.api)}
    temporary = home / "server.tmp"
    temporary.write_text(json.dumps({**facts, "started_at": "2026-01-01T00:00:00Z", **more}))
    temporary.replace(home / "server.json")


def main(home: Path) -> None:
    with (home / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    stop = threading.Event()

    @route("POST", "/server/stop")
    def _stop(_call: Any) -> Any:
        stop.set()
        return {"status": "stopping"}

    server = FakeServer()
    publish(home, server, os.getpid())
    stop.wait(60)
    server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
