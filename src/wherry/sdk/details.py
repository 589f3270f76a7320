"""``get_details()`` in Azure ML's keys, and the exception that a failed run raises."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping

from ..core.errors import ActivityFailedException


def details(record: Mapping[str, Any], names: Iterable[str], files_url: str) -> Dict[str, Any]:
    """What Azure ML's ``get_details`` returns, from a run's record and the names of its files."""
    found: Dict[str, Any] = {
        "runId": record["id"],
        "target": record.get("target"),
        "status": record["status"],
        "submittedTimeUtc": record.get("submitted_at"),
        "startTimeUtc": record.get("started_at"),
        "endTimeUtc": record.get("ended_at"),
        "message": record.get("message") or "",
        "properties": dict(record.get("properties") or {}),
        "tags": dict(record.get("tags") or {}),
        "inputDatasets": [],
        "outputDatasets": [],
        "runDefinition": definition(record.get("spec")),
        "logFiles": {
            name: f"{files_url}/{name}"
            for name in names
            if name.startswith(("user_logs/", "system_logs/", "azureml-logs/", "logs/"))
        },
        "submittedBy": record.get("submitted_by"),
    }
    if not found["endTimeUtc"]:
        del found["endTimeUtc"]
    if record.get("error"):
        found["error"] = error_of(record)
    return found


def error_of(record: Mapping[str, Any]) -> Dict[str, Any]:
    """Our fields (``message``, ``exit_code``, ``exception``, ...) and Azure ML's nested form."""
    error = dict(record.get("error") or {})
    error.setdefault("message", record.get("message") or "the run failed")
    error["error"] = {"code": error.get("code", "UserError"), "message": error["message"]}
    return error


def failure(record: Mapping[str, Any], *, tail: bool) -> ActivityFailedException:
    """Why it failed, so that no log needs to be opened. ``tail``: with what it printed last."""
    error = error_of(record)
    parts = [f"run {record['id']} failed: {error['message']}"]
    source = str(error.get("source") or "").strip()
    if source:
        parts.append(f"    {source}")
    last = error.get("tail") if tail else None
    if last:
        lines: List[str] = last.splitlines() if isinstance(last, str) else list(last)
        parts.append("last output:\n" + "\n".join(f"    {line}" for line in lines[-15:]))
    return ActivityFailedException(
        "\n".join(parts),
        error_details=error,
        hint=f"the whole output: wherry logs {record['id']}",
        run_id=record["id"],
    )


def definition(spec: Any) -> Dict[str, Any]:
    """The specification in the keys of Azure ML's ``runDefinition``."""
    if not spec:
        return {}
    environment = spec.get("environment") or {}
    return {
        "script": spec.get("script") or None,
        "command": spec.get("command") or "",
        "useAbsolutePath": False,
        "arguments": list(spec.get("arguments") or []),
        "sourceDirectoryDataStore": None,
        "framework": "Python",
        "communicator": "None",
        "target": spec.get("target"),
        "dataReferences": {},
        "data": {},
        "outputData": {},
        "jobName": None,
        "maxRunDurationSeconds": spec.get("max_run_duration_s"),
        "nodeCount": spec.get("node_count") or 1,
        "priority": spec.get("priority"),
        "environment": _environment(environment),
        "environmentVariables": dict(spec.get("environment_variables") or {}),
        "history": {
            "outputCollection": True,
            "snapshotProject": True,
            "directoriesToWatch": ["logs"],
        },
        "resources": dict(spec.get("resources") or {}),
    }


def _environment(environment: Mapping[str, Any]) -> Dict[str, Any]:
    wanted = environment.get("specification") or {}
    python, docker = wanted.get("python") or {}, wanted.get("docker") or {}
    given = environment.get("python") or environment
    return {
        "name": environment.get("name") or None,
        "version": environment.get("version") or None,
        "python": {
            "interpreterPath": given.get("interpreter_path") or "python",
            "userManagedDependencies": bool(python.get("user_managed", True)),
            "condaDependencies": python.get("conda"),
        },
        "environmentVariables": dict(environment.get("environment_variables") or {}),
        "docker": {
            "enabled": bool(docker.get("enabled")),
            "baseImage": docker.get("image"),
            "baseDockerfile": docker.get("dockerfile"),
        },
    }
