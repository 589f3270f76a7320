"""The JSON that a runner receives: what to prepare, what to execute, whom to tell.

The runner shares this format, not this code; ``tests/contract/test_runner_manifest.py`` feeds the
one to the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional

VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """One attempt, as its runner sees it.

    ``server`` is the address to report to. ``server_file``, where the node shares the server's
    file system, names a JSON file whose ``url`` is the server's present address. ``server_id`` is
    in every answer of this server: what answers without it is another one. ``tunnel``: the address
    is a port of the node's own, at which other users of the node could listen. ``snapshot`` is the
    snapshot itself where it is small: a tar in base64. ``environment`` is what must be prepared
    (``core/environments.py``), with its name and version; None where an interpreter is there.
    ``attempt`` counts the run's attempts; with the second, files of the earlier ones are brought
    back. ``ranks``, of a distributed run: which ``node`` of it this is, the ``hosts`` and ``names``
    of all nodes, the ``roles`` of the processes on each, the ``type`` of distribution. ``limits``
    are those of its container: ``cpu`` and ``memory_bytes``.
    """

    run_id: str
    attempt_id: str
    server: str
    argv: List[str]
    token: str = ""
    server_file: str = ""
    server_id: str = ""
    tunnel: bool = False
    snapshot_id: str = ""
    snapshot: str = ""
    env: Dict[str, str] = field(default_factory=dict)
    environment: Optional[Dict[str, Any]] = None
    time_limit_s: Optional[float] = None
    grace_s: float = 10.0
    attempt: int = 1
    ranks: Optional[Dict[str, Any]] = None
    limits: Optional[Dict[str, Any]] = None
    version: int = VERSION

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)
