"""Files for their owner alone: how they are made, and what is refused when they are read."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Optional

from .errors import AuthenticationException, UserErrorException
from .settings import holds_secret

_MOST_BYTES = 4096
_OTHERS = 0o077
_OTHERS_WRITE = 0o002
_OTHERS_READ = 0o044
_GROUP_WRITES = 0o020


def make_home(path: str) -> None:
    """The folder of a server; one that is there already stays as it is, if it can be used."""
    if not os.path.isdir(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        make_folder(path)
    check_home(path)


def check_home(path: str) -> None:
    """Refuse a folder in which others could put files of theirs in the place of ours."""
    about = os.stat(path)
    shared = about.st_mode & _GROUP_WRITES and not _own_group(about.st_gid)
    if about.st_mode & _OTHERS_WRITE or shared:
        raise UserErrorException(
            f"others can write to the folder {path}, which is therefore not used",
            hint=f"chmod go-w {_quoted(path)}",
        )


def make_folder(path: str) -> None:
    """With mode 0700, whatever the umask says and whoever made it."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    if os.stat(path).st_mode & 0o777 != 0o700:
        os.chmod(path, 0o700)


def open_private(path: str, flags: int) -> int:
    """A descriptor of the file, made with mode 0600 whatever the umask says. Follows no link."""
    handle = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(handle).st_mode & 0o777 != 0o600:
        with suppress(OSError):  # some file systems know no modes
            os.fchmod(handle, 0o600)
    return handle


def check_settings(path: str, text: str) -> None:
    """Refuse a settings file that others can write to, or that says what they must not read."""
    mode = os.stat(path).st_mode
    if mode & _OTHERS_WRITE:
        raise AuthenticationException(
            f"others can write to the settings file {path}, which is therefore not used",
            hint=f"chmod go-w {_quoted(path)}",
        )
    if mode & _OTHERS_READ and holds_secret(text):
        raise AuthenticationException(
            f"the settings file {path} holds a token or a password and can be read by others",
            hint=f"chmod 600 {_quoted(path)}",
        )


def read_secret(path: str) -> Optional[str]:
    """What the file says; None if there is none.

    Refused where others may read it, and where it is a link: that may lead to another's file.
    """
    import stat

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise _unusable(path, "it is no file")
        if mode & _OTHERS:
            raise AuthenticationException(
                f"{path} can be read by others and is not used", hint=f"chmod 600 {_quoted(path)}"
            )
        return os.read(handle, _MOST_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)


def make_secret(path: str, text: str) -> None:
    """A new file with this text, on disk and whole; one that is there already stays."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_TRUNC), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, never replaces what another one made
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


def _unusable(path: str, why: str) -> AuthenticationException:
    if os.path.islink(path):
        why = "it is a link"
    return AuthenticationException(
        f"{path} cannot be used: {why}", hint="put a file there that you alone can read"
    )


def _own_group(group_id: int) -> bool:
    """Whether it is the group that many systems give each user, with nobody else in it."""
    import grp
    import pwd

    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(group_id)
    except KeyError:
        return False
    named_alike = me.pw_gid == group_id and group.gr_name == me.pw_name
    return named_alike and set(group.gr_mem) <= {me.pw_name}


def _quoted(path: str) -> str:
    from shlex import quote

    return quote(path)
