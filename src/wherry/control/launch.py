"""From an attempt to what a driver starts: the runner, its manifest, its token."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wherry.core.errors import LaunchRefusedError, WherryError
from wherry.core.manifest import Manifest
from wherry.core.placement import Placement
from wherry.core.sessions import SESSION
from wherry.core.sizes import parse_bytes
from wherry.core.specs import RunSpec
from wherry.drivers.base import Launch, Reach, Remote
from wherry.store import nodes

from . import attempt_tokens, bundle, container_instances, sealing, snapshots
from .compute_checks import misfit
from .plane import Plane
from .rank_facts import number_of, ranks

PREEMPTION_GRACE_S = 30.0


def build(plane: Plane, run: Any, attempt_id: str, place: Placement) -> Launch:
    """``run`` is a row with its experiment's and workspace's names."""
    spec = RunSpec.stored(sealing.opened(plane.secret, run.id, run.spec))
    if place.node and not spec.resources.fits(place.resources):  # of a host that told it just now
        raise LaunchRefusedError(misfit(spec, place.resources))
    reach = reach_of(plane, run.target, place.node)
    names = _names(reach.server, run)
    given = {
        "snapshot": _snapshot(plane, spec.snapshot_id),
        "attempt": number_of(run),
        "ranks": ranks(plane, run, spec, place),
    }
    if run.type == SESSION:
        place = _with_all_gpus(plane, place)
    return describe(plane, spec, run.id, attempt_id, place, names, reach, given)


def describe(
    plane: Plane,
    spec: RunSpec,
    run_id: str,
    attempt_id: str,
    place: Placement,
    names: dict[str, str],
    reach: Reach,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Launch:
    """``given`` are more fields of the manifest."""
    manifest = Manifest(
        run_id=run_id,
        attempt_id=attempt_id,
        server=reach.server,
        server_file=reach.server_file,
        server_id=plane.server_id,
        tunnel=not reach.here,
        token=attempt_tokens.make(plane, attempt_id, run_id),
        snapshot_id=spec.snapshot_id,
        argv=argv(spec, reach),
        env={**names, **_user_variables(spec), **_devices(place)},
        environment=_environment(plane, spec),
        time_limit_s=spec.max_run_duration_s,
        grace_s=_grace_s(plane, place),
        limits=container_instances.limits(spec, place.resources),
        **given,
    )
    return Launch(
        attempt_id=attempt_id,
        argv=bundle.command(reach.python),
        resources=place.resources,
        files={"manifest.json": json.dumps(manifest.__dict__).encode()},
        program=bundle.files(),
        nursery=bundle.nursery(reach.python),
        time_limit_s=spec.max_run_duration_s,
        node=place.node,
    )


def reach_of(plane: Plane, target: str, node: str = "") -> Reach:
    """What a runner there is told; raises ``TargetUnavailableError`` where nobody can be told."""
    driver: object = plane.drivers.get(target)
    if isinstance(driver, Remote) and (reach := driver.reach(node)) is not None:
        return reach
    server_file = str(Path(plane.settings.home) / "server.json")
    return Reach(plane.url, server_file, sys.executable, here=True)


def _snapshot(plane: Plane, snapshot_id: str) -> str:
    """A small one goes along; for a large one the runner asks."""
    try:
        archive = snapshots.small_archive(plane, snapshot_id)
    except WherryError:
        return ""  # the runner will meet the same and say so
    return b64encode(archive).decode() if archive is not None else ""


def argv(spec: RunSpec, reach: Reach) -> list[str]:
    """The command as the node executes it."""
    wanted = spec.environment
    if isinstance(spec.command, str) and spec.command:
        return ["/bin/sh", "-c", " ".join([spec.command, *spec.arguments])]
    if spec.command:
        return [*spec.command, *spec.arguments]
    own = "python3" if reach.here or _is_made(wanted.specification) else reach.python
    implied = wanted.interpreter_implied and not reach.here
    interpreter = own if implied else wanted.interpreter_path or own
    return [interpreter, spec.script, *spec.arguments]


def _is_made(specification: Mapping[str, Any] | None) -> bool:
    """Whether the node makes what the script runs in: then it has the interpreter of that."""
    spec = specification or {}
    packages = not (spec.get("python") or {}).get("user_managed", True)
    return packages or bool((spec.get("docker") or {}).get("enabled"))


def _names(server: str, run: Any) -> dict[str, str]:
    """What Azure ML's and MLflow's own clients look for."""
    return {
        "WHERRY_WORKSPACE": run.workspace,
        "WHERRY_EXPERIMENT": run.experiment,
        "AZUREML_ARM_SUBSCRIPTION": "wherry",
        "AZUREML_ARM_RESOURCEGROUP": "wherry",
        "AZUREML_ARM_WORKSPACE_NAME": run.workspace,
        "AZUREML_ARM_PROJECT_NAME": run.experiment,
        "AZUREML_EXPERIMENT_ID": run.experiment_id,
        "AZUREML_WORKSPACE_ID": run.workspace_id,
        "AZUREML_RUN_TOKEN_EXPIRY": "253402300799",
        "MLFLOW_TRACKING_URI": f"{server}/mlflow/{run.workspace}",
        "MLFLOW_EXPERIMENT_ID": run.experiment_id,
        "MLFLOW_EXPERIMENT_NAME": run.experiment,
        "MLFLOW_RUN_ID": run.id,
    }


def _environment(plane: Plane, spec: RunSpec) -> dict[str, Any] | None:
    """What the node prepares before the command starts, and what room there is for it."""
    wanted, settings = spec.environment, plane.settings
    if wanted.specification is None:
        return None
    python = {"resolver": settings.conda_resolver, **(wanted.specification.get("python") or {})}
    limit = parse_bytes(settings.environments_limit) if settings.environments_limit else None
    names = {"name": wanted.name, "version": wanted.version}
    return {**names, **wanted.specification, "python": python, "limit": limit}


def _user_variables(spec: RunSpec) -> dict[str, str]:
    return {**spec.environment.environment_variables, **spec.environment_variables}


def _grace_s(plane: Plane, place: Placement) -> float:
    """A node may be wanted for another run, which leaves more time than a cancel."""
    asked = plane.settings.cancel_grace_s
    return max(asked, PREEMPTION_GRACE_S) if place.node else asked


def _with_all_gpus(plane: Plane, place: Placement) -> Placement:
    """A session holds none of its node, and may use what is there."""
    with plane.database.read() as connection:
        node = nodes.find(connection, place.node)
    return replace(place, gpus=tuple(node.gpus)) if node is not None else place


def _devices(place: Placement) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(place.gpus)}
