"""How the program ends: one sentence for people and a code for programs."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import List, Optional

import click

from ..core.errors import AuthenticationException, ConflictError, WherryError
from .session import ReaderGone, Session

OK, ERROR, USAGE, RUN_FAILED, UNREACHABLE, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 4, 130, 141


class Failure(WherryError):
    """An end with an exit code of its own, such as that of a run that failed."""

    def __init__(self, message: str, *, hint: Optional[str] = None, exit_code: int = ERROR) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class Detached(WherryError):
    """Someone stopped watching a run, which goes on."""

    exit_code = INTERRUPTED


class Usage(click.UsageError):
    """A command line that cannot be understood, with a remedy of its own."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def conclude(error: BaseException, session: Session) -> int:
    """Tell the error on stderr; the exit code."""
    if session.debug and not isinstance(error, _NO_ERRORS):
        _trace(error)
    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, ReaderGone):
        return reader_gone()
    if isinstance(error, Detached):
        session.write_error(error.message)
        return INTERRUPTED
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        at_prompt = isinstance(error, click.Abort) and error.__cause__ is None
        session.write_error("\ninterrupted" if at_prompt else "interrupted")
        return INTERRUPTED
    if isinstance(error, click.UsageError):
        tell(_sentence(error), _help_hint(error), session)
        return USAGE
    if isinstance(error, click.ClickException):
        tell(_sentence(error), None, session)
        return ERROR
    if isinstance(error, AuthenticationException):
        tell(error.message, session.way_in(error.hint), session)
        return error.exit_code
    if isinstance(error, WherryError):
        tell(_told(error), error.hint, session)
        return error.exit_code
    if isinstance(error, OSError):
        if error.filename is None and _nowhere():
            tell("the current folder is gone", "go to one that is there: cd", session)
        else:
            tell(_os_sentence(error), _OS_REMEDIES.get(error.errno or 0), session)
        return ERROR
    hint = (
        None if session.debug else "this is a defect of Wherry: repeat with --debug and report it"
    )
    tell(f"unexpected {type(error).__name__}: {error}", hint, session)
    return ERROR


_NO_ERRORS = (click.exceptions.Exit, click.Abort, KeyboardInterrupt, ReaderGone, Detached)


def tell(sentence: str, hint: Optional[str], session: Session) -> None:
    session.write_error(session.style("error:", fg="red", bold=True) + f" {sentence}")
    if hint:
        session.write_error("\n" + session.style("hint:", fg="cyan", bold=True) + f" {hint}")


def reader_gone() -> int:
    """Whoever read our output has gone away: leave without a word, now and at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def _sentence(error: click.ClickException) -> str:
    message = error.format_message().strip()
    message = message[:-1] if message.endswith(".") else message
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def _help_hint(error: click.UsageError) -> Optional[str]:
    if isinstance(error, Usage):
        return error.hint
    return f"{error.ctx.command_path} --help says how it is used" if error.ctx else None


def _told(error: WherryError) -> str:
    """An id that fits several runs is better read one to a line."""
    candidates = error.fields.get("candidates")
    if not isinstance(error, ConflictError) or not isinstance(candidates, list):
        return error.message
    meant = error.message.split(" could be ", 1)[0]
    lines: List[str] = [f"{meant} could be any of these runs:"]
    lines += [f"    {candidate}" for candidate in candidates[:10]]
    return "\n".join([*lines, "    ..."] if len(candidates) > 10 else lines)


_OS_REMEDIES = {
    errno.EACCES: "it belongs to someone else, or its mode forbids it: ls -l shows both",
    errno.ENOSPC: "make room on that disk, or name another folder",
    errno.EDQUOT: "make room there, or name another folder",
    errno.EROFS: "name a folder that can be written to",
    errno.EEXIST: "it is in the way: move it, or name another",
    errno.ENOTDIR: "a file is where a folder should be: move it, or name another",
    errno.EISDIR: "a folder is where a file should be: move it, or name another",
}


def _nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _os_sentence(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror.lower()}"
    return error.strerror.lower() if error.strerror else str(error)


def _trace(error: BaseException) -> None:
    import traceback

    traceback.print_exception(type(error), error, error.__traceback__)
