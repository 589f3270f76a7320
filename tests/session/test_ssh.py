"""A session on another machine: its notebooks reach the server through the tunnel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import sshd as servers
from tests.homes import wait_until
from tests.jupyter import Kernel
from tests.session.conftest import Instance
from tests.sshd import Sshd, user
from wherry import RemoteCompute

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

_ASKS = "from wherry import Workspace; print(sorted(Workspace.from_config().experiments))"


@pytest.fixture
def host(tmp_path: Path, shared_cache: Path, instance: Instance) -> Iterator[Sshd]:
    if servers.missing():
        pytest.skip(servers.missing())
    with servers.serving(tmp_path / "sshd", "127.0.0.7", shared_cache) as sshd:
        RemoteCompute.attach(
            instance.workspace,
            "lab",
            username=user(),
            address=sshd.address,
            ssh_port=sshd.port,
            private_key_file=str(sshd.folder / "key"),
        ).wait_for_completion()
        instance.target = "lab"
        yield sshd
        instance.stop()
        wait_until(lambda: not _on(sshd), 120)


def test_a_notebook_on_a_host_follows_its_server(instance: Instance, host: Sshd) -> None:
    lab = instance.start(home="")
    with lab.kernel() as kernel:
        assert kernel.run(_ASKS) == "['session']\n"
        assert kernel.run("!echo $HOME; pwd").split() == [
            str(host.home), str(host.home / "wherry-instances" / "nb"),
        ]  # fmt: skip
        instance.wherry.kill_server()
        assert not instance.ended()  # whoever asks starts another one
        wait_until(lambda: _answered(kernel), 300)


def _answered(kernel: Kernel) -> bool:
    """The new server has yet to make its tunnel."""
    try:
        return kernel.run(_ASKS) == "['session']\n"
    except AssertionError:
        return False


def _on(sshd: Sshd) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("JUPYTER_CONFIG_DIR", "").startswith(str(sshd.home)):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
