"""The nodes of a run wait until all of them are ready, and learn where the others listen."""

from __future__ import annotations

from .light import TYPE_CHECKING
from .shipping import AwayError, RejectedError
from .workspace import CanceledError, SetupError

if TYPE_CHECKING:
    from typing import Any, List, Mapping

    from .process import Signals
    from .ranks import Ranks
    from .shipping import Shipper

_SHORTEST_S = 0.05
_LONGEST_S = 1.0


def meet(ranks: Ranks, shipper: Shipper, manifest: Mapping[str, Any], signals: Signals) -> None:
    """One node alone tells as well: the server learns how many processes there are."""
    own = ranks.find_ports()
    ranks.ports = [own]
    if not shipper.enabled:
        if len(ranks.hosts) > 1:
            raise SetupError("a run on several nodes needs a server")
        return
    attempt_id, sentence, pause = str(manifest["attempt_id"]), "", _SHORTEST_S
    while True:
        found = _ask(shipper, attempt_id, own, sentence)
        missing = [rank for rank in range(len(ranks.hosts)) if not _at(found, rank)]
        if not missing:
            ranks.ports = found
            return
        sentence = f"waiting for node {missing[0]} ({ranks.names[missing[0]]}) to be ready"
        signals.wait(pause)
        pause = min(pause * 1.5, _LONGEST_S)


def _ask(shipper: Shipper, attempt_id: str, own: List[int], message: str) -> List[Any]:
    """The ports of each node; None of one that is not ready."""
    try:
        reply = shipper.report(attempt_id, stage="preparing", message=message, ports=own)
    except (RejectedError, AwayError) as error:
        raise SetupError(f"the other nodes cannot be met: {error}") from None
    if reply.get("cancel"):
        raise CanceledError
    return list(reply.get("ports") or [])


def _at(found: List[Any], rank: int) -> Any:
    return found[rank] if rank < len(found) else None
