"""All commands: where each lives and what it does in one sentence. Loads nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

SECTIONS = (
    (
        "Run and look",
        (
            ("run", "run:run", "Run a script or a command on a target and watch it."),
            ("ps", "ps:ps", "List the newest runs: what they wait for, how they ended."),
            ("logs", "logs:logs", "Show what a run has printed."),
            ("compare", "compare:compare", "Put runs side by side."),
            ("open", "open:open_page", "Show a run in the browser."),
        ),
    ),
    (
        "Manage",
        (
            ("job", "job:job", "Create, find, compare, cancel, download and delete runs."),
            (
                "experiment",
                "experiment:experiment",
                "List, label, archive and delete experiments.",
            ),
            (
                "environment",
                "environment:environment",
                "Register, build and prune environments.",
            ),
            ("workspace", "workspace:workspace", "Make, choose and remove workspaces."),
            ("compute", "compute:compute", "Make, attach and look at compute targets."),
            ("site", "site:site", "Name the places that clusters take their nodes from."),
            ("server", "server:server", "Start, stop and look at the server of this machine."),
            ("mlflow", "mlflow:mlflow", "Print what MLflow's clients need to log in here."),
            ("config", "config:config", "Show and change settings."),
            ("completion", "completion:completion", "Print the completion script for a shell."),
        ),
    ),
)

ALIASES = {"target": "compute"}  # what was called otherwise once

_HEAD = """\
Usage: wherry COMMAND [OPTIONS] ...

  Carries a training script, unchanged, to whatever compute is at hand.

  A server starts by itself on first use and keeps what was run, with its
  code, output, metrics and files, in one folder.

Examples:
  wherry run train.py                    run a script here and watch it
  wherry run train.py -- --epochs 10     with arguments for the script
  wherry ps                              what runs, what ended, and why
  wherry logs -f                         follow the newest run
"""

_FOOT = """\
Options:
  --version                              Show the version and exit.
  -h, --help                             Show this message and exit.

  'wherry COMMAND --help' says more, with examples. Options that every
  command takes (--output, --query, --workspace, --quiet, --debug) may stand
  before or after the command.
"""


def overview() -> str:
    """What ``wherry --help`` prints."""
    parts = [_HEAD]
    for title, commands in SECTIONS:
        lines = [f"  {name:<12}{summary}" for name, _, summary in commands]
        parts.append("\n".join([f"{title}:", *lines, ""]))
    return "\n".join([*parts, _FOOT])


def places() -> Dict[str, str]:
    """``module:attribute`` of each command, relative to this package."""
    return {name: place for _, commands in SECTIONS for name, place, _ in commands}
