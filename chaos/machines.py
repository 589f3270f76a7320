"""Drills on a machine that is attached by its address: its password changes, it boots anew."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import sshd as servers
from tests.sshd import Sshd
from tests.users import User

from chaos import hosts
from chaos.books import WORKSPACE
from chaos.workload import Workload, insist
from chaos.world import Stage, Unavailable, send, wait_until
from wherry import Workspace
from wherry.compute import ComputeTarget, RemoteCompute
from wherry.core.errors import ComputeTargetException

_NAME = "vm"
_REFUSALS = 6
_OTHER_BOOT = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


class Guarded(Sshd):
    """Lets one user in, by a password."""

    def __init__(self, folder: Path, address: str, user: User) -> None:
        super().__init__(folder, address)
        self.user = user

    def refused_passwords(self) -> int:
        return (self.folder / "log").read_text().count("Failed password for ")


class Bootable(Sshd):
    """Has the id of its boot from a file."""

    def __init__(self, folder: Path, address: str) -> None:
        self._boot = folder / "boot_id"
        self._machine = ["unshare", "--mount", "sh", "-c", _OTHER_BOOT, str(self._boot)]
        super().__init__(folder, address, inside=self._machine)
        self._boot.write_text(f"{uuid.uuid4()}\n")

    def can_boot(self) -> bool:
        if shutil.which("unshare") is None:
            return False
        tried = subprocess.run([*self._machine, "true"], capture_output=True, check=False)
        return tried.returncode == 0

    def boot_anew(self, away_s: float) -> None:
        hosts.away(self)
        for process in hosts.processes_on(self):
            send(process.pid, signal.SIGKILL)
        self._boot.write_text(f"{uuid.uuid4()}\n")
        time.sleep(away_s)
        self.start()


@contextmanager
def guarded(folder: Path) -> Iterator[Stage]:
    """Whoever logs in there is another user than the one who submits."""
    user = User()
    try:
        user.make()
    except OSError as error:
        raise Unavailable(str(error)) from None
    try:
        folder.chmod(0o711)
        (folder / "ledger").touch()
        (folder / "ledger").chmod(0o666)
        host = Guarded(folder / "hosts/0", "127.0.0.7", user)
        host.home.chmod(0o777)
        with hosts.served(folder, host, PasswordAuthentication="yes"):
            yield Stage(hosts=[host])
    finally:
        user.remove()


@contextmanager
def bootable(folder: Path) -> Iterator[Stage]:
    host = Bootable(folder / "hosts/0", "127.0.0.8")
    if not host.can_boot():
        raise Unavailable("no machine that boots can be made here")
    with hosts.served(folder, host):
        yield Stage(hosts=[host])


def change_password(work: Workload, rounds: int) -> None:
    """The password that the server knows opens nothing any more, until it is told the new one."""
    host = work.world.hosts[0]
    assert isinstance(host, Guarded)
    user = host.user
    with _attached(work, username=user.name, password=user.password):
        for number in range(rounds):
            work.submit(count=30, pause_s=0.05)
            work.submit(count=20, pause_s=0.3)
            time.sleep(work.chance.uniform(0, 4))
            refused = host.refused_passwords()
            user.change_password()
            hosts.away(host)
            host.start()
            wait_until(lambda: "refused user" in str(_found().problem), "telling of the password")
            work.submit(count=3)
            time.sleep(work.chance.uniform(0, 10))
            if number % 2:
                _tell_password("wrong")
                wait_until(lambda: _found().provisioning_state == "Failed", "telling of another")
            refused = host.refused_passwords() - refused
            assert refused <= _REFUSALS, f"{refused} times a password was tried that is refused"
            _tell_password(user.password)
            work.settle()


def reboot(work: Workload, rounds: int) -> None:
    """What ran is lost, and told as what it is; what had not begun is executed afterwards."""
    host = work.world.hosts[0]
    assert isinstance(host, Bootable)
    key = str(host.folder / "key")
    with _attached(work, username=servers.user(), private_key_file=key):
        for _ in range(rounds):
            sent = [work.submit(count=40, pause_s=0.05) for _ in range(3)]
            for _, entry in sent:
                entry.may_be_lost = True
            wait_until(lambda: hosts.processes_on(host), "work on the machine")
            time.sleep(work.chance.uniform(0, 4))
            host.boot_anew(work.chance.uniform(0, 3))
            work.settle()
            for run, _ in sent:
                told = str((insist(run.get_details).get("error") or {}).get("message"))
                assert run.get_status() != "Failed" or "was restarted" in told, told


@contextmanager
def _attached(work: Workload, **credentials: str) -> Iterator[None]:
    """Runs go there. At last nothing of ours is there any more."""
    host = work.world.hosts[0]
    workspace = Workspace.get(WORKSPACE)
    where = {"address": host.address, "ssh_port": host.port}
    _attach_in_vain(workspace, {**where, **credentials, "password": "wrong"})
    machine = RemoteCompute.attach(workspace, _NAME, **where, **credentials)  # type: ignore[arg-type]
    machine.wait_for_completion()
    work.target = _NAME
    yield
    work.settle()
    insist(lambda: _found().detach())
    wait_until(lambda: _NAME not in insist(_names), "the detaching")
    hosts.check_left([host])


def _attach_in_vain(workspace: Workspace, fields: dict[str, object]) -> None:
    """By a password alone that opens nothing; what failed may be attached again."""
    fields = {name: value for name, value in fields.items() if name != "private_key_file"}
    told = ""
    try:
        RemoteCompute.attach(workspace, _NAME, **fields).wait_for_completion()  # type: ignore[arg-type]
    except ComputeTargetException as error:
        told = str(error)
    assert "refused user" in told, told or "a wrong password opened the machine"


def _tell_password(password: str) -> None:
    insist(lambda: _found()._patch({"secrets": {"password": password}}))


def _found() -> ComputeTarget:
    return insist(lambda: ComputeTarget(Workspace.get(WORKSPACE), _NAME))


def _names() -> list[str]:
    return [str(name) for name in Workspace.get(WORKSPACE).compute_targets]
