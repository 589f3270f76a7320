"""Names and identifiers: how they are made and which are allowed."""

from __future__ import annotations

import re

from .errors import UserErrorException

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}\Z")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,299}\Z")
_OF_A_MODEL = re.compile(r"[mv]-[0-9a-f]{32}\Z")  # files are kept by such ids, too


def check_name(kind: str, name: object) -> str:
    """The name, or an error that says what a name may look like."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise UserErrorException(
        f"{name!r} is not a valid {kind} name",
        hint="use letters, digits, '-', '_' and '.', starting with a letter or digit, at most 255",
    )


def check_run_id(run_id: object) -> str:
    if isinstance(run_id, str) and _OF_A_MODEL.match(run_id):
        raise UserErrorException(
            f"{run_id!r} is not a valid run id: models have ids like this",
            hint="choose another one",
        )
    if isinstance(run_id, str) and _RUN_ID.match(run_id):
        return run_id
    raise UserErrorException(
        f"{run_id!r} is not a valid run id",
        hint="use letters, digits, '-', '_' and '.', starting with a letter or digit, at most 300",
    )


def new_run_id(experiment: str, unix_time: float) -> str:
    """Azure ML's form: ``{experiment}_{unixtime}_{8 hex digits}``."""
    import secrets  # slow to load, and scripts on a node make no ids

    return f"{experiment[:255]}_{int(unix_time)}_{secrets.token_hex(4)}"


def new_uuid() -> str:
    import uuid

    return str(uuid.uuid4())
