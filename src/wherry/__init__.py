"""Wherry carries a training script, unchanged, to whatever compute is at hand.

>>> from wherry import Workspace, Experiment, ScriptRunConfig
>>> ws = Workspace.create("demo", exist_ok=True)
>>> run = Experiment(ws, "first").submit(ScriptRunConfig(source_directory=".", script="train.py"))
>>> run.wait_for_completion(show_output=True)

Names load when they are first used: ``import wherry`` itself costs next to nothing.
"""

import sys as _sys

if _sys.version_info < (3, 8):  # noqa: UP036  (said so that Python 3.6 can read it)
    raise ImportError(
        f"wherry needs Python 3.8 or newer, and this is {_sys.version_info[0]}."
        f"{_sys.version_info[1]}: ask for a newer one in the environment of the run"
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from .core.errors import (
        ActivityCanceledException,
        ActivityFailedException,
        AuthenticationException,
        ComputeTargetException,
        ConflictError,
        ExperimentExecutionException,
        ForbiddenError,
        LaunchRefusedError,
        NodeUnavailableError,
        NotFoundError,
        RunConfigurationException,
        RunEnvironmentException,
        ServerUnavailableError,
        SnapshotException,
        TargetUnavailableError,
        TooLargeError,
        TooSlowError,
        TrainingException,
        UserErrorException,
        VersionMismatchError,
        WherryError,
        WorkspaceException,
        WrongHostError,
    )
    from .core.resources import Resources
    from .core.version import VERSION as __version__
    from .sdk.compute.amlcompute import AmlCompute
    from .sdk.compute.batchai import BatchAiCompute
    from .sdk.compute.instance import ComputeInstance
    from .sdk.compute.machine import DsvmCompute, RemoteCompute
    from .sdk.compute.target import ComputeTarget
    from .sdk.conda_dependencies import CondaDependencies
    from .sdk.environment import Environment
    from .sdk.environment_build import ImageBuildDetails
    from .sdk.environment_sections import ContainerRegistry, DockerBuildContext
    from .sdk.environment_yaml import load_environment
    from .sdk.experiment import Experiment
    from .sdk.run import Run, get_run
    from .sdk.run_config_sections import (
        DataReferenceConfiguration,
        MpiConfiguration,
        PyTorchConfiguration,
        TensorflowConfiguration,
    )
    from .sdk.run_configuration import (
        DEFAULT_CPU_IMAGE,
        DEFAULT_GPU_IMAGE,
        DockerConfiguration,
        RunConfiguration,
    )
    from .sdk.script_run_config import ScriptRunConfig
    from .sdk.widgets import RunDetails
    from .sdk.workspace import Workspace

__all__ = [
    "DEFAULT_CPU_IMAGE",
    "DEFAULT_GPU_IMAGE",
    "ActivityCanceledException",
    "ActivityFailedException",
    "AmlCompute",
    "AuthenticationException",
    "BatchAiCompute",
    "ComputeInstance",
    "ComputeTarget",
    "ComputeTargetException",
    "CondaDependencies",
    "ConflictError",
    "ContainerRegistry",
    "DataReferenceConfiguration",
    "DockerBuildContext",
    "DockerConfiguration",
    "DsvmCompute",
    "Environment",
    "Experiment",
    "ExperimentExecutionException",
    "ForbiddenError",
    "ImageBuildDetails",
    "LaunchRefusedError",
    "MpiConfiguration",
    "NodeUnavailableError",
    "NotFoundError",
    "PyTorchConfiguration",
    "RemoteCompute",
    "Resources",
    "Run",
    "RunConfiguration",
    "RunConfigurationException",
    "RunDetails",
    "RunEnvironmentException",
    "ScriptRunConfig",
    "ServerUnavailableError",
    "SnapshotException",
    "TargetUnavailableError",
    "TensorflowConfiguration",
    "TooLargeError",
    "TooSlowError",
    "TrainingException",
    "UserErrorException",
    "VersionMismatchError",
    "WherryError",
    "Workspace",
    "WorkspaceException",
    "WrongHostError",
    "__version__",
    "get_run",
    "load_environment",
]

_HOMES = {
    "DEFAULT_CPU_IMAGE": ".sdk.run_configuration",
    "DEFAULT_GPU_IMAGE": ".sdk.run_configuration",
    "AmlCompute": ".sdk.compute.amlcompute",
    "BatchAiCompute": ".sdk.compute.batchai",
    "ComputeInstance": ".sdk.compute.instance",
    "ComputeTarget": ".sdk.compute.target",
    "CondaDependencies": ".sdk.conda_dependencies",
    "ContainerRegistry": ".sdk.environment_sections",
    "DataReferenceConfiguration": ".sdk.run_config_sections",
    "DockerBuildContext": ".sdk.environment_sections",
    "DockerConfiguration": ".sdk.run_configuration",
    "DsvmCompute": ".sdk.compute.machine",
    "Environment": ".sdk.environment",
    "Experiment": ".sdk.experiment",
    "ImageBuildDetails": ".sdk.environment_build",
    "MpiConfiguration": ".sdk.run_config_sections",
    "PyTorchConfiguration": ".sdk.run_config_sections",
    "RemoteCompute": ".sdk.compute.machine",
    "Resources": ".core.resources",
    "Run": ".sdk.run",
    "RunConfiguration": ".sdk.run_configuration",
    "RunDetails": ".sdk.widgets",
    "ScriptRunConfig": ".sdk.script_run_config",
    "TensorflowConfiguration": ".sdk.run_config_sections",
    "Workspace": ".sdk.workspace",
    "get_run": ".sdk.run",
    "load_environment": ".sdk.environment_yaml",
}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'wherry' has no attribute {name!r}")
    from importlib import import_module

    if name == "__version__":
        value = import_module(".core.version", __name__).VERSION
    else:
        value = getattr(import_module(_HOMES.get(name, ".core.errors"), __name__), name)
    globals()[name] = value
    return value


def __dir__() -> "List[str]":
    return sorted({*globals(), *__all__})
