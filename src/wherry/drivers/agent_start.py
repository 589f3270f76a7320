"""The text that begins on a node: makes sure of the agent's sources there, and becomes the agent.

It is handed to the node's Python on its command line, so it says nothing that others may not see.
The line that it writes first tells the server where the talk of the node's own shell ends.
"""

import os
import sys

OLDEST = (3, 8)
NONE_FOUND = "@wherry-python "
READY = "@wherry-agent "


def main(digest: str, home: str) -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever prints here does not get between the answers
    os.umask(0o077)
    home = os.path.expanduser(home)
    library = home + "/agents/" + digest
    _tell(answers, {"have": os.path.isdir(library), "platform": sys.platform})
    try:
        for folder in (home, home + "/agents", library):
            _keep_others_out(folder)
        if not os.path.isdir(library):
            _install(library, _received())
        _touch(library)
    except OSError as error:
        _tell(answers, {"error": str(error), "number": error.errno, "home": home})
        return
    _become(library, home, answers)


def _keep_others_out(folder: str) -> None:
    """What is run from there must be this user's own."""
    try:
        about = os.stat(folder)
    except FileNotFoundError:
        return
    if about.st_uid != os.getuid():
        raise PermissionError(1, "it belongs to another user", folder)
    if about.st_mode & 0o022:
        os.chmod(folder, 0o700)


def _tell(answers: int, fields: dict) -> None:  # type: ignore[type-arg]  # Python 3.8
    import json

    os.write(answers, ("\n" + READY + json.dumps(fields) + "\n").encode())


def _received() -> bytes:
    """The archive: its length in a line, then its bytes."""
    line = b""
    while not line.endswith(b"\n"):
        line += _read(1)
    left, pieces = int(line), []
    while left:
        pieces.append(_read(min(left, 1 << 20)))
        left -= len(pieces[-1])
    return b"".join(pieces)


def _read(limit: int) -> bytes:
    piece = os.read(0, limit)
    if not piece:
        os._exit(0)  # nobody is there any more
    return piece


def _install(library: str, archive: bytes) -> None:
    import io
    import shutil
    import zipfile

    mine = library + "." + os.uname().nodename + "." + str(os.getpid())
    try:
        os.makedirs(os.path.dirname(library), mode=0o700, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(archive)) as content:
            content.extractall(mine)
        os.rename(mine, library)
    except OSError:
        shutil.rmtree(mine, ignore_errors=True)
        if not os.path.isdir(library):  # by another who was faster
            raise


def _touch(library: str) -> None:
    try:  # noqa: SIM105  # nothing is imported that is not needed
        os.utime(library)  # those that nobody has used for long are removed
    except OSError:
        pass


def _become(library: str, home: str, answers: int) -> None:
    package = type(sys)("wherry")
    package.__path__ = [library + "/wherry"]
    sys.modules["wherry"] = package
    from wherry.drivers.agent import serve

    serve(home, 0, answers)
