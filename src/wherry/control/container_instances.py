"""Container instances: a run that names them gets a container of its own on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wherry.core.compute_configs import CONTAINER, ContainersConfig, is_region
from wherry.core.errors import UserErrorException
from wherry.core.nearest import listed, suggest
from wherry.core.resources import Resources
from wherry.core.specs import EnvironmentSpec, RunSpec
from wherry.core.targets import CONTAINER_INSTANCE, LOCAL
from wherry.drivers.container_instances import makes_instances
from wherry.store import sites

from .plane import Plane

MEMORY_BYTES = 4 * 10**9
_LEAST_CPU, _LEAST_BYTES = 0.01, 6 << 20


def boxed(plane: Plane, spec: RunSpec) -> RunSpec:
    """With the container that such a run has, whatever it says of one; others stay as they are."""
    if spec.target != CONTAINER_INSTANCE:
        _check_no_region(spec)
        return spec
    site = _site(plane, spec.region)
    wanted = spec.resources
    owned = Resources(wanted.cpu, wanted.memory_bytes or MEMORY_BYTES, wanted.gpu)
    _check_size(owned)
    image = site.image if site else plane.settings.container_image
    environment = _in_image(spec.environment, image, site.volumes if site else ())
    return replace(spec, resources=owned, environment=environment)


def limits(spec: RunSpec, given: Resources) -> dict[str, Any] | None:
    """What the runner is to hold the run's container to."""
    if spec.target != CONTAINER_INSTANCE:
        return None
    return {"cpu": given.cpu, "memory_bytes": given.memory_bytes}


def _in_image(wanted: EnvironmentSpec, image: str, volumes: Sequence[str]) -> EnvironmentSpec:
    """An interpreter that nobody named in words is that of the image."""
    spec = dict(wanted.specification or {})
    docker = {**(spec.get("docker") or {}), "enabled": True}
    if not any(docker.get(name) for name in ("image", "dockerfile", "context")):
        docker["image"] = image
    if volumes:
        mounts = [word for each in volumes for word in ("--volume", each)]
        docker["arguments"] = [*mounts, *(docker.get("arguments") or [])]
    path = "" if wanted.interpreter_implied else wanted.interpreter_path
    python = spec.get("python") or {"user_managed": True, "interpreter": path or "python"}
    return replace(
        wanted, interpreter_path=path, specification={**spec, "python": python, "docker": docker}
    )


def _check_size(wanted: Resources) -> None:
    """Engines start nothing below this, or hold it to nothing."""
    if wanted.cpu < _LEAST_CPU or wanted.memory_bytes < _LEAST_BYTES:
        raise UserErrorException(
            f"a container instance cannot have {wanted}",
            hint=f"it has at least {_LEAST_CPU:g} CPUs and {_LEAST_BYTES >> 20} MiB of memory",
        )


def _check_no_region(spec: RunSpec) -> None:
    if spec.region:
        raise UserErrorException(
            f"region is {spec.region!r}, but target {spec.target!r} is where it is",
            hint=f"only runs on {CONTAINER_INSTANCE!r} say where their container is to be made",
        )


def _site(plane: Plane, region: str) -> ContainersConfig | None:
    """The site that it names; None where it is just this machine."""
    if not region or region == LOCAL or is_region(region):
        return None
    with plane.database.read() as connection:
        known = {site.name: site for site in sites.every(connection)}
    boxes = [name for name, site in known.items() if site.kind == CONTAINER]
    if region not in known:
        raise UserErrorException(
            f"there is no region {region!r}{suggest(region, [LOCAL, *known])}",
            hint="leave it out, or write a region of Azure's, such as eastus: each means this "
            f"machine; sites of containers are {listed(boxes) or 'none'}",
        )
    if region not in boxes:
        raise UserErrorException(
            f"site {region!r} is no engine of containers but a pool of hosts",
            hint="leave region out, or name a cluster on that site as the target",
        )
    return _here(region, ContainersConfig(**known[region].config))


def _here(region: str, config: ContainersConfig) -> ContainersConfig:
    """The runner of such a run is beside its engine, and takes room of that machine: this one."""
    if makes_instances(config.engine):
        return config
    where = config.engine or "elsewhere"
    raise UserErrorException(
        f"the engine of site {region!r} is {where}, and container instances are made by this "
        "machine's own",
        hint=f"make a cluster there, which removes its nodes when they are idle (wherry compute "
        f"create NAME --location {region}), or attach that engine's host over SSH (wherry compute "
        "attach), where each run whose environment has an image gets a container; then name that "
        "as the target",
    )
