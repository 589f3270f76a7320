"""What makes a target or a site is taken only if nothing can be made of it but that."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.core.compute_configs import (
    ClusterConfig,
    HostConfig,
    MachineConfig,
    PoolConfig,
    parse_secrets,
    parse_site,
    secrets_for,
)
from wherry.core.errors import UserErrorException
from wherry.core.instance_config import InstanceConfig
from wherry.core.sizes import parse_bytes

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJmMdWzpyGJBTAdGqUMtT2y0nGl1z2Vn0wV4eJ8c1hQX"

ADDRESSES = [
    "",
    "-oProxyCommand=touch /tmp/x",
    "a;id",
    "$(id)",
    "`id`",
    "a b",
    "a\nb",
    "*",
    "x" * 300,
    "h\ud800",
    "h\0",
    "a|b",
    "../x",
    "x\u202e",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_a_name_and_nothing_else(address: str) -> None:
    with pytest.raises(UserErrorException, match="address"):
        MachineConfig.parse({"address": address})
    with pytest.raises(UserErrorException):
        PoolConfig.parse({"hosts": [address]})
    with pytest.raises(UserErrorException):
        MachineConfig.parse({"address": "h", "jump": f"gate,{address}"})


@pytest.mark.parametrize(
    "address", ["node1.lab", "10.0.0.5", "::1", "fe80::1%eth0", "gpu_1", "bücher.example", "a-b"]
)
def test_addresses_that_there_are(address: str) -> None:
    with pytest.raises(UserErrorException, match="names no machine") as error:
        MachineConfig.parse({"address": f"me@{address}"})
    assert "user and port have their own fields" in str(error.value.hint)
    assert MachineConfig.parse({"address": address}).address == address
    assert MachineConfig.parse({"address": "[::1]"}).address == "::1"


@pytest.mark.parametrize(
    "user", ["-oProxyCommand=x", "$(id)", "a b", "a\nb", "a;b", "`id`", "\ud800", "a'b", "a\\"]
)
def test_a_user_is_a_name_and_nothing_else(user: str) -> None:
    with pytest.raises(UserErrorException, match="username"):
        MachineConfig.parse({"address": "h", "username": user})
    with pytest.raises(UserErrorException, match="jump"):
        MachineConfig.parse({"address": "h", "jump": f"{user}@gate"})


def test_users_that_there_are() -> None:
    for user in ("me", "LAB\\me", "me@lab.example", "me.too_1-x", "müller"):
        assert MachineConfig.parse({"address": "h", "username": user}).username == user


@pytest.mark.parametrize(
    "jump", ["@gate", "gate:0", "gate:99999", "gate:x", ",", "::1", "a," * 20 + "a"]
)
def test_a_jump_names_machines(jump: str) -> None:
    with pytest.raises(UserErrorException, match="jump"):
        MachineConfig.parse({"address": "h", "jump": jump})


def test_jumps_that_there_are() -> None:
    for jump in ("gate", "me@gate:22", "a@b:1,c@d", "me@[::1]:22", "[fe80::1]", "a@b.lab@gate"):
        assert MachineConfig.parse({"address": "h", "jump": jump}).jump == jump


@pytest.mark.parametrize(
    "key",
    ["garbage", f"{KEY}\nother ssh-rsa AAAA", "ssh-ed25519", f"{KEY} \nx", "ssh-ed25519 $(x)"],
)
def test_a_host_key_is_one_line_of_a_public_key(key: str) -> None:
    with pytest.raises(UserErrorException, match="host_key"):
        MachineConfig.parse({"address": "h", "host_key": key})


def test_what_is_said_about_a_host_key_is_left_out() -> None:
    assert MachineConfig.parse({"address": "h", "host_key": f"{KEY} root@h"}).host_key == KEY


@pytest.mark.parametrize("port", [0, -1, 65536, True, False, "ssh", 1.5, [], float("nan")])
def test_a_port_is_a_number_of_a_port(port: Any) -> None:
    with pytest.raises(UserErrorException, match="port"):
        MachineConfig.parse({"address": "h", "port": port})


@pytest.mark.parametrize(
    "declared",
    [
        {"cores": 0},
        {"cores": -1},
        {"cores": float("nan")},
        {"cores": True},
        {"memory": -5},
        {"memory": 10**30},
        {"memory": True},
        {"memory": float("nan")},
        {"memory": []},
        {"gpus": -1},
        {"gpus": 1.5},
        {"price_per_hour": -1},
        {"price_per_hour": float("inf")},
    ],
)
def test_what_a_host_declares_is_an_amount(declared: dict[str, Any]) -> None:
    with pytest.raises(UserErrorException):
        HostConfig.parse({"address": "h", **declared})


@pytest.mark.parametrize("name", ["vm_size", "location"])
@pytest.mark.parametrize("text", ["\ud800", "a\0b", 5, ["a"], "x" * 30_000])
def test_texts_are_texts(name: str, text: Any) -> None:
    with pytest.raises(UserErrorException, match=name):
        ClusterConfig.parse({"max_nodes": 1, name: text})


def test_errors_are_short_whatever_was_given() -> None:
    with pytest.raises(UserErrorException) as error:
        ClusterConfig.parse({"max_nodes": "9" * 4000})
    assert len(error.value.message) < 300
    with pytest.raises(UserErrorException) as error:
        ClusterConfig.parse({"max_nodes": 1, "x" * 4000: 1})
    assert len(error.value.message) < 300


def test_ten_thousand_hosts_are_looked_at_once() -> None:
    """Comparing each with each would take minutes."""
    hosts = [f"h{number}" for number in range(10_000)]
    assert len(PoolConfig.parse({"hosts": hosts}).hosts) == 10_000
    with pytest.raises(UserErrorException, match="h7:22 is listed twice"):
        PoolConfig.parse({"hosts": [*hosts[:-1], "h7"]})


def test_sizes_are_those_of_machines() -> None:
    assert parse_bytes(5) == 5
    for size in (-5, 10**30, True):
        with pytest.raises(UserErrorException):
            parse_bytes(size)


def test_a_host_of_a_pool_has_its_own_secrets_or_those_of_all() -> None:
    hosts = [{"address": "a.lab", "port": 22}, {"address": "b.lab", "port": 2222}]
    given = {"private_key": "k", "passphrase": "p", "password@b.lab:2222": " geheim "}
    secrets = parse_secrets(given, hosts)
    assert secrets == given
    assert secrets_for(hosts[0], secrets) == {"private_key": "k", "passphrase": "p", "password": ""}
    own = {"private_key": "", "passphrase": "", "password": " geheim "}
    assert secrets_for(hosts[1], secrets) == own
    with pytest.raises(UserErrorException, match=r"no field 'password@c\.lab:22'"):
        parse_secrets({"password@c.lab:22": "x"}, hosts)
    with pytest.raises(UserErrorException, match=r"no field 'password@a\.lab:22'"):
        parse_secrets({"password@a.lab:22": "x"})


def engine_of(address: str) -> str:
    return str(parse_site("container", {"engine": address, "image": "base"})["engine"])


@pytest.mark.parametrize(
    "address", ["unix:///run/x.sock", "tcp://h:1", "ssh://me@h", "ssh://h:22/run/podman.sock"]
)
def test_an_engine_is_written_as_for_docker(address: str) -> None:
    assert engine_of(address) == address


@pytest.mark.parametrize(
    "address", ["npipe://x", "ssh://me:secret@h", "ssh://", "ssh://h:many", "ssh://-oProxy@h"]
)
def test_an_engine_that_is_none_is_refused_without_what_is_secret(address: str) -> None:
    with pytest.raises(UserErrorException) as caught:
        engine_of(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", ["a\0b", "half of a \ud83d", "x" * 100_001])
def test_a_script_is_a_text_that_can_be_written_to_a_file(content: str) -> None:
    for name in ("creation_script", "startup_script"):
        with pytest.raises(UserErrorException, match=f"{name} is not a text of at most"):
            InstanceConfig.parse({name: {"content": content}})
    InstanceConfig.parse({"startup_script": {"content": "echo ü 😀\r\n"}})


def test_a_private_key_is_not_taken_for_a_public_one() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"
    with pytest.raises(UserErrorException, match="ssh_public_key holds a private key") as refused:
        InstanceConfig.parse({"ssh_public_key": key})
    assert "b3Blb" not in f"{refused.value} {refused.value.hint}"
