"""An engine on another machine, reached over SSH: a real sshd, a real podman behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd
from tests.homes import wait_until
from tests.podman import BASE, Podman
from tests.sshd import Sshd
from wherry.core.compute_configs import ContainersConfig
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.engine_ways import Ways
from wherry.drivers.site_container import ContainerSite

pytestmark = pytest.mark.containers


@pytest.fixture
def gate(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """Known to this user's ssh, with the key that opens it."""
    if sshd.missing():
        pytest.skip(sshd.missing())
    server = Sshd(tmp_path / "sshd")
    server.start()
    folder = tmp_path / "user" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  Port {server.port}\n  User {sshd.user()}\n"
        f"  IdentityFile {server.folder / 'key'}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    yield server
    server.drop()
    server.stop()


def site(podman: Podman, folder: Path, address: str) -> ContainerSite:
    config = ContainersConfig(address, BASE, network="host", cores=2, memory_bytes=2 << 30)
    root, locks = str(folder / "nodes"), str(folder / "locks")
    return ContainerSite("far", config, "me", root, locks, lambda: "")


def test_nodes_are_made_on_the_engine_of_another_machine(
    gate: Sshd, podman: Podman, tmp_path: Path
) -> None:
    far = site(podman, tmp_path, f"ssh://far{podman.socket}")
    size = far.sizes()[0]
    machine = far.make("n1", size)
    assert "wherry-node-n1" in podman("ps", "--format", "{{.Names}}")
    driver = far.driver("n1", machine)
    assert isinstance(driver, AgentDriver)
    assert driver.check().nodes[0].resources == machine.resources
    assert gate.logins() == 1
    gate.drop()
    wait_until(lambda: _machines(far) == {"n1"})  # by another connection, to the same container
    wait_until(lambda: gate.logins() == 2)
    driver.close()
    far.remove("n1")
    assert far.machines() == {}


def _machines(far: ContainerSite) -> set[str]:
    try:
        return set(far.machines())
    except TargetUnavailableError:  # the drop was not noticed yet
        return set()


def test_what_leads_nowhere_is_told(gate: Sshd, podman: Podman, tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailableError, match="does not answer"):
        site(podman, tmp_path, "ssh://far/no/such.sock").machines()
    gate.stop()
    with pytest.raises(TargetUnavailableError, match="nothing listens at port"):
        Ways().to(f"ssh://127.0.0.1:{gate.port}")
