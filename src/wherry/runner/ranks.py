"""What each process of a distributed run is told of itself and of the others."""

from __future__ import annotations

import os
import sys

from .folder import tell
from .light import TYPE_CHECKING, dumps, loads, socket
from .process import find_program, missing_script
from .workspace import SetupError

if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Sequence

    from .folder import Folder

MPI, TENSORFLOW = "mpi", "tensorflow"
SERVER = "ps"


class Ranks:
    """The processes of this node. ``given`` is the manifest's part about them.

    ``ports`` of each node, once they are known: the first of the first node is where all meet,
    those behind it are one for each process.
    """

    def __init__(self, given: Mapping[str, Any], folder: Folder, grace_s: float) -> None:
        self.node = int(given["node"])
        self.hosts: List[str] = list(given["hosts"])
        self.names: List[str] = list(given["names"])
        self._kind = str(given["type"])
        self._roles: List[List[str]] = given["roles"]
        self._first = sum(map(len, self._roles[: self.node]))
        self._folder = folder
        self._grace_s = grace_s
        self.ports: List[List[int]] = []

    @property
    def count(self) -> int:
        """How many processes this node has."""
        return len(self._roles[self.node])

    def logs(self) -> Dict[str, str]:
        """Those of all processes but the first, whose output is the command's."""
        ranks = range(self._first + 1, self._first + self.count)
        return {f"user_logs/std_log_process_{rank}.txt": self._log(rank) for rank in ranks}

    def find_ports(self) -> List[int]:
        """Free ones of this node: one to meet at, one for each process."""
        return _free_ports(1 + self.count)

    def variables(self, local: int = 0) -> Dict[str, str]:
        """Those of one process of this node."""
        rank, size = self._first + local, sum(map(len, self._roles))
        here = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": size, "NODE_RANK": self.node}
        here["LOCAL_WORLD_SIZE"] = self.count
        found = {**{name: str(value) for name, value in here.items()}, **self._places()}
        if self._kind == MPI:
            found.update(_of_open_mpi(rank, size, local, self.count))
        if self._kind == TENSORFLOW:
            found["TF_CONFIG"] = self._tf_config(local)
        return found

    def command(self, argv: List[str], env: Mapping[str, str]) -> List[str]:
        """What starts this node's processes: the command itself, if there is but one."""
        if self.count == 1:
            return argv
        find_program(argv[0], env.get("PATH") or os.defpath)
        script = missing_script(argv)
        if script:
            raise SetupError(f"the script {script} is not in the snapshot")
        return self.launch(argv, env, sys.executable)

    def launch(self, argv: List[str], env: Mapping[str, str], python: str) -> List[str]:
        given = [self.variables(local) for local in range(self.count)]
        own = [{k: v for k, v in each.items() if env.get(k) == given[0].get(k)} for each in given]
        wanted = {
            "argv": argv,
            "first": self._first,
            "roles": self._roles[self.node],
            "variables": own,  # but those that the user has set
            "logs": [self._log(self._first + local) for local in range(self.count)],
            "failed": self._failed,
            "grace_s": self._grace_s,
            "mpi": self._kind == MPI and len(self._roles) == 1,
        }
        path = f"{self._folder.path}/processes.json"
        with open(path, "w", encoding="utf-8") as file:
            file.write(dumps(wanted))
        return [python, _LAUNCHER, path]

    def log_that_tells(self) -> str:
        """Of the first process of this node that failed, if one did."""
        try:
            with open(self._failed, encoding="utf-8") as file:
                return self._log(int(loads(file.read())["rank"]))
        except (OSError, ValueError, KeyError, TypeError):
            return self._folder.log

    @property
    def _failed(self) -> str:
        return f"{self._folder.path}/failed.json"

    def _log(self, rank: int) -> str:
        if rank == self._first:
            return self._folder.log
        return f"{self._folder.path}/std_log_process_{rank}.txt"

    def _places(self) -> Dict[str, str]:
        master, port = self.hosts[0], str(self.ports[0][0])
        found = {
            "MASTER_ADDR": master,
            "MASTER_PORT": port,
            "AZUREML_NODE_COUNT": str(len(self.hosts)),
            "AZ_BATCH_HOST_LIST": ",".join(self.hosts),
            "AZ_BATCH_NODE_LIST": ";".join(self.hosts),
            "AZ_BATCH_MASTER_NODE": f"{master}:{port}",
            "AZ_BATCH_IS_CURRENT_NODE_MASTER": "false" if self.node else "true",
            "AZ_BATCHAI_MPI_MASTER_NODE": master,
            "AZ_BATCHAI_JOB_MASTER_NODE_IP": master,
            "WHERRY_NODE_COUNT": str(len(self.hosts)),
            "WHERRY_NODE_RANK": str(self.node),
            "WHERRY_NODE_LIST": ",".join(self.hosts),
            "WHERRY_NODE_NAMES": ",".join(self.names),
        }
        if all(host.startswith("127.") for host in self.hosts):
            found["GLOO_SOCKET_IFNAME"] = found["NCCL_SOCKET_IFNAME"] = _LOOPBACK
        return found

    def _tf_config(self, local: int) -> str:
        cluster: Dict[str, List[str]] = {}
        task: Dict[str, Any] = {}
        for node, roles in enumerate(self._roles):
            for at, role in enumerate(roles):
                if (node, at) == (self.node, local):
                    task = {"type": role, "index": len(cluster.get(role, []))}
                place = f"{self.hosts[node]}:{self.ports[node][1 + at]}"
                cluster.setdefault(role, []).append(place)
        return dumps({"cluster": cluster, "task": task})


_LAUNCHER = os.path.dirname(os.path.abspath(__file__)) + "/launcher.py"
_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def _of_open_mpi(rank: int, size: int, local: int, count: int) -> Dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(count),
        "OMPI_COMM_WORLD_NODE_RANK": str(local),
        "OMPI_UNIVERSE_SIZE": str(size),
    }


def _free_ports(count: int) -> List[int]:
    """All taken at once, so that no two are the same, and let go."""
    held: Sequence[Any] = []
    try:
        held = [socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0) for _ in range(count)]
        for each in held:
            each.bind(("", 0))
        return [int(each.getsockname()[1]) for each in held]
    except OSError as error:
        tell(f"no free port: {error}")
        raise SetupError(f"{os.uname().nodename} has no free port: {error}") from None
    finally:
        for each in held:
            each.close()
