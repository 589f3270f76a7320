"""What requests may contain, checked at the edge."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(max_length=10_000)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Labels = dict[Label, Text]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewWorkspace(Body):
    name: str
    exist_ok: bool = False
    description: Text = ""
    tags: Labels = Field(default_factory=dict)


class NewExperiment(Body):
    name: str


class ExperimentChanges(Body):
    archived: bool | None = None
    description: Text | None = None
    tags: Labels = Field(default_factory=dict)
    remove_tags: list[Label] = Field(default_factory=list)


class PythonSection(Body):
    interpreter_path: Text = ""


class EnvironmentBody(Body):
    name: Text = ""
    python: PythonSection = Field(default_factory=PythonSection)
    environment_variables: dict[str, str] = Field(default_factory=dict)


class ResourcesBody(Body):
    cpu: float = 1.0
    memory_bytes: int = 0
    gpu: int = 0


class NewRun(Body):
    experiment: str
    display_name: Text = ""
    description: Text = ""
    tags: Labels = Field(default_factory=dict)
    properties: Labels = Field(default_factory=dict)
    parent_id: str | None = None
    target: str = "local"
    script: str = ""
    arguments: list[str] = Field(default_factory=list)
    command: str | list[str] = ""
    environment: EnvironmentBody = Field(default_factory=EnvironmentBody)
    environment_variables: dict[str, str] = Field(default_factory=dict)
    snapshot_id: str = ""
    resources: ResourcesBody = Field(default_factory=ResourcesBody)
    max_run_duration_s: float | None = None
    submission_key: Annotated[str, StringConstraints(max_length=255)] | None = None


class NewInteractiveRun(Body):
    experiment: str
    run_id: str | None = None
    parent_id: str | None = None
    display_name: Text = ""
    snapshot_id: str | None = None
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


class Report(Body):
    stage: Literal["preparing", "running", "finalizing"] | None = None
    exit: dict[str, Any] | None = None
    host: str | None = None
    pid: int | None = None
    message: str | None = None


class SnapshotFile(Body):
    path: str
    digest: str = ""
    size: int = 0
    mode: int = 0o644
    link: str | None = None


class NewSnapshot(Body):
    files: list[SnapshotFile]
