"""One container: made, started, waited for, ended, removed."""

from __future__ import annotations

import io
import re
import tarfile
import time
from typing import Any, Dict, List, Mapping, Optional

from .engine import ANSWER_S, Engine
from .error import ContainerError, EngineError

LABEL = "wherry.attempt"
VARIABLES = "/opt/wherry/variables"  # of an environment that is in the image

# The shell is the container's first process: one that handles no signals would hear none there.
# The command's output goes to a file, as it does without a container, so whoever watches may come
# and go; how it ended goes to another, since an engine takes its time to say so.
SCRIPT = f"""\
log=$1 end=$2; shift 2
[ ! -r {VARIABLES} ] || . {VARIABLES}
command -v "$1" >/dev/null || {{ echo none >"$end"; exit 127; }}
"$@" </dev/null >>"$log" 2>&1
code=$?
echo $code >"$end"
exit $code"""
NO_PROGRAM = "none"

_AGAIN_S = 1.0
_TRIES = 20
_PAUSE_S = 0.25
_BY_SIGNAL = (4, 6, 7, 8, 9, 11, 15)
_NOT_THERE = 404
_ENDED = ("exited", "stopped", "dead")


class Container:
    """Known by its name, which comes from the attempt's: no other one has it.

    The one in which an attempt's image is made has a name of its own.
    """

    def __init__(self, engine: Engine, attempt_id: str, prefix: str = "wherry-") -> None:
        self.engine = engine
        self.attempt_id = attempt_id
        self.name = prefix + re.sub(r"[^A-Za-z0-9_.-]", "-", attempt_id)

    def create(self, body: Mapping[str, Any]) -> List[str]:
        """What the engine warns of."""
        made = self.engine.call("POST", "/containers/create", body, name=self.name)
        return [str(each) for each in made.get("Warnings") or ()]

    def start(self) -> None:
        self.engine.call("POST", f"/containers/{self.name}/start")

    def read(self, path: str) -> bytes:
        """A file in it."""
        data = self.engine.call("GET", f"/containers/{self.name}/archive", raw=True, path=path)
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for entry in tar:
                file = tar.extractfile(entry)
                if file is not None:
                    return file.read()
        return b""

    def state(self) -> Optional[Dict[str, Any]]:
        """As the engine shows it; None if there is no such container."""
        try:
            return dict(self.engine.call("GET", f"/containers/{self.name}/json")["State"])
        except EngineError as error:
            if error.status == _NOT_THERE:
                return None
            raise

    def wait(self) -> Optional[int]:
        """Its exit code, once it has ended; None if it has been removed.

        An engine that does not answer says nothing about the container.
        """
        while True:
            try:
                path = f"/containers/{self.name}/wait"
                code = int(self.engine.call("POST", path, patient=True)["StatusCode"])
                if code > 0:
                    return code
                state = self.state()  # podman says 0 also of one that is being removed
                if state is None:
                    return None
                if state["Status"] in _ENDED:
                    return int(state["ExitCode"])
            except EngineError as error:
                if error.status == _NOT_THERE:
                    return None
            except ContainerError:
                pass
            time.sleep(_AGAIN_S)

    def kill(self) -> None:
        self.engine.call("POST", f"/containers/{self.name}/kill", signal="KILL")

    def commit(self, image: str) -> None:
        """What is in it now, as an image; labels are for containers alone."""
        repository, _, tag = image.rpartition(":")
        self.engine.call(
            "POST",
            "/commit",
            {},
            patient=True,
            container=self.name,
            repo=repository,
            tag=tag,
            changes=f"LABEL {LABEL}=",
        )

    def remove(self) -> bool:
        """With all that still runs in it; whether there was one.

        An engine may refuse while the container's end is under way, so it is asked again.
        """
        return remove_named(self.engine, self.name)


def remove_all(engine: Engine, attempt_id: str, within_s: float = ANSWER_S) -> int:
    """Whatever containers an attempt has, found by their label; how many. The engine has to name
    them within that time.
    """
    wanted = {"label": [f"{LABEL}={attempt_id}"]}
    found = engine.call("GET", "/containers/json", all=True, filters=wanted, within_s=within_s)
    return sum(remove_named(engine, str(each["Id"])) for each in found)


def remove_named(engine: Engine, name: str) -> bool:
    """With all that still runs in it; whether there was one."""
    for left in reversed(range(_TRIES)):
        try:
            engine.call("DELETE", f"/containers/{name}", force=True, v=True)
        except EngineError as error:
            if error.status == _NOT_THERE:
                return False
            if not left:
                raise
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def status_of(code: int) -> int:
    """An exit code as ``waitpid`` would have told it: the shell adds 128 to a signal."""
    return code - 128 if code - 128 in _BY_SIGNAL else code << 8
