"""Container instances: a run that names them gets a container of its own on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wherry.core.compute_configs import is_region
from wherry.core.errors import UserErrorException
from wherry.core.nearest import suggest
from wherry.core.resources import Resources
from wherry.core.specs import EnvironmentSpec, RunSpec
from wherry.core.targets import CONTAINER_INSTANCE, LOCAL
from wherry.store import sites

from .plane import Plane

MEMORY_BYTES = 4 * 10**9


def boxed(plane: Plane, spec: RunSpec) -> RunSpec:
    """With the container that such a run has, whatever it says of one; others stay as they are."""
    if spec.target != CONTAINER_INSTANCE:
        _check_no_region(spec)
        return spec
    _check_region(plane, spec.region)
    wanted = spec.resources
    owned = Resources(wanted.cpu, wanted.memory_bytes or MEMORY_BYTES, wanted.gpu)
    environment = _in_image(spec.environment, plane.settings.container_image)
    return replace(spec, resources=owned, environment=environment)


def limits(spec: RunSpec, given: Resources) -> dict[str, Any] | None:
    """What the runner is to hold the run's container to."""
    if spec.target != CONTAINER_INSTANCE:
        return None
    return {"cpu": given.cpu, "memory_bytes": given.memory_bytes}


def _in_image(wanted: EnvironmentSpec, image: str) -> EnvironmentSpec:
    """An interpreter that nobody named in words is that of the image."""
    spec = dict(wanted.specification or {})
    docker = {**(spec.get("docker") or {}), "enabled": True}
    if not any(docker.get(name) for name in ("image", "dockerfile", "context")):
        docker["image"] = image
    path = "" if wanted.interpreter_implied else wanted.interpreter_path
    python = spec.get("python") or {"user_managed": True, "interpreter": path or "python"}
    return replace(
        wanted, interpreter_path=path, specification={**spec, "python": python, "docker": docker}
    )


def _check_no_region(spec: RunSpec) -> None:
    if spec.region:
        raise UserErrorException(
            f"region is {spec.region!r}, but target {spec.target!r} is where it is",
            hint=f"only runs on {CONTAINER_INSTANCE!r} say where their container is to be made",
        )


def _check_region(plane: Plane, region: str) -> None:
    if not region or region == LOCAL or is_region(region):
        return
    with plane.database.read() as connection:
        known = [site.name for site in sites.every(connection)]
    if region in known:
        raise UserErrorException(
            f"container instances are made on this machine, not on site {region!r}",
            hint=f"make a cluster there, which removes its nodes when they are idle: wherry "
            f"compute create NAME --location {region}; then name that as the run's target",
        )
    raise UserErrorException(
        f"there is no region {region!r}{suggest(region, [LOCAL])}",
        hint="leave it out, or write a region of Azure's, such as eastus: each means this machine",
    )
