"""A script, its folder and how to run it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from ..core.errors import RunConfigurationException, UserErrorException
from ..core.nearest import suggest
from ..core.resources import Resources
from ..core.targets import CONTAINER_INSTANCE
from .environment import Environment
from .environment_spec import interpreter_of, is_plain, specification
from .late import Late
from .run_configuration import DockerConfiguration, RunConfiguration

if TYPE_CHECKING:
    from . import container_instance, distributed_job
else:
    container_instance = Late("container_instance")
    distributed_job = Late("distributed_job")

_FRAMEWORKS = ("python", "pytorch", "tensorflow")


class ScriptRunConfig:
    """A script with its source directory and configuration.

    >>> config = ScriptRunConfig(
    ...     source_directory="src",
    ...     script="train.py",
    ...     arguments=["--alpha", 0.1],
    ...     compute_target="local",
    ...     resources={"cpu": 2, "memory": "4GB"},
    ... )

    ``command`` (a shell command, or a list of words) takes the place of ``script``.
    ``distributed_job_config`` asks for many processes and nodes: a ``PyTorchConfiguration``,
    ``MpiConfiguration`` or ``TensorflowConfiguration``.
    """

    def __init__(
        self,
        source_directory: Any = ".",
        script: Optional[str] = None,
        arguments: Any = None,
        run_config: Optional[RunConfiguration] = None,
        _telemetry_values: Any = None,
        compute_target: Any = None,
        environment: Optional[Environment] = None,
        distributed_job_config: Any = None,
        resume_from: Any = None,
        max_run_duration_seconds: Optional[float] = None,
        command: Union[str, Sequence[Any], None] = None,
        docker_runtime_config: Optional[DockerConfiguration] = None,
        resources: Union[Resources, Mapping[str, Any], None] = None,
    ) -> None:
        overrides = {
            "target": compute_target,
            "environment": environment,
            "max_run_duration_seconds": max_run_duration_seconds,
            "docker": docker_runtime_config,
            "resources": resources,
        }
        self.source_directory = os.fspath(source_directory or ".")
        self.run_config = _with(run_config, overrides)
        self.script = script if script is not None else self.run_config.script
        self.arguments = arguments if arguments is not None else self.run_config.arguments
        self.command = command if command is not None else self.run_config.command
        self.distributed_job_config = distributed_job_config
        self.resume_from = resume_from

    def to_spec(self) -> Dict[str, Any]:
        """What is asked of the server, checked as far as it can be here."""
        config = self.run_config
        _check_supported(self)
        spec: Dict[str, Any] = {
            "target": _target_name(config.target),
            "arguments": _texts("arguments", self.arguments),
            "environment": _environment(
                config.environment, config.docker, _target_name(config.target)
            ),
            "environment_variables": _variables(config.environment_variables),
            "resources": _resources(config.resources),
        }
        if spec["target"] == CONTAINER_INSTANCE:
            spec.update(container_instance.asked_for(config))
        spec.update(_processes(config, self.distributed_job_config))
        if config.priority is not None:
            spec["priority"] = _count("priority", config.priority)
        if config.max_run_duration_seconds is not None:
            spec["max_run_duration_s"] = config.max_run_duration_seconds
        command = self.command
        if command is not None and not isinstance(command, str):
            command = _texts("command", command)
        if command and (not isinstance(command, str) or command.strip()):
            if self.script:
                raise RunConfigurationException(
                    f"both script {self.script!r} and a command are given", hint="give one of them"
                )
            spec["command"] = command
        else:
            spec["script"] = script_path(self.source_directory, self.script)
        return spec

    def __repr__(self) -> str:
        what = f"command={self.command!r}" if self.command else f"script={self.script!r}"
        target = _target_name(self.run_config.target)
        return f"ScriptRunConfig({self.source_directory!r}, {what}, compute_target={target!r})"


def script_path(directory: str, script: Optional[str]) -> str:
    """The script's path inside the source directory, or an error that says what is missing."""
    if not os.path.isdir(directory):
        problem = "is not a directory" if os.path.exists(directory) else "does not exist"
        raise UserErrorException(f"the source directory {directory!r} {problem}")
    if not script:
        raise RunConfigurationException(
            "there is nothing to run", hint="give script='train.py' or command='...'"
        )
    root = os.path.realpath(directory)
    path = os.path.join(root, os.fspath(script))
    relative = os.path.relpath(path, root)
    if relative.split(os.sep)[0] == os.pardir:
        # The same file may be reachable through a link.
        relative = os.path.relpath(os.path.realpath(path), root)
    if relative.split(os.sep)[0] == os.pardir:
        raise UserErrorException(
            f"script {script!r} is outside the source directory {directory!r}",
            hint="make the source directory a folder that contains it",
        )
    if os.path.isdir(path):
        raise UserErrorException(f"script {script!r} is a folder", hint="name the script in it")
    if not os.path.isfile(path):
        there = [name for name in os.listdir(root) if name.endswith((".py", ".sh"))]
        raise UserErrorException(
            f"there is no script {script!r} in {directory!r}{suggest(str(script), there)}"
        )
    return relative.replace(os.sep, "/")


def _with(config: Optional[RunConfiguration], overrides: Mapping[str, Any]) -> RunConfiguration:
    """The user's configuration, or a copy of it where something else is asked for here."""
    given = {name: value for name, value in overrides.items() if value is not None}
    if config is not None and not given:
        return config
    import copy

    config = RunConfiguration() if config is None else copy.copy(config)
    for name, value in given.items():
        setattr(config, name, value)
    return config


def _check_supported(config: ScriptRunConfig) -> None:
    run_config = config.run_config
    if str(run_config.framework).lower() not in _FRAMEWORKS:
        raise _unsupported(f"framework {run_config.framework!r}")
    if config.resume_from is not None:
        raise _unsupported("resume_from")


def _processes(config: RunConfiguration, job: Any) -> Dict[str, Any]:
    alone = config.node_count == 1 and str(config.communicator or "None").lower() == "none"
    return {} if job is None and alone else distributed_job.asked_for(config, job)


def _unsupported(what: str) -> RunConfigurationException:
    return RunConfigurationException(
        f"the run configuration asks for {what}, which this version cannot do yet"
    )


def _count(name: str, value: Any, least: Optional[int] = None) -> int:
    """A whole number; text is taken as well, as from variables of the environment."""
    try:
        found = int(str(value).strip())
    except ValueError:
        found = None
    if found is None or isinstance(value, bool) or (least is not None and found < least):
        above = "" if least is None else f" from {least} on"
        raise RunConfigurationException(f"{name} is {value!r}, not a whole number{above}")
    return found


def _target_name(target: Any) -> str:
    return str(getattr(target, "name", target) or "local")


def _environment(
    environment: Environment, container: Optional[DockerConfiguration], target: str
) -> Dict[str, Any]:
    if target == CONTAINER_INSTANCE:
        container = container_instance.container_of(environment, container)
    plain = is_plain(environment, container)
    body: Dict[str, Any] = {
        "name": environment.name,
        "python": _interpreter(environment, target) if plain else {},
        "environment_variables": _variables(environment.environment_variables),
    }
    if environment.version:
        body["version"] = environment.version
    if not plain:
        spec = specification(environment, container)
        spec.pop("variables", None)
        body["specification"] = spec
    return body


def _interpreter(environment: Environment, target: str) -> Dict[str, Any]:
    """What nobody asked for in words says so: another machine has an interpreter of its own."""
    written = os.fspath(environment.python.interpreter_path or "python")
    if target == "local":
        return {"interpreter_path": interpreter_of(environment)}
    if written == "python" or environment.python._implied:
        return {"interpreter_path": interpreter_of(environment), "implied": True}
    return {"interpreter_path": written}


def _resources(wanted: Union[Resources, Mapping[str, Any], None]) -> Dict[str, Any]:
    if not isinstance(wanted, Resources):
        wanted = Resources.parse(wanted)
    return {"cpu": wanted.cpu, "memory_bytes": wanted.memory_bytes, "gpu": wanted.gpu}


def _texts(name: str, values: Any) -> List[str]:
    if isinstance(values, str):
        try:
            return shlex.split(values)
        except ValueError as error:
            raise UserErrorException(
                f"{name} cannot be split into words: {str(error).lower()}",
                hint="give a list of them",
            ) from None
    if values is not None and not isinstance(values, (list, tuple)):
        raise UserErrorException(f"{name} must be a list, not {type(values).__name__}")
    return [_text(f"{name}[{position}]", value) for position, value in enumerate(values or [])]


def _text(name: str, value: Any) -> str:
    if value is None:
        raise UserErrorException(f"{name} is None", hint="leave it out, or write the text 'None'")
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UserErrorException(f"{name} is not text: {text!r}") from None
    return text


def _variables(variables: Any) -> Dict[str, str]:
    if variables is not None and not isinstance(variables, Mapping):
        raise UserErrorException(
            f"environment_variables must be a dict, not {type(variables).__name__}"
        )
    found = {}
    for name, value in (variables or {}).items():
        if value is None:
            raise UserErrorException(f"environment variable {name!r} is None", hint="leave it out")
        found[str(name)] = str(value)
    return found
