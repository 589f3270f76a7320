"""The options that only compute instances have, and what they say in the words of a file."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Tuple

import click

from .command import completing, whole_number_option
from .compute_path import compute_path
from .instance_file import key_text, schedules_of
from .options import Existing
from .session import Session


def timed(never: str) -> Callable[[Any], Any]:
    """When a compute instance is started and stopped."""
    at: Dict[str, Any] = {"multiple": True, "metavar": "WHEN"}
    options: Tuple[Callable[[Any], Any], ...] = (
        whole_number_option(
            "--idle-time-before-shutdown-minutes",
            "idle_minutes",
            help=f"Stop a compute instance that nobody has used for so long.{never}",
        ),
        click.option(
            "--start-at", help='Start it then: 08:00, or cron: "0 8 * * MON-FRI". Repeatable.', **at
        ),
        click.option("--stop-at", help="Stop it then, written alike. Repeatable.", **at),
        click.option(
            "--time-zone",
            metavar="ZONE",
            help="Of those times, such as Europe/Berlin.  [default: that of this machine]",
        ),
    )

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def set_up(function: Any) -> Any:
    """What a compute instance is made ready with."""
    file: Dict[str, Any] = {"type": Existing(folder=False), "metavar": "FILE"}
    options = [
        click.option(
            "--creation-script",
            "--setup-script",
            "creation",
            help="A script that a compute instance executes once, when it is made.",
            **file,
        ),
        click.option(
            "--startup-script", "startup", help="One that it executes at each start.", **file
        ),
        click.option(
            "--environment",
            "environments",
            multiple=True,
            metavar="NAME",
            shell_complete=completing("environments"),
            help="An environment that it has as a kernel: NAME, NAME:2, NAME@label. Repeatable.",
        ),
        click.option(
            "--ssh-key-value", metavar="KEY", help="Who may log in: a public key, or its file."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def times_of(options: Dict[str, Any]) -> Dict[str, Any]:
    """When a compute instance is started and stopped."""
    return {
        "idle_time_before_shutdown_minutes": options["idle_minutes"],
        "schedules": schedules_of(options),
    }


def settings_of(options: Dict[str, Any]) -> Dict[str, Any]:
    """What only a compute instance has."""
    scripts = {"creation_script": options["creation"], "startup_script": options["startup"]}
    return {
        **times_of(options),
        **{
            f"setup_scripts.{name}": path and os.path.abspath(path)
            for name, path in scripts.items()
        },
        "environments": list(options["environments"]) or None,
        "ssh_settings.ssh_key_value": key_text(options["ssh_key_value"]),
    }


def with_state(session: Session, name: str, schedules: Any, state: str) -> Any:
    """Those that are asked for, or else those that there are, enabled or disabled."""
    if schedules is None:
        record = session.client.get(compute_path(session, name))
        schedules = (record.get("config") or {}).get("schedules") or []
    return [{**each, "state": state} for each in schedules]
