"""What makes a compute target or a site, checked field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence
from urllib.parse import urlsplit

from .config_fields import SECRETS, amount, known, shown, text, texts, whole
from .errors import UserErrorException
from .instance_config import InstanceConfig
from .nearest import suggest
from .sizes import parse_bytes
from .ssh_names import check_address, check_host_key, check_jump, check_user
from .targets import LOCAL

CLUSTER, MACHINE, INSTANCE = "cluster", "machine", "instance"
# Those that have nodes of a site.
LOCATED = (CLUSTER, INSTANCE)
SITE_KINDS = SSH, CONTAINER = "ssh", "container"
VIRTUAL_MACHINE = "VirtualMachine"
# What each type of Azure's may be here. A machine that is made is a cluster of one node that stays.
TYPES: Mapping[str, Sequence[str]] = {
    "AmlCompute": (CLUSTER,),
    "BatchAI": (CLUSTER,),
    VIRTUAL_MACHINE: (MACHINE, CLUSTER),
    "ComputeInstance": (INSTANCE,),
}
DEDICATED, LOW_PRIORITY = "dedicated", "lowpriority"
DEFAULT_IMAGE = "docker.io/library/python:3.12-slim"
MOST_NODES = 10_000
MOST_HOSTS = 10_000
_LONGEST_S = 30 * 24 * 3600
_ENGINES = ("unix://", "tcp://", "ssh://")

# Where Azure has machines: whoever names one of these here means this machine.
_REGIONS = """
asia asiapacific australia australiacentral australiacentral2 australiaeast australiasoutheast
austriaeast belgiumcentral brazil brazilsouth brazilsoutheast canada canadacentral canadaeast
centralindia centralus centraluseuap chilecentral chinaeast chinaeast2 chinanorth chinanorth2
chinanorth3 denmarkeast eastasia eastus eastus2 eastus2euap europe france francecentral
francesouth germany germanynorth germanywestcentral global india indonesiacentral israelcentral
italynorth japan japaneast japanwest jioindiacentral jioindiawest korea koreacentral koreasouth
malaysiawest mexicocentral newzealandnorth northcentralus northeurope norway norwayeast
norwaywest polandcentral qatarcentral singapore southafrica southafricanorth southafricawest
southcentralus southeastasia southindia spaincentral swedencentral swedensouth switzerland
switzerlandnorth switzerlandwest uae uaecentral uaenorth uk uksouth ukwest unitedstates
usgovarizona usgovtexas usgovvirginia westcentralus westeurope westindia westus westus2 westus3
"""
REGIONS = frozenset(_REGIONS.split())


@dataclass(frozen=True)
class ClusterConfig:
    """A cluster, or a machine that is made, which has one node. ``location`` and ``vm_size`` are
    as they were written: what they mean here is found when a node is made. ``ssh_port`` is where a
    machine that is made listens; 0 for any.
    """

    max_nodes: int
    min_nodes: int = 0
    idle_seconds: int = 120
    vm_size: str = ""
    vm_priority: str = DEDICATED
    location: str = ""
    ssh_port: int = 0

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> ClusterConfig:
        known("a cluster", fields, cls.__dataclass_fields__)
        if fields.get("max_nodes") in (None, ""):
            raise UserErrorException(
                "max nodes count is mandatory", hint="say how many nodes there may be: max_nodes=4"
            )
        config = cls(
            max_nodes=whole("max_nodes", fields["max_nodes"], 0, MOST_NODES),
            min_nodes=whole("min_nodes", fields.get("min_nodes", 0), 0, MOST_NODES),
            idle_seconds=whole("idle_seconds", fields.get("idle_seconds", 120), 0, _LONGEST_S),
            vm_size=text("vm_size", fields.get("vm_size")),
            vm_priority=_priority(fields.get("vm_priority")),
            location=text("location", fields.get("location")),
            ssh_port=whole("ssh_port", fields.get("ssh_port") or 0, 0, 65535),
        )
        if config.max_nodes < config.min_nodes:
            raise UserErrorException(
                "max nodes count must be greater than or equal to min nodes count",
                hint=f"max_nodes is {config.max_nodes}, min_nodes is {config.min_nodes}",
            )
        return config

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class MachineConfig:
    """A machine that is reached by SSH. ``jump`` is the host on the way, ``user@host:port``."""

    address: str
    username: str = ""
    port: int = 22
    host_key: str = ""
    jump: str = ""
    python: str = ""
    jump_host_keys: Sequence[str] = ()

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> MachineConfig:
        known("a machine", fields, cls.__dataclass_fields__)
        return cls(**_reached(fields))

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class HostConfig(MachineConfig):
    """A machine of a pool. What is not declared (None) is found when it is first used."""

    cores: Optional[float] = None
    memory_bytes: Optional[int] = None
    gpus: Optional[int] = None
    price_per_hour: float = 0.0
    name: str = ""

    @classmethod
    def parse(cls, fields: Any) -> HostConfig:
        if isinstance(fields, str):
            fields = {"address": fields}
        if not isinstance(fields, Mapping):
            raise UserErrorException(
                f"a host is {shown(fields)}, not an address or a table of fields",
                hint="such as: {address: node1.lab, username: me, cores: 8, memory: 32GB}",
            )
        given = dict(fields)
        if "user" in given:
            given["username"] = given.pop("user")
        if "memory" in given:
            given["memory_bytes"] = given.pop("memory")
        known("a host", given, cls.__dataclass_fields__)
        reached = _reached(given)
        return cls(
            **reached,
            cores=amount("cores", given.get("cores"), 0.01),
            memory_bytes=None
            if given.get("memory_bytes") in (None, "")
            else parse_bytes(given["memory_bytes"]),
            gpus=None
            if given.get("gpus") in (None, "")
            else whole("gpus", given["gpus"], 0, 10_000),
            price_per_hour=amount("price_per_hour", given.get("price_per_hour")) or 0.0,
            name=text("name", given.get("name")) or reached["address"],
        )


@dataclass(frozen=True)
class PoolConfig:
    """Hosts that clusters take their nodes from."""

    hosts: List[HostConfig] = field(default_factory=list)

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> PoolConfig:
        """Fields beside ``hosts`` hold for all of them that do not say otherwise."""
        given = fields.get("hosts")
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise UserErrorException(
                "a site of kind ssh needs hosts", hint="such as: hosts: [node1.lab, node2.lab]"
            )
        if len(given) > MOST_HOSTS:
            raise UserErrorException(f"a site has at most {MOST_HOSTS} hosts")
        common = {name: value for name, value in fields.items() if name != "hosts"}
        hosts = [
            HostConfig.parse({**common, **({"address": each} if isinstance(each, str) else each)})
            if isinstance(each, (str, Mapping))
            else HostConfig.parse(each)
            for each in given
        ]
        places = Counter((host.address, host.port) for host in hosts)
        for (address, port), times in places.items():
            if times > 1:
                raise UserErrorException(f"the host {address}:{port} is listed twice")
        return cls(hosts)

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ContainersConfig:
    """An engine of containers, Docker or podman. Without an address the one that answers here.

    What is not declared (None) is what the engine's machine has. ``volumes`` are written as for
    ``docker run``; ``price_per_hour`` is for one core.
    """

    engine: str = ""
    image: str = DEFAULT_IMAGE
    cores: Optional[float] = None
    memory_bytes: Optional[int] = None
    gpus: int = 0
    price_per_hour: float = 0.0
    volumes: Sequence[str] = ()
    network: str = ""

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> ContainersConfig:
        given = dict(fields)
        if "memory" in given:
            given["memory_bytes"] = given.pop("memory")
        known("a site of kind container", given, cls.__dataclass_fields__)
        memory = given.get("memory_bytes")
        return cls(
            engine=_engine(given.get("engine")),
            image=text("image", given.get("image")) or DEFAULT_IMAGE,
            cores=amount("cores", given.get("cores"), 0.01),
            memory_bytes=None if memory in (None, "") else parse_bytes(memory),
            gpus=whole("gpus", given.get("gpus") or 0, 0, 10_000),
            price_per_hour=amount("price_per_hour", given.get("price_per_hour")) or 0.0,
            volumes=[_volume(each) for each in texts("volumes", given.get("volumes"))],
            network=text("network", given.get("network")),
        )

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


def parse_site(kind: object, fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The configuration of a site of that kind, whole."""
    if kind == CONTAINER:
        return ContainersConfig.parse(fields).to_dict()
    if kind == SSH:
        return PoolConfig.parse(fields).to_dict()
    raise UserErrorException(
        f"there are no sites of kind {shown(kind)}{suggest(str(kind), SITE_KINDS)}",
        hint=f"a site is of kind {' or '.join(SITE_KINDS)}; this machine is there by itself",
    )


def kind_of(type: object, kind: object) -> str:
    """Our word for a type of Azure's."""
    if type not in TYPES:
        raise UserErrorException(
            f"there are no compute targets of type {shown(type)}{suggest(str(type), TYPES)}",
            hint=f"the types are {', '.join(TYPES)}",
        )
    kinds = TYPES[str(type)]
    if kind and kind not in kinds:
        raise UserErrorException(
            f"a compute target of type {type} is a {' or a '.join(kinds)}, not a {kind}"
        )
    return str(kind or kinds[0])


def parse_compute(type: str, kind: str, fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The configuration of a target of that type and kind, whole."""
    if kind == MACHINE:
        return MachineConfig.parse(fields).to_dict()
    if kind == INSTANCE:
        return InstanceConfig.parse(fields).to_dict()
    config = ClusterConfig.parse(fields)
    if type == VIRTUAL_MACHINE:
        _check_made_machine(config)
    elif config.ssh_port:
        raise UserErrorException(
            "nodes of a cluster have no ssh_port",
            hint="a machine has one: --type virtualmachine, DsvmCompute",
        )
    return config.to_dict()


def may_be_taken(config: Mapping[str, Any]) -> bool:
    """Whether others' need of a node comes before its own."""
    return config.get("vm_priority") == LOW_PRIORITY


def cluster_of(kind: str, config: Mapping[str, Any]) -> ClusterConfig:
    """What a target with nodes is as a cluster: an instance is one of a single node that stays."""
    if kind == INSTANCE:
        place = {"vm_size": config["vm_size"], "location": config["location"]}
        return ClusterConfig(max_nodes=1, min_nodes=1, idle_seconds=0, **place)
    return ClusterConfig(**config)


def parse_secrets(
    fields: Optional[Mapping[str, Any]], hosts: Sequence[Mapping[str, Any]] = ()
) -> Dict[str, str]:
    """Those that were given; a host of a pool may have its own besides those of all."""
    given = fields or {}
    own = {secret_of(host, name) for host in hosts for name in SECRETS}
    known("secrets", {name: "" for name in given if name not in own}, SECRETS)
    found = {name: text(name.partition("@")[0], value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value}


def secret_of(host: Mapping[str, Any], name: str) -> str:
    """What a secret of one host of a pool is called: ``password@node1.lab:22``."""
    return f"{name}@{host['address']}:{host['port']}"


def secrets_for(host: Mapping[str, Any], secrets: Mapping[str, str]) -> Dict[str, str]:
    """Those of a host of its own, or else those that are for all hosts of its pool."""
    own = {name: secrets.get(secret_of(host, name), "") for name in SECRETS}
    common = {name: secrets.get(name, "") for name in SECRETS}
    return own if any(own.values()) else common


def is_region(location: str) -> bool:
    """Whether Azure calls a place so, as its portal or its programs write it."""
    return location.replace(" ", "").lower() in REGIONS


def site_name(location: str) -> str:
    """The site that a location names."""
    return LOCAL if not location or is_region(location) else location


def _check_made_machine(config: ClusterConfig) -> None:
    """It is one, and nobody takes it away."""
    if (config.min_nodes, config.max_nodes) != (1, 1):
        raise UserErrorException(
            "a target of type VirtualMachine is one machine: it has 1 node, no more and no fewer",
            hint="a cluster has several: --type amlcompute, AmlCompute",
        )
    if config.vm_priority == LOW_PRIORITY:
        raise UserErrorException(
            "a machine is dedicated: there is none of low priority",
            hint="a cluster may have nodes of low priority: --type amlcompute, AmlCompute",
        )


def _reached(fields: Mapping[str, Any]) -> Dict[str, Any]:
    port = fields.get("port")
    keys = texts("jump_host_keys", fields.get("jump_host_keys"))
    return {
        "address": check_address(text("address", fields.get("address"))),
        "username": check_user(text("username", fields.get("username"))),
        "port": 22 if port in (None, "") else whole("port", port, 1, 65535),
        "host_key": check_host_key(text("host_key", fields.get("host_key"))),
        "jump": check_jump(text("jump", fields.get("jump"))),
        "python": text("python", fields.get("python")),
        "jump_host_keys": [check_host_key(each, "jump_host_keys") for each in keys],
    }


def _engine(value: Any) -> str:
    address = text("engine", value)
    if address and not address.startswith(_ENGINES):
        raise UserErrorException(
            f"engine is {shown(value)}, which is no address of a container engine",
            hint=f"it is written as DOCKER_HOST is, and begins with {' or '.join(_ENGINES)}",
        )
    if address.startswith("ssh://"):
        _check_way(address)
    return address


def _check_way(address: str) -> None:
    """``ssh://user@host:port/socket``: whose, where, and nothing secret."""
    where = urlsplit(address)
    try:
        port, secret = where.port, where.password
    except ValueError:
        port, secret = -1, None
    if port == -1 or secret is not None or where.query or where.fragment:
        raise UserErrorException(
            "engine is no address of a machine",
            hint="write it like ssh://user@host or ssh://user@host:22/run/podman/podman.sock; keys "
            "are those of the server's user",
        )
    check_address(where.hostname or "")
    check_user(where.username or "")


def _volume(written: str) -> str:
    source, _, rest = written.partition(":")
    if not source or not rest.startswith("/"):
        raise UserErrorException(
            f"volumes has {shown(written)}, which is no volume", hint="such as /data:/data:ro"
        )
    return written


def _priority(value: Any) -> str:
    """In both eras' spellings."""
    written = text("vm_priority", value).lower().replace("_", "").replace("-", "")
    if written in ("", DEDICATED, LOW_PRIORITY):
        return written or DEDICATED
    raise UserErrorException(
        f"vm_priority is {shown(value)}", hint=f"it is {DEDICATED} or {LOW_PRIORITY}"
    )
