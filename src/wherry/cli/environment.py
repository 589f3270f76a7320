"""``wherry environment``: what runs need installed, under names and versions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import click

from .command import Group, completing, pass_session, whole_number_option
from .duration import show_time
from .ending import Usage
from .environment_build import build, list_built, lock, prune
from .environment_label import label, unlabel
from .environment_wheel import add_wheel, list_wheels
from .options import Existing
from .output import emit
from .run_view import pairs as shown_pairs
from .session import Session
from .table import Column

if TYPE_CHECKING:
    from ..sdk.environment import Environment


@click.group(
    cls=Group,
    examples=[
        "wherry environment create -f environment.yml",
        "wherry environment list",
        "wherry environment show Wherry-sklearn",
        "wherry environment build Wherry-sklearn",
    ],
)
def environment() -> None:
    """Register, build and prune environments.

    An environment says what a run needs: an interpreter, conda and pip packages, a container. It
    has a name; each content of it is a version, which never changes. Those that begin with Wherry-
    come along.
    """


for _command in (build, lock, list_built, prune, label, unlabel, add_wheel, list_wheels):
    environment.add_command(_command)


@environment.command(
    "create",
    examples=[
        "wherry environment create -f environment.yml",
        "wherry environment create -n train --conda-file conda.yml",
        "wherry environment create -n train --image python:3.11-slim --conda-file conda.yml",
        "wherry environment create -n mine --build-context docker",
    ],
)
@click.option(
    "-f",
    "--file",
    "path",
    type=Existing(folder=False),
    metavar="FILE",
    help="The environment, in the form of Azure ML's (CLI v2).",
)
@click.option("-n", "--name", help="Its name.")
@click.option("-v", "--version", help="Its version.  [default: the next number]")
@click.option("-i", "--image", metavar="IMAGE", help="The image of its container.")
@click.option(
    "-c",
    "--conda-file",
    type=Existing(folder=False),
    metavar="FILE",
    help="A conda file with its packages.",
)
@click.option(
    "-b",
    "--build-context",
    type=Existing(folder=True),
    metavar="DIRECTORY",
    help="A folder from which its image is built.",
)
@click.option(
    "-d", "--dockerfile-path", metavar="FILE", help="The Dockerfile in it.  [default: Dockerfile]"
)
@click.option("--description", help="What it is for.")
@click.option("--tag", "--tags", "tags", multiple=True, metavar="KEY=VALUE", help="A label.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field of the file; may be repeated.",
)
@pass_session
def create(session: Session, path: Optional[str], changes: Tuple[str, ...], **options: Any) -> None:
    """Register an environment.

    A file may look like this; paths in it are counted from where it lies:

    \b
    name: train
    image: python:3.11-slim
    conda_file: conda.yml

    Without an image, nodes install the packages themselves. The content of a version that is there
    already gets no second one.
    """
    described = _described(path, changes, options)
    if not described.name:
        raise Usage("the environment has no name", hint="-n NAME gives it one")
    found = described.register(session.workspace)
    session.say(f"environment {found.name} version {found.version} is registered")
    if session.asked_for_data:
        emit(session, _record(session, found.name, found.version))


@environment.command(
    "list",
    examples=[
        "wherry environment list",
        "wherry environment list -n train",
        "wherry environment list --query '[?curated].name' -o tsv",
    ],
)
@click.option(
    "-n",
    "--name",
    shell_complete=completing("environments"),
    help="All versions of this one.",
)
@whole_number_option("-r", "--max-results", help="At most so many.")
@pass_session
def list_(session: Session, name: Optional[str], max_results: Optional[int]) -> None:
    """List the newest version of every environment, or all versions of one."""
    items = session.client.get(_path(session, name))["items"]
    emit(session, [_shown(item) for item in items[:max_results]], _columns())


@environment.command(
    "show",
    examples=[
        "wherry environment show Wherry-sklearn",
        "wherry environment show -n train -v 3 -o yaml",
    ],
)
@click.argument("name", required=False, shell_complete=completing("environments"))
@click.option("-n", "--name", "named", help="The same as NAME.")
@click.option("-v", "--version", help="Which version.  [default: the newest]")
@click.option(
    "-l",
    "--label",
    "labelled",
    shell_complete=completing("labels"),
    help="The version with this label, such as latest.",
)
@pass_session
def show(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    version: Optional[str],
    labelled: Optional[str],
) -> None:
    """Show one version of an environment."""
    if bool(name) == bool(named):
        raise Usage(
            "both NAME and --name are given" if name else "no environment is named",
            hint="wherry environment show NAME",
        )
    if version and labelled:
        raise Usage("both --version and --label are given", hint="give one of them")
    record = _record(session, str(name or named), version, labelled)
    if record.get("notice"):
        session.say(record["notice"])
    if session.output == "table" and session.query is None:
        session.write("\n".join(_lines(record)))
    else:
        emit(session, record)


def _described(
    path: Optional[str], changes: Tuple[str, ...], options: Mapping[str, Any]
) -> Environment:
    """What the file says, with what the command line says besides."""
    from ..sdk.environment_yaml import from_fields
    from .job_file import set_field
    from .run import pairs
    from .yaml_file import load_with_lines

    fields: Dict[str, Any] = {}
    lines: Dict[Any, int] = {}
    if path is not None:
        fields, lines = load_with_lines(path, "an environment")
    given = {
        "name": options["name"],
        "version": options["version"],
        "image": options["image"],
        "description": options["description"],
        "conda_file": options["conda_file"] and os.path.abspath(options["conda_file"]),
        "build": _build(options["build_context"], options["dockerfile_path"]),
        "tags": pairs("--tag", options["tags"]) or None,
    }
    fields.update({name: value for name, value in given.items() if value is not None})
    for change in changes:
        set_field(fields, change)
    if not any(fields.get(name) for name in ("image", "conda_file", "build", "python")):
        raise Usage(
            f"{path or 'the environment'} says nothing to be there",
            hint="give --conda-file, --image or --build-context, or a file with -f that names one",
        )
    folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    return from_fields(fields, folder, path or "the environment", lines)


def _build(folder: Optional[str], dockerfile: Optional[str]) -> Optional[Dict[str, str]]:
    if folder is None:
        return None
    found = {"path": os.path.abspath(folder)}
    return {**found, "dockerfile_path": dockerfile} if dockerfile else found


def _path(session: Session, name: Optional[str] = None) -> str:
    from ..core.ids import check_name
    from ..sdk.client import quote

    every = f"/workspaces/{quote(session.choice.name)}/environments"
    return every if name is None else f"{every}/{check_name('environment', name)}"


def _record(
    session: Session, name: str, version: Optional[str], label: Optional[str] = None
) -> Dict[str, Any]:
    from ..sdk.client import quote

    which = f"labels/{quote(label)}" if label else f"versions/{quote(version or 'latest')}"
    return _shown(session.client.get(f"{_path(session, name)}/{which}"))


def _shown(record: Dict[str, Any]) -> Dict[str, Any]:
    """Without the password of a registry."""
    docker = record["specification"].get("docker") or {}
    if (docker.get("registry") or {}).get("password"):
        docker["registry"]["password"] = "***"
    return record


def _columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("VERSION", lambda row: str(row["version"])),
        Column("NEEDS", _needs),
        Column("CREATED", lambda row: show_time(row["created_at"]), drops=2),
        Column("TAGS", lambda row: shown_pairs(row["tags"]), drops=3),
        Column("DESCRIPTION", lambda row: str(row["description"]), wraps=True, drops=1),
    ]


def _needs(record: Mapping[str, Any]) -> str:
    """In a word or two, what must be there."""
    spec = record["specification"]
    parts = []
    if (spec.get("docker") or {}).get("enabled"):
        parts.append("container")
    if not spec["python"].get("user_managed"):
        parts.append("packages")
    return " and ".join(parts) or "interpreter"


def _lines(record: Mapping[str, Any]) -> List[str]:
    spec = record["specification"]
    python, docker = spec["python"], spec.get("docker") or {}
    facts = [
        ("name", record["name"]),
        ("version", record["version"]),
        ("labels", " ".join(record["labels"])),
        ("description", record["description"]),
        ("tags", shown_pairs(record["tags"])),
        ("created", show_time(record["created_at"])),
        ("hash", record["hash"]),
        ("interpreter", python.get("interpreter")),
        ("as of", python.get("as_of")),
        ("image", docker.get("image")),
        ("variables", " ".join(spec.get("variables") or {})),
    ]
    lines = [f"{name:<13}{value}" for name, value in facts if value]
    return [*lines, *_block("dockerfile", docker.get("dockerfile")), *_packages(python)]


def _packages(python: Mapping[str, Any]) -> List[str]:
    from ..sdk.conda_dependencies import CondaDependencies

    if python.get("conda") is None:
        return ["", "packages: exactly those of its lock"] if python.get("lock") else []
    conda = CondaDependencies(_underlying_structure=python["conda"])
    return _block("conda file", conda.serialize_to_string())


def _block(title: str, text: Optional[str]) -> List[str]:
    if not text:
        return []
    return ["", f"{title}:", *(f"    {line}".rstrip() for line in text.splitlines())]
