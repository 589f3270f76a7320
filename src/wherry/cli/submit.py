"""From a configuration to a run that is watched, left alone, or only described."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ..core.sizes import format_bytes
from ..sdk import submission
from ..sdk.run import Run
from ..sdk.script_run_config import ScriptRunConfig
from . import follow
from .output import count, emit
from .progress import Progress, sending
from .session import Session


def submit(
    session: Session, experiment: str, config: ScriptRunConfig, labels: Mapping[str, Any]
) -> Run:
    """The new run; what takes long on the way shows how far it is."""
    workspace = session.workspace
    with Progress(session, "reading files") as progress:
        record = submission.submit(
            sending(session.client, progress),
            workspace.name,
            experiment,
            config,
            session.settings,
            labels,
        )
    session.say(f"run {record['id']} submitted to {record['target']}")
    return workspace.get_run(record["id"])


def watch(session: Session, run: Run) -> None:
    """Show its output and end as it ends.

    Where a record is asked for as data, it goes to stdout and the output to stderr.
    """
    aside = session.asked_for_data
    record = follow.watch(session, run, to_stderr=aside)
    if aside:
        emit(session, record)
    follow.conclude(session, record, shown=aside or follow.seen_on_stdout())


def leave(session: Session, run: Run) -> None:
    """The id, or the record where data is asked for."""
    if session.asked_for_data:
        emit(session, run.record)
    else:
        session.write(run.id)


def describe(
    session: Session, experiment: str, config: ScriptRunConfig, labels: Mapping[str, Any]
) -> None:
    """What would be executed, with which files. Nothing is sent or stored."""
    plan = submission.plan(session.client, session.workspace.name, experiment, config)
    spec = config.to_spec()
    include = [spec["script"]] if spec.get("script") else []
    with Progress(session, "reading files"):
        snapshot = submission.capture(
            config.source_directory, session.settings, include, remind=True
        )
    described: Dict[str, Any] = {
        "workspace": session.workspace.name,
        "experiment": experiment,
        "display_name": labels.get("display_name") or "",
        "tags": dict(labels.get("tags") or {}),
        "source": snapshot.directory,
        "files": {"count": len(snapshot.files), "size": snapshot.size},
        **plan,
    }
    if session.output == "table" and session.query is None:
        session.write("\n".join(_described(described)))
    else:
        emit(session, described)


def _described(plan: Mapping[str, Any]) -> List[str]:
    from .run_view import pairs

    files = plan["files"]
    facts = [
        ("target", plan["target"]),
        ("workspace", plan["workspace"]),
        ("experiment", plan["experiment"]),
        ("name", plan["display_name"]),
        ("tags", pairs(plan["tags"])),
        ("source", plan["source"]),
        ("files", f"{count(files['count'], 'file')}, {format_bytes(files['size'])}"),
        ("resources", plan.get("resources")),
        ("variables", pairs(plan.get("environment_variables"))),
    ]
    lines = [f"{name:<13}{value}" for name, value in facts if value]
    return [*lines, "", "command:", *_indented(_words(plan["argv"])), "", *_rendered(plan)]


def _rendered(plan: Mapping[str, Any]) -> List[str]:
    lines = str(plan.get("rendered") or "").splitlines()
    return (
        [f"what target {plan['target']} would start:", *_indented("\n".join(lines))]
        if lines
        else []
    )


def _words(argv: List[str]) -> str:
    import shlex

    return " ".join(shlex.quote(word) for word in argv)


def _indented(text: str) -> List[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]
