"""What is known of the image of a registered environment, in Azure ML's words."""

from __future__ import annotations

from typing import Any, Dict

import wherry  # the lazy surface: see run.py


class DockerImageDetails(Dict[str, Any]):
    """A dict with Azure ML's keys. Images are made on each node, and pushed to no registry."""

    @property
    def dockerfile(self) -> Any:
        return self["ingredients"]["dockerfile"]


def details(environment: wherry.Environment) -> DockerImageDetails:
    docker, python = environment.docker, environment.python
    registry = docker.base_image_registry
    packages = None if python.user_managed_dependencies else python.conda_dependencies.as_dict()
    return DockerImageDetails(
        name=environment.name,
        version=environment.version,
        dockerImage={
            "name": docker.base_image if docker.enabled else None,
            "registry": {"address": registry.address, "username": registry.username},
        },
        imageExistsInRegistry=bool(docker.enabled and docker.base_image and packages is None),
        pythonEnvironment={"interpreterPath": python.interpreter_path},
        environmentVariables=dict(environment.environment_variables),
        ingredients={
            "dockerfile": docker.base_dockerfile if docker.enabled else None,
            "condaSpecification": packages,
        },
    )
