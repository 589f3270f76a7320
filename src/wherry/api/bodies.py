"""What requests may contain, checked at the edge."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from wherry.core.text import clean


def _plain(text: str) -> str:
    """Text that both databases, any JSON reader and any process can hold."""
    if clean(text) != text:
        raise ValueError("text cannot contain a NUL or half a surrogate pair")
    return text


def _decoded(text: object) -> bytes:
    """Bytes travel in JSON as base 64."""
    try:
        return a2b_base64(text if isinstance(text, str) else "?", strict_mode=True)
    except ValueError:
        raise ValueError("not base 64") from None


Decoded = Annotated[bytes, BeforeValidator(_decoded)]
Str = Annotated[str, AfterValidator(_plain)]
Text = Annotated[str, StringConstraints(max_length=10_000), AfterValidator(_plain)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(_plain)]
Key = Annotated[str, StringConstraints(max_length=255), AfterValidator(_plain)]
Labels = Annotated[dict[Label, Text], Field(max_length=1000)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Patience(BaseModel):
    """How someone waits for a run."""

    seen: str = ""
    until: Literal["change", "end"] = "change"
    timeout_s: float = Field(30, ge=0, le=300)


class NewWorkspace(Body):
    name: Str
    exist_ok: bool = False
    description: Text = ""
    tags: Labels = Field(default_factory=dict)


class NewExperiment(Body):
    name: Str


class ExperimentChanges(Body):
    archived: bool | None = None
    description: Text | None = None
    tags: Labels = Field(default_factory=dict)
    remove_tags: list[Label] = Field(default_factory=list)


class PythonSection(Body):
    """``implied``: nobody asked for this one in words; another machine has its own."""

    interpreter_path: Text = ""
    implied: bool = False


class EnvironmentBody(Body):
    """An interpreter; or a specification of what to prepare; or a reference to a registered one."""

    name: Text = ""
    version: Key = ""
    python: PythonSection = Field(default_factory=PythonSection)
    environment_variables: dict[Str, Str] = Field(default_factory=dict)
    specification: dict[str, Any] | None = None
    reference: Key | None = None


class NewEnvironment(Body):
    name: Str
    version: Key | None = None
    description: Text = ""
    tags: Labels = Field(default_factory=dict)
    specification: dict[str, Any]


class LabelledVersion(Body):
    version: Key


class NewWheel(Body):
    name: Key
    digest: Key
    size: Annotated[int, Field(ge=0, le=2**60)]
    exist_ok: bool = False


class NewSite(Body):
    kind: Str
    config: dict[str, Any]
    secrets: dict[Str, Text] = Field(default_factory=dict)


class SiteChanges(Body):
    config: dict[str, Any] = Field(default_factory=dict)
    secrets: dict[Str, Text] = Field(default_factory=dict)


class NewCompute(Body):
    """``type`` is Azure's word; ``kind``, if any, is ours for it."""

    type: Str
    kind: Str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    secrets: dict[Str, Text] = Field(default_factory=dict)
    tags: Labels = Field(default_factory=dict)
    description: Text = ""


class ComputeChanges(Body):
    config: dict[str, Any] = Field(default_factory=dict)
    secrets: dict[Str, Text] = Field(default_factory=dict)
    tags: Labels = Field(default_factory=dict)
    remove_tags: list[Label] = Field(default_factory=list)
    description: Text | None = None


class Eviction(Body):
    """The node that is taken away, by its id or name; without one, one that has a run."""

    node: Key | None = None


class Login(Body):
    """A public key of SSH, as in a file that ends with ``.pub``, and how long it is to open."""

    public_key: Text
    seconds: int = Field(300, ge=60, le=86_400)


class ResourcesBody(Body):
    cpu: float = 1.0
    memory_bytes: int = 0
    gpu: int = 0


class NewRun(Body):
    experiment: Str
    display_name: Text = ""
    description: Text = ""
    tags: Labels = Field(default_factory=dict)
    properties: Labels = Field(default_factory=dict)
    parent_id: Str | None = None
    target: Str = "local"
    script: Str = ""
    arguments: list[Str] = Field(default_factory=list)
    command: Str | list[Str] = ""
    environment: EnvironmentBody = Field(default_factory=EnvironmentBody)
    environment_variables: dict[Str, Str] = Field(default_factory=dict)
    snapshot_id: Str = ""
    resources: ResourcesBody = Field(default_factory=ResourcesBody)
    node_count: int = 1
    priority: int = 0
    distribution: dict[str, Any] | None = None
    max_run_duration_s: float | None = None
    submission_key: Key | None = None
    region: Str = ""


class NewRuns(Body):
    runs: Annotated[list[NewRun], Field(min_length=1, max_length=10_000)]


class NewInteractiveRun(Body):
    experiment: Str
    run_id: Str | None = None
    parent_id: Str | None = None
    display_name: Text = ""
    snapshot_id: Str | None = None
    tags: Labels = Field(default_factory=dict)
    properties: Labels = Field(default_factory=dict)


class RunChanges(Body):
    display_name: Text | None = None
    description: Text | None = None
    tags: Labels = Field(default_factory=dict)
    remove_tags: list[Label] = Field(default_factory=list)
    properties: Labels = Field(default_factory=dict)
    archived: bool | None = None


class RunEnd(Body):
    status: Literal["Completed", "Failed", "Canceled"]
    error: dict[str, Any] | None = None


class LogPiece(Body):
    offset: int = Field(ge=0, le=2**63 - 1)
    data: Decoded


class Report(Body):
    stage: Literal["preparing", "running", "finalizing"] | None = None
    exit: dict[str, Any] | None = None
    host: Str | None = None
    pid: int | None = None
    message: Str | None = None
    log: LogPiece | None = None
    ports: Annotated[list[Annotated[int, Field(ge=1, le=65535)]], Field(max_length=300)] | None = (
        None
    )


class FileNames(Body):
    paths: Annotated[list[str], Field(max_length=1000)]


class SnapshotFile(Body):
    path: str
    digest: str = ""
    size: int = 0
    mode: int = 0o644
    link: str | None = None


class NewSnapshot(Body):
    """All files; or, from a ``base`` that the workspace has, what leads to snapshot ``id``."""

    files: list[SnapshotFile]
    base: Str | None = None
    id: Str = ""
    removed: list[str] = Field(default_factory=list)
    contents: list[Decoded] = Field(default_factory=list)
