"""A container that stands in for a machine: where its engine is, and what it is called there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ContainerPlace:
    """``engine`` is written as in ``DOCKER_HOST``."""

    engine: str
    name: str
    python: str = ""

    @property
    def where(self) -> tuple[str, str]:
        return self.engine, self.name

    @property
    def trial(self) -> str:
        return f"docker exec {self.name} /bin/sh -c true"

    def __str__(self) -> str:
        return f"container {self.name}"
