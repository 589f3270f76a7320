"""Keys of machines that are made: the same every time, another for each, and what they sign."""

from __future__ import annotations

from typing import Any

import asyncssh
import pytest

from wherry.core.errors import UserErrorException
from wherry.drivers import machine_image
from wherry.drivers.container_ports import is_taken, published
from wherry.drivers.machine_keys import MachineKeys


def test_keys_are_derived() -> None:
    keys, again = MachineKeys(b"s" * 32, "m1"), MachineKeys(b"s" * 32, "m1")
    assert (keys.login, keys.mark) == (again.login, again.mark)
    assert keys.host.public == again.host.public
    found = {keys.login.public, keys.host.public}
    for other in (MachineKeys(b"s" * 32, "m2"), MachineKeys(b"t" * 32, "m1")):
        found |= {other.login.public, other.host.public}
    assert len(found) == 6
    opened = asyncssh.import_private_key(keys.login.private)
    assert opened.export_public_key().decode().split()[:2] == keys.login.public.split()


def test_a_certificate_is_for_one_key_and_one_user() -> None:
    keys = MachineKeys(b"s" * 32, "m1")
    mine = asyncssh.generate_private_key("ssh-ed25519")
    text = keys.sign(mine.export_public_key().decode(), "root", "owner", 300)
    found: Any = asyncssh.import_certificate(text)
    assert found.principals == ["root"]
    assert found.key == mine.convert_to_public()
    assert found.signing_key == asyncssh.import_public_key(keys.login.public)
    with pytest.raises(UserErrorException, match="no public key"):
        keys.sign("ssh-ed25519 nonsense", "root", "owner", 300)


def test_variables_of_the_image_are_handed_on() -> None:
    given = ["PATH=/opt/bin:/bin", "A=b c", 'B="', "C=\n", "1=x"]
    config = machine_image.sshd_config("127.0.0.1", 2222, given)
    assert 'SetEnv "PATH=/opt/bin:/bin" "A=b c"\n' in config
    assert "Port 2222\nListenAddress 127.0.0.1\n" in config
    assert "SetEnv WHERRY_MACHINE=1" in machine_image.sshd_config("127.0.0.1", 2222, [])


def test_where_a_container_listens() -> None:
    ports = {"2222/tcp": [{"HostIp": "127.0.0.1", "HostPort": "40001"}]}
    seen = {"Config": {"Labels": None}, "NetworkSettings": {"Ports": ports}}
    assert published(seen) == 40001
    assert published({"Config": {"Labels": {"wherry.port": "7"}}}) == 7
    assert published({"Config": {"Labels": {}}}) == 0
    assert is_taken("Bind for 127.0.0.1:22 failed: port is already allocated")
    assert not is_taken("no such image")
