"""The environment of an attempt, where it is one that is made on the node."""

from __future__ import annotations

import os

from .folder import tell
from .light import TYPE_CHECKING, dumps
from .workspace import SetupError

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

    from .folder import Folder
    from .process import Signals

_PYTHONS = ("python", "python3")
_LONGEST = 8000


class Ready:
    """What the command is started with.

    As long as anyone has the descriptor ``use`` open, the environment stays where it is.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        interpreter: str = "",
        notices: Sequence[str] = (),
        use: Optional[int] = None,
    ) -> None:
        self.variables = variables
        self.notices = notices
        self._interpreter = interpreter
        self._use = use

    def argv(self, manifest: Mapping[str, Any]) -> List[str]:
        program, *rest = manifest["argv"]
        if self._interpreter and program in _PYTHONS:
            program = self._interpreter
        return [program, *rest]

    def shared(self) -> _Shared:
        """What is started meanwhile has the descriptor, too."""
        return _Shared(self._use)

    def close(self) -> None:
        if self._use is not None:
            os.close(self._use)
            self._use = None


class _Shared:
    def __init__(self, descriptor: Optional[int]) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        self._set(inheritable=True)

    def __exit__(self, *_details: object) -> None:
        self._set(inheritable=False)

    def _set(self, *, inheritable: bool) -> None:
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, inheritable)


AS_IT_IS = Ready({})


def to_be_made(manifest: Mapping[str, Any]) -> bool:
    python = (manifest.get("environment") or {}).get("python") or {}
    return bool(python) and not python.get("user_managed", True)


def in_container(manifest: Mapping[str, Any]) -> bool:
    """What is to be made is then made there."""
    docker = (manifest.get("environment") or {}).get("docker") or {}
    return bool(docker.get("enabled"))


def make_ready(
    manifest: Mapping[str, Any],
    folder: Folder,
    say: Callable[[str], None],
    signals: Signals,
    fetch: Callable[[str, str], None],
) -> Optional[Ready]:
    """None when someone asked for the end meanwhile. ``fetch`` brings wheels of the workspace."""
    from wherry.builds import BuildCanceled, BuildError, default_root, prepare

    output = BuildLog(folder.build_log)
    try:
        prepared = prepare(
            dict(manifest["environment"]),
            default_root(),
            log=output.write,
            progress=say,
            canceled=lambda: bool(signals.asked),
            uv=os.environ.get("WHERRY_UV"),
            folder=folder.work,
            limit=manifest["environment"].get("limit"),
            fetch=fetch,
        )
    except BuildCanceled:
        return None
    except BuildError as error:
        output.write(f"error: {error.sentence}\n".encode("utf-8", "replace"))
        raise SetupError(error.text()[:_LONGEST]) from None
    finally:
        output.close()
    if prepared.lock:
        keep_lock(prepared.lock, folder.files)
    return Ready(prepared.variables, prepared.interpreter, prepared.notices, prepared.use.fileno())


def keep_lock(lock: Dict[str, Any], files: str) -> None:
    """What was installed, to the last digit, goes into the run's files."""
    try:
        os.makedirs(f"{files}/environment", exist_ok=True)
        with open(f"{files}/environment/lock.json", "w", encoding="utf-8") as file:
            file.write(dumps(lock))
    except OSError as error:
        tell(f"the environment's lock cannot be written: {error}")


class BuildLog:
    """The build's own log, made when there is something in it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: Optional[int] = None

    def write(self, data: bytes) -> None:
        try:
            if self._handle is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._handle = os.open(self._path, flags, 0o600)
            os.write(self._handle, data)
        except OSError as error:  # a full disk: the build will meet it, too
            tell(f"the build's log cannot be written: {error}")

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
