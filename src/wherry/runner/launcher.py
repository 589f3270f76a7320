"""Starts the processes of one node, and ends them together: a program of its own.

It runs beside them, in their container if there is one, and imports nothing of ours.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
from typing import Any, Dict, List, Optional

_SERVER = "ps"
_NOT_FOUND = 127
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


def main(path: str, member: bool) -> int:
    with open(path, encoding="utf-8") as file:
        wanted = json.load(file)
    if member:
        return _become(wanted)
    mpirun = shutil.which("mpirun") if wanted["mpi"] else None
    if mpirun is not None:
        argv, env = _under_mpirun(mpirun, wanted, path), _variables_of_mpirun()
        os.execve(mpirun, argv, env)  # noqa: S606
    return Processes(wanted).run()


class Processes:
    """One that fails ends the others; parameter servers end with the last worker."""

    def __init__(self, wanted: Dict[str, Any]) -> None:
        self._wanted = wanted
        self._alive: Dict[int, int] = {}
        self._status = 0
        self._ending = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._asked)
        signal.signal(signal.SIGINT, self._asked)
        signal.signal(signal.SIGALRM, self._overdue)
        for local in range(len(self._wanted["roles"])):
            if not self._ending:
                self._start(local)
        while self._alive:
            pid, status = os.waitpid(-1, 0)
            local = self._alive.pop(pid, -1)
            if local >= 0:
                self._ended(local, status)
        signal.alarm(0)  # it would end Python itself on its way out
        return _exit(self._status)

    def _start(self, local: int) -> None:
        pid = _start(self._wanted, local)
        if pid is None:
            self._fail(local, _NOT_FOUND << 8)
        else:
            self._alive[pid] = local

    def _ended(self, local: int, status: int) -> None:
        if status and not self._ending:
            self._fail(local, status)
        elif not self._ending and not self._workers():
            self._end()

    def _workers(self) -> List[int]:
        roles = self._wanted["roles"]
        return [local for local in self._alive.values() if roles[local] != _SERVER]

    def _fail(self, local: int, status: int) -> None:
        rank = self._wanted["first"] + local
        self._status = status
        with open(self._wanted["failed"] + ".tmp", "w", encoding="utf-8") as file:
            json.dump({"rank": rank}, file)
        os.replace(self._wanted["failed"] + ".tmp", self._wanted["failed"])
        if self._alive:
            _say(f"process {rank} {_told(status)}; the others of this node are ended")
        self._end()

    def _end(self) -> None:
        """Ask those that are left, and insist when their time is over."""
        self._ending = True
        for pid in self._alive:
            _send(pid, signal.SIGTERM)
        signal.alarm(max(1, int(self._wanted["grace_s"])))

    def _asked(self, _number: int, _frame: Any) -> None:
        """So was everyone here: how they end now is no failure of their own."""
        self._ending = True

    def _overdue(self, _number: int, _frame: Any) -> None:
        for pid in list(self._alive):
            _send(pid, signal.SIGKILL)
        signal.alarm(1)


def _start(wanted: Dict[str, Any], local: int) -> Optional[int]:
    env = {**os.environ, **wanted["variables"][local]}
    argv = wanted["argv"]
    actions = []
    if local:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, wanted["logs"][local], flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
    default = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGPIPE)
    try:
        return os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsigdef=default)
    except OSError as error:
        _say(f"{argv[0]} cannot be started: {error.strerror}")
        return None


def _become(wanted: Dict[str, Any]) -> int:
    """A process that mpirun started becomes the command."""
    found = [os.environ[name] for name in _RANKS if name in os.environ]
    local = int(found[0]) if found else 0
    if local:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        handle = os.open(wanted["logs"][local], flags, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
    own = wanted["variables"][local]
    env = {**os.environ, **{name: own[name] for name in own if not _is_of_mpi(name)}}
    try:
        os.execvpe(wanted["argv"][0], wanted["argv"], env)  # noqa: S606
    except OSError as error:
        _say(f"{wanted['argv'][0]} cannot be started: {error.strerror}")
    return _NOT_FOUND


def _under_mpirun(mpirun: str, wanted: Dict[str, Any], path: str) -> List[str]:
    count = str(len(wanted["roles"]))
    return [mpirun, "-n", count, sys.executable, os.path.abspath(__file__), path, "--member"]


def _variables_of_mpirun() -> Dict[str, str]:
    """Open MPI asks for these where there are fewer cores than processes, or root.

    With those of a process that it has started it would not start.
    """
    return {
        **{name: value for name, value in os.environ.items() if not _is_of_mpi(name)},
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


def _is_of_mpi(name: str) -> bool:
    return name.startswith(("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_"))


def _exit(status: int) -> int:
    """As the process ended that failed, by the same signal if by one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)


def _told(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"exited with code {os.WEXITSTATUS(status)}"


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _say(sentence: str) -> None:
    os.write(2, f"{sentence}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--member" in sys.argv))
