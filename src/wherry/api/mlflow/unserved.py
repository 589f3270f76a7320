"""What Wherry does not serve, said so."""

from __future__ import annotations

from wherry.core.errors import NotFoundError, WherryError

_UNSERVED = {
    "traces": "traces",
    "assessments": "assessments of traces",
    "prompts": "prompts",
    "prompt-optimization": "prompts",
    "gateway": "the AI gateway",
    "gateway-proxy": "the AI gateway",
    "scorers": "scorers",
    "webhooks": "webhooks",
    "datasets": "evaluation datasets",
    "label-schemas": "label schemas",
    "review-queues": "review queues",
    "issues": "issues",
    "jobs": "jobs of the MLflow server",
    "workspaces": "workspaces of the MLflow server",
    "artifacts": "addresses that are signed beforehand",
    "users": "users of the MLflow server",
}


class UnservedError(WherryError):
    """The server does not have this part of MLflow."""

    code = "NotImplemented"
    http_status = 501


def error(method: str, path: str) -> WherryError:
    """For a request that nothing answers."""
    _, _, rest = path.partition("/mlflow/")
    what = _UNSERVED.get(rest.partition("/")[0])
    if what is None:
        return NotFoundError(f"there is nothing at {path} for {method}")
    return UnservedError(
        f"Wherry does not serve {what} of MLflow",
        hint="it serves experiments, runs, metrics, artifacts and models",
    )
