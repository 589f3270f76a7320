"""Start-up: the server, the import, the command line; and the idle server's memory."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path

from benchmarks.measure import (
    PYTHON,
    WHERRY,
    Row,
    command,
    medians_s,
    pss_mb,
    ratio_row,
    server_home,
)


def rows() -> list[Row]:
    bare = command(PYTHON, "-c", "pass")
    load = medians_s(command(PYTHON, "-c", "import wherry"), bare, 30)
    assist = medians_s(command(WHERRY, "--help"), bare, 30)
    return [
        *_server(),
        ratio_row("import wherry", load[0], "python -c pass", load[1], 2),
        ratio_row("wherry --help", assist[0], "python -c pass", assist[1], 5),
    ]


def _server() -> list[Row]:
    with server_home() as folder:
        first_s, _ = _start(folder / "home")
        subprocess.run([WHERRY, "server", "stop"], capture_output=True, check=True)
        again_s, pid = _start(folder / "home")
        time.sleep(3)
        memory = pss_mb(pid)
    return [
        Row(
            "server: first start to first answer",
            f"{first_s:.2f} s",
            "",
            "",
            "<= 1.5 s",
            first_s <= 1.5,
        ),
        Row(
            "server: start to first answer", f"{again_s:.2f} s", "", "", "<= 1.5 s", again_s <= 1.5
        ),
        Row("server: idle memory (PSS)", f"{memory:.0f} MB", "", "", "<= 150 MB", memory <= 150),
    ]


def _start(home: Path) -> tuple[float, int]:
    """Seconds from the start of the process to its first answer, and its pid."""
    address = home / "server.json"
    address.unlink(missing_ok=True)
    started = time.perf_counter()
    process = subprocess.Popen([PYTHON, "-m", "wherry.api"], stderr=subprocess.DEVNULL)
    while time.perf_counter() - started < 30:
        if address.exists():
            url = json.loads(address.read_text())["url"]
            with urllib.request.urlopen(f"{url}/health") as reply:
                reply.read()
            return time.perf_counter() - started, process.pid
        time.sleep(0.002)
    raise RuntimeError("the server did not start")
