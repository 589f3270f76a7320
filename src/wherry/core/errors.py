"""The whole tree of errors, with the code, HTTP status and exit code of each."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class WherryError(Exception):
    """Something went wrong."""

    code = "error"
    http_status = 500
    exit_code = 1

    def __init__(
        self, message: Optional[str] = None, *, hint: Optional[str] = None, **fields: Any
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip().rstrip(".")
        self.hint = hint
        self.fields = fields
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message

    def problem(self) -> Dict[str, Any]:
        """The body of an HTTP error (RFC 9457)."""
        body: Dict[str, Any] = {
            "type": f"urn:wherry:error:{self.code}",
            "code": self.code,
            "status": self.http_status,
            "detail": self.message,
        }
        if self.hint:
            body["hint"] = self.hint
        if self.fields:
            body["fields"] = self.fields
        return body


class UserErrorException(WherryError):
    """The request cannot be carried out as written."""

    code = "invalid_input"
    http_status = 400


class NotFoundError(UserErrorException):
    """There is no such thing."""

    code = "not_found"
    http_status = 404


class ConflictError(UserErrorException):
    """The request does not fit the present state."""

    code = "conflict"
    http_status = 409


class TooLargeError(UserErrorException):
    """The request is too large."""

    code = "too_large"
    http_status = 413


class TooSlowError(UserErrorException):
    """The request came too slowly."""

    code = "too_slow"
    http_status = 408


class AuthenticationException(UserErrorException):
    """The token is missing or not valid."""

    code = "unauthenticated"
    http_status = 401


class ForbiddenError(UserErrorException):
    """The token does not allow this."""

    code = "forbidden"
    http_status = 403


class WrongHostError(UserErrorException):
    """The server does not answer under this name."""

    code = "wrong_host"
    http_status = 421


class VersionMismatchError(WherryError):
    """The client and the server speak different versions."""

    code = "version_mismatch"
    http_status = 426
    exit_code = 4


class ServerUnavailableError(WherryError):
    """The server cannot be reached."""

    code = "server_unavailable"
    http_status = 503
    exit_code = 4


class TargetUnavailableError(WherryError):
    """The compute target cannot be reached."""

    code = "target_unavailable"
    http_status = 503


class NodeUnavailableError(TargetUnavailableError):
    """One node of the compute target cannot be reached."""

    code = "node_unavailable"


class LaunchRefusedError(WherryError):
    """The compute target refused to start the run."""

    code = "launch_refused"
    http_status = 400


class WorkspaceException(WherryError):
    """The workspace cannot be used."""

    code = "workspace"
    http_status = 400


class ComputeTargetException(WherryError):
    """The compute target cannot be used."""

    code = "compute_target"
    http_status = 400


class SnapshotException(WherryError):
    """The source directory cannot be captured."""

    code = "snapshot"
    http_status = 400


class RunConfigurationException(WherryError):
    """The run configuration is not valid."""

    code = "run_configuration"
    http_status = 400


class RunEnvironmentException(WherryError):
    """The code does not run inside a run."""

    code = "run_environment"
    http_status = 400


class TrainingException(WherryError):
    """The training could not be carried out."""

    code = "training"
    http_status = 400


class ExperimentExecutionException(TrainingException):
    """The run could not be watched to its end."""

    code = "experiment_execution"


class ActivityFailedException(WherryError):
    """The run failed."""

    code = "run_failed"
    exit_code = 3

    def __init__(
        self,
        message: Optional[str] = None,
        *,
        error_details: Optional[Dict[str, Any]] = None,
        hint: Optional[str] = None,
        **fields: Any,
    ) -> None:
        super().__init__(message, hint=hint, **fields)
        self.error_details = error_details or {}


class ActivityCanceledException(WherryError):
    """The run was canceled."""

    code = "run_canceled"
    exit_code = 3


def from_problem(body: Dict[str, Any]) -> WherryError:
    """The error that a server described, as the class it was raised with."""
    kind = _BY_CODE.get(str(body.get("code")), WherryError)
    fields = body.get("fields")
    return kind(
        str(body.get("detail") or kind.__doc__),
        hint=body.get("hint"),
        **(fields if isinstance(fields, dict) else {}),
    )


def _subclasses(kind: Type[WherryError]) -> Dict[str, Type[WherryError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found.update(_subclasses(child))
    return found


_BY_CODE = _subclasses(WherryError)
