"""What a run configuration says of the container that is made for its run."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..core.errors import RunConfigurationException
from ..core.resources import Resources
from .environment import Environment
from .run_configuration import DockerConfiguration, RunConfiguration

_GB = 10**9


def asked_for(config: RunConfiguration) -> Dict[str, Any]:
    """Its region and its size: ``resources``, where something is said there, else the section's."""
    section = config.container_instance
    wanted = config.resources
    if not isinstance(wanted, Resources):
        wanted = Resources.parse(wanted)
    cpu, memory = wanted.cpu, wanted.memory_bytes
    if wanted == Resources():
        cpu = _number("cpu_cores", section.cpu_cores)
    if not memory:
        memory = int(_number("memory_gb", section.memory_gb) * _GB)
    return {
        "resources": {"cpu": cpu, "memory_bytes": memory, "gpu": wanted.gpu},
        "region": str(section.region or ""),
    }


def container_of(
    environment: Environment, container: Optional[DockerConfiguration]
) -> Optional[DockerConfiguration]:
    """A container whose image is named is asked for, whether it was enabled or not."""
    section = environment.docker
    if section.enabled or (container is not None and container.use_docker):
        return container
    if not (section.base_image or section.base_dockerfile or section.build_context):
        return container
    return DockerConfiguration(
        use_docker=True,
        shared_volumes=section.shared_volumes,
        arguments=section.arguments,
        shm_size=section.shm_size or "2g",
    )


def _number(name: str, value: Any) -> float:
    """Text is taken as well, as from variables of the environment."""
    try:
        found = float(str(value).strip())
    except ValueError:
        found = 0.0
    if isinstance(value, bool) or not 0 < found < 1e6:
        raise RunConfigurationException(
            f"container_instance.{name} is {value!r}, not a number above 0",
            hint=f"such as run_config.container_instance.{name} = 2",
        )
    return found
