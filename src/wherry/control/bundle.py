"""The runner as it travels to a node: one archive of sources, alike for like sources."""

from __future__ import annotations

from functools import lru_cache

from wherry.drivers import packing

_PARTS = (
    *("builds", "cli", "compute", "containers", "core", "mlflow_store", "runner", "sdk"),
    "session",
)
# Where MLflow looks for stores that others bring: on the Python path.
_PLUGIN = {
    "wherry_mlflow-0.dist-info/METADATA": (
        b"Metadata-Version: 2.1\nName: wherry-mlflow\nVersion: 0\n"
    ),
    "wherry_mlflow-0.dist-info/entry_points.txt": (
        b"[mlflow.tracking_store]\n"
        b"http = wherry.mlflow_store:build\n"
        b"https = wherry.mlflow_store:build\n"
    ),
}


def files() -> dict[str, bytes]:
    """What ``command`` needs beside it in the attempt's folder."""
    return {"runner.pyz": build(), "runner.py": _bootstrap()}


def command(interpreter: str) -> list[str]:
    """How a driver starts the runner; ``{dir}`` is the attempt's folder."""
    return [interpreter, "-I", "-S", "{dir}/runner.py", "{dir}"]


def nursery(interpreter: str) -> list[str]:
    """How a driver starts a process that starts runners."""
    return [*command(interpreter), "--nursery"]


@lru_cache(maxsize=1)
def build() -> bytes:
    """A zip application: the runner, and the SDK for the script's own use. Needs Python 3.8."""
    return packing.archive({"__main__.py": _bootstrap(), **_sources()})


@lru_cache(maxsize=1)
def content_hash() -> str:
    return packing.content_hash(_sources())


@lru_cache(maxsize=1)
def _sources() -> dict[str, bytes]:
    return {**packing.sources(_PARTS), **_PLUGIN}


@lru_cache(maxsize=1)
def _bootstrap() -> bytes:
    source = _sources()["wherry/runner/bootstrap.py"].decode()
    return source.replace('HASH = ""', f'HASH = "{content_hash()}"', 1).encode()
