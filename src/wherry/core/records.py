"""What the system returns: frozen facts, the same in Python and in JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional


@dataclass(frozen=True)
class Record:
    def to_dict(self) -> Dict[str, Any]:
        """For JSON: times as ISO-8601 in UTC."""
        return {name: _plain(value) for name, value in self.__dict__.items()}


@dataclass(frozen=True)
class Workspace(Record):
    id: str
    name: str
    description: str
    tags: Dict[str, str]
    created_at: datetime


@dataclass(frozen=True)
class Experiment(Record):
    id: str
    name: str
    workspace: str
    description: str
    tags: Dict[str, str]
    created_at: datetime
    archived_at: Optional[datetime] = None


@dataclass(frozen=True)
class Environment(Record):
    """A version of an environment. ``notice`` says what it stands in for."""

    name: str
    version: str
    workspace: str
    description: str
    tags: Dict[str, str]
    specification: Dict[str, Any]
    hash: str
    curated: bool
    created_by: str
    created_at: datetime
    labels: List[str] = field(default_factory=list)
    notice: Optional[str] = None


@dataclass(frozen=True)
class Wheel(Record):
    """A wheel that a workspace keeps. ``address`` stands for it in an environment's packages."""

    name: str
    digest: str
    size: int
    address: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class Run(Record):
    """A run as anyone may see it. ``status`` is the shown one: it may be ``CancelRequested``."""

    id: str
    number: int
    workspace: str
    experiment: str
    parent_id: Optional[str]
    root_id: str
    type: Optional[str]
    display_name: str
    description: str
    status: str
    reason: Optional[str]
    message: str
    error: Optional[Dict[str, Any]]
    target: Optional[str]
    snapshot_id: Optional[str]
    attempt: int
    submitted_by: str
    submitted_at: datetime
    started_at: Optional[datetime]
    ended_at: Optional[datetime]
    archived_at: Optional[datetime]
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    params: Dict[str, str] = field(default_factory=dict)
    spec: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class Event(Record):
    at: datetime
    from_status: Optional[str]
    to_status: str
    reason: Optional[str]
    message: str


@dataclass(frozen=True)
class RunFile(Record):
    path: str
    size: int
    digest: str
    modified_at: datetime


@dataclass(frozen=True)
class Page:
    items: List[Run]
    next_cursor: Optional[str] = None


def iso(moment: Optional[datetime]) -> Optional[str]:
    if moment is None:
        return None
    return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int)):  # most are, and a page has hundreds
        return value
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
