"""How the processes of a run lie on its nodes."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from .errors import UserErrorException

PYTORCH, MPI, TENSORFLOW = "pytorch", "mpi", "tensorflow"
TYPES = (PYTORCH, MPI, TENSORFLOW)
WORKER, SERVER = "worker", "ps"
MOST_PROCESSES = 256

_FIELDS = {
    PYTORCH: ("processes_per_node",),
    MPI: ("processes_per_node",),
    TENSORFLOW: ("worker_count", "parameter_server_count"),
}


def parse(given: Any, node_count: int) -> Optional[Dict[str, Any]]:
    """What a user wrote, with every count filled in; None for a run that is not distributed.

    >>> parse({"type": "pytorch"}, 2)
    {'type': 'pytorch', 'processes_per_node': 1}
    """
    if not given:
        return None
    kind = str(given.get("type") or "").lower() if isinstance(given, Mapping) else ""
    if kind not in TYPES:
        raise UserErrorException(
            f"distribution is {given!r}, which has no known type",
            hint=f"its type is one of {', '.join(TYPES)}",
        )
    _check_fields(given, kind)
    if kind != TENSORFLOW:
        return {"type": kind, "processes_per_node": _count(given, "processes_per_node", 1, 1)}
    found: Dict[str, Any] = {
        "type": kind,
        "worker_count": _count(given, "worker_count", node_count, 1, MOST_PROCESSES * node_count),
        "parameter_server_count": _count(given, "parameter_server_count", 0, 0),
    }
    if sum(found[name] for name in _FIELDS[kind]) < node_count:
        raise UserErrorException(
            f"distribution has {found['worker_count']} workers and "
            f"{found['parameter_server_count']} parameter servers for {node_count} nodes",
            hint="each node needs one: raise worker_count, or ask for fewer nodes",
        )
    return found


def roles(distribution: Optional[Mapping[str, Any]], node_count: int) -> List[List[str]]:
    """What each process of each node is. Ranks count through the nodes in this order.

    TensorFlow's workers are spread evenly. Its parameter servers are on the nodes that are left,
    or else on the first.

    >>> roles({"type": "tensorflow", "worker_count": 3, "parameter_server_count": 1}, 2)
    [['worker', 'worker', 'ps'], ['worker']]
    """
    if distribution is None:
        return [[WORKER] for _ in range(node_count)]
    if distribution["type"] != TENSORFLOW:
        return [[WORKER] * distribution["processes_per_node"] for _ in range(node_count)]
    workers, servers = distribution["worker_count"], distribution["parameter_server_count"]
    found = _spread(WORKER, workers, min(workers, node_count))
    if workers < node_count:
        return found + _spread(SERVER, servers, node_count - workers)
    found[0] += [SERVER] * servers
    return found


def serves(roles_of_node: List[str]) -> bool:
    """Whether a node never ends by itself, having nothing but parameter servers."""
    return all(role == SERVER for role in roles_of_node)


def _spread(role: str, count: int, nodes: int) -> List[List[str]]:
    each, more = divmod(count, nodes)
    return [[role] * (each + (node < more)) for node in range(nodes)]


def _check_fields(given: Mapping[str, Any], kind: str) -> None:
    for name in given:
        if name != "type" and name not in _FIELDS[kind] and given[name] is not None:
            raise UserErrorException(
                f"distribution of type {kind} has no field {name!r}",
                hint=f"its fields are type, {', '.join(_FIELDS[kind])}",
            )


def _count(
    given: Mapping[str, Any], name: str, otherwise: int, least: int, most: int = MOST_PROCESSES
) -> int:
    value = given.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UserErrorException(
            f"distribution.{name} is {value!r}, not a whole number from {least} to {most}",
            hint=f"such as {name}: 2",
        )
    return value
