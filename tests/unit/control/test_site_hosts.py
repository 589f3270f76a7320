"""Who has which host of a pool, and what is wrong with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.planes import make_plane
from wherry.control import sites
from wherry.control.host_claims import HostClaims
from wherry.control.plane import Plane
from wherry.core.compute_configs import HostConfig
from wherry.core.errors import TargetUnavailableError, UserErrorException
from wherry.core.resources import Resources
from wherry.drivers.memory import MemoryDriver
from wherry.store import nodes

ONE, TWO = HostConfig.parse("one.lab"), HostConfig.parse({"address": "two.lab", "cores": 8})
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJmMdWzpyGJBTAdGqUMtT2y0nGl1z2Vn0wV4eJ8c1hQX"
POOL = {"kind": "ssh", "config": {"hosts": [ONE.to_dict(), TWO.to_dict()]}}


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    sites.put(plane, "lab", POOL)
    return plane


def test_a_host_is_free_until_a_node_takes_it(plane: Plane) -> None:
    assert [host["state"] for host in hosts(plane)] == ["free", "free"]
    add_node(plane, "n1")
    HostClaims(plane, "lab").take("n1", [ONE, TWO])
    one, two = hosts(plane)
    assert (one["state"], one["target"], one["node"]) == ("taken", "w/pool", "n1")
    assert (two["state"], two["target"], two["node"]) == ("free", None, None)
    record = sites.show(plane, "lab")
    assert (record["host_counts"]["free"], record["host_counts"]["taken"]) == (1, 1)
    HostClaims(plane, "lab").give_back("n1")
    assert hosts(plane)[0]["state"] == "free"


def test_what_a_host_has_is_known_once_it_was_seen(plane: Plane) -> None:
    assert [host["cpu"] for host in hosts(plane)] == [None, 8]
    HostClaims(plane, "lab").saw(ONE, Resources(4, 2**33, 1))
    one = hosts(plane)[0]
    assert (one["cpu"], one["memory_bytes"], one["gpu"]) == (4, 2**33, 1)


@pytest.mark.parametrize(
    ("cause", "state"),
    [("port_closed", "unreachable"), ("lost", "unreachable"), ("credentials", "set aside")],
)
def test_a_host_that_failed_says_why_until_it_is_seen_again(
    plane: Plane, cause: str, state: str
) -> None:
    claims = HostClaims(plane, "lab")
    claims.saw(TWO, Resources(8, 2**33, 2))
    claims.missed(TWO, TargetUnavailableError("two.lab is not well", cause=cause))
    two = hosts(plane)[1]
    assert (two["state"], two["reason"], two["gpu"]) == (state, "two.lab is not well", 2)
    assert sites.show(plane, "lab")["problem"] == (
        "1 of 2 hosts cannot be used: two.lab is not well"
    )
    assert sorted([TWO, ONE], key=claims.trouble) == [ONE, TWO]
    claims.saw(TWO, Resources(8, 2**33, 2))
    assert hosts(plane)[1]["state"] == "free"
    assert sites.show(plane, "lab")["problem"] is None


def test_a_site_that_is_changed_is_believed_again(plane: Plane) -> None:
    HostClaims(plane, "lab").missed(ONE, TargetUnavailableError("no", cause="key"))
    sites.change(plane, "lab", {"secrets": {"password": "another"}})
    assert hosts(plane)[0]["state"] == "free"


@pytest.mark.parametrize(("answers", "state"), [(False, "unreachable"), (True, "set aside")])
def test_the_host_of_a_node_that_cannot_be_used_says_so(
    plane: Plane, answers: bool, state: str
) -> None:
    """Unreachable if that is why: a node with a full disk answers."""
    add_node(plane, "n1")
    claims = HostClaims(plane, "lab")
    claims.take("n1", [ONE])
    claims.missed(ONE, TargetUnavailableError("one.lab is off", cause="port_closed"))
    if answers:
        claims.saw(ONE, Resources(1, 0, 0))
    with plane.write() as connection:
        nodes.move(connection, "n1", nodes.UNUSABLE, plane.now(), reason="one.lab is off")
    one = hosts(plane)[0]
    assert (one["state"], one["reason"], one["target"]) == (state, "one.lab is off", "w/pool")


def test_secrets_of_another_key_are_the_problem_of_the_site(plane: Plane) -> None:
    sites.put(plane, "lab", {**POOL, "secrets": {"password": "x"}})
    plane.secret = b"another"
    assert "sealed with another key" in sites.show(plane, "lab")["problem"]


def hosts(plane: Plane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sites.show(plane, "lab")["hosts"]
    return found


def add_node(plane: Plane, node_id: str) -> None:
    now = plane.now()
    node = {
        **{"id": node_id, "target": "w/pool", "site": "lab", "name": "", "config": {}},
        **{"state": nodes.PREPARING, "reason": "", "cpu": 1.0, "memory_bytes": 0, "gpus": []},
        **{"size": "cpu1", "price": 0.0, "tries": 0, "created_at": now, "state_since": now},
    }
    with plane.write() as connection:
        nodes.add(connection, [node])


def test_a_host_that_stays_keeps_the_key_that_it_has_shown(plane: Plane) -> None:
    """A file that is sent again says nothing of keys that were found."""
    HostClaims(plane, "lab").pin(ONE, {"host_key": KEY, "jump_host_keys": []})
    sites.put(plane, "lab", POOL)
    sites.change(plane, "lab", {"config": {"hosts": ["one.lab", "two.lab", "three.lab"]}})
    kept = [host["host_key"] for host in sites.show(plane, "lab")["config"]["hosts"]]
    assert kept == [KEY, "", ""]
    other = {"address": "one.lab", "host_key": KEY.replace("A", "B")}
    sites.put(plane, "lab", {"kind": "ssh", "config": {"hosts": [other]}})
    said = sites.show(plane, "lab")["config"]["hosts"][0]["host_key"]
    assert said == KEY.replace("A", "B")


def test_a_site_is_not_called_like_a_region(plane: Plane) -> None:
    """Nothing could ever be made there: as a location that name means this machine."""
    with pytest.raises(UserErrorException, match="a region of Azure"):
        sites.put(plane, "eastus", POOL)
