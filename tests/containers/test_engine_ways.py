"""An engine on another machine, reached over SSH: a real sshd, a real podman behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd
from tests.containers.test_machines import left, log_of, machine, put_site, ran
from tests.homes import Home, wait_until
from tests.podman import BASE, Podman
from tests.sshd import Sshd
from wherry import Workspace
from wherry.cli.app import run as wherry
from wherry.core.compute_configs import ContainersConfig
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.engine_ways import Ways
from wherry.drivers.site_container import ContainerSite
from wherry.drivers.site_machines import ContainerMachines

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
    node = far.make("n1", size)
    assert "wherry-node-n1" in podman("ps", "--format", "{{.Names}}")
    driver = far.driver("n1", node)
    assert isinstance(driver, AgentDriver)
    assert driver.check().nodes[0].resources == node.resources
    for logins in range(1, 11):  # whatever moment of a request a drop hits
        assert gate.logins() == logins
        gate.drop()
        wait_until(lambda: _machines(far) == {"n1"})  # by another connection
        wait_until(lambda n=logins: gate.logins() == n + 1)  # type: ignore[misc]
    driver.close()
    far.remove("n1")
    assert far.machines() == {}


def test_a_machine_there_is_reached_through_that_host(
    gate: Sshd, podman: Podman, tmp_path: Path
) -> None:
    far = site(podman, tmp_path, f"ssh://far{podman.socket}")
    makes = ContainerMachines(far, owner="o1", secret=b"secret")
    made = makes.make("n1", makes.sizes()[0], "h1")
    assert made.config["jump"] == "far"
    before = gate.logins()
    driver = makes.driver("n1", made)
    assert isinstance(driver, AgentDriver)
    assert driver.check().nodes[0].resources == made.resources
    assert gate.logins() == before + 1  # on the way to the machine
    driver.close()
    podman("kill", "wherry-node-n1")
    stopped = makes.driver("n1", made)
    assert isinstance(stopped, AgentDriver)
    with pytest.raises(TargetUnavailableError, match="machine wherry-node-n1 has stopped"):
        stopped.check()
    stopped.close()
    assert makes.make("n1", makes.sizes()[0], "h1").config["host_key"] == made.config["host_key"]
    makes.remove("n1")
    makes.forget("h1")
    assert makes.machines() == {}


def test_such_a_machine_is_made_used_and_deleted_by_a_server(
    gate: Sshd, home: Home, podman: Podman, capfd: pytest.CaptureFixture[str]
) -> None:
    put_site(podman, engine=f"ssh://far{podman.socket}")
    workspace = Workspace.create("w", exist_ok=True)
    made = machine(workspace)
    made.wait_for_completion()
    assert "note" in log_of(home, ran(home, "print('note')\n"))
    assert wherry(["compute", "connect-ssh", "mydsvm", "-w", "w", "--print", "--", "id"]) == 0
    assert " -J far " in capfd.readouterr().out
    made.delete()
    made.wait_for_completion(is_delete_operation=True)
    assert left(podman) == ([], [])


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
