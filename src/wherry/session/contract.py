"""What the server tells a session."""

from __future__ import annotations

from json import loads
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from wherry.core.sessions import VARIABLE

_MINUTES = 15


class Script(NamedTuple):
    """A shell script of the person's, its arguments as one line, and how long it may take."""

    content: str
    arguments: str = ""
    timeout_minutes: float = _MINUTES


class Kernel(NamedTuple):
    """A registered environment that notebooks may run in."""

    name: str
    version: str
    specification: Dict[str, Any]

    def __str__(self) -> str:
        return f"environment {self.name!r} version {self.version}"


class Contract(NamedTuple):
    """``token`` is the instance's, ``jupyter_token`` opens JupyterLab alone; ``notices`` are for
    the log.
    """

    instance: str
    workspace: str
    home: str
    base_url: str
    jupyter_token: str
    token: str
    create: bool
    creation_script: Optional[Script]
    startup_script: Optional[Script]
    gpus: List[str]
    kernels: List[Kernel]
    notices: List[str]


def read(text: str) -> Contract:
    """Raises ``ValueError`` with a sentence."""
    fields = loads(text) if text else None
    if not isinstance(fields, dict):
        raise ValueError(f"{VARIABLE} does not hold a JSON object")  # noqa: TRY004
    if not fields.get("jupyter_token"):
        raise ValueError(f"{VARIABLE} names no token for JupyterLab")  # it would let anybody in
    return Contract(
        instance=str(fields.get("instance") or "instance"),
        workspace=str(fields.get("workspace") or ""),
        home=str(fields.get("home") or ""),
        base_url=_slashed(str(fields.get("base_url") or "/")),
        jupyter_token=str(fields["jupyter_token"]),
        token=str(fields.get("token") or ""),
        create=bool(fields.get("create")),
        creation_script=_script(fields.get("creation_script")),
        startup_script=_script(fields.get("startup_script")),
        gpus=[str(each) for each in fields.get("gpus") or []],
        kernels=[_kernel(each) for each in fields.get("kernels") or []],
        notices=[str(each) for each in fields.get("notices") or []],
    )


def _slashed(path: str) -> str:
    return "/" + path.strip("/") + "/" if path.strip("/") else "/"


def _script(fields: Any) -> Optional[Script]:
    if not isinstance(fields, Mapping) or not str(fields.get("content") or "").strip():
        return None
    return Script(
        content=str(fields["content"]),
        arguments=str(fields.get("arguments") or ""),
        timeout_minutes=float(fields.get("timeout_minutes") or _MINUTES),
    )


def _kernel(fields: Mapping[str, Any]) -> Kernel:
    specification = dict(fields.get("specification") or {})
    return Kernel(str(fields["name"]), str(fields.get("version") or ""), specification)
