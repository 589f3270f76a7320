"""Drills on hosts of a pool that are reached by SSH, each with an sshd of its own."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
from tests import sshd as servers
from tests.networks import Network
from tests.sshd import Sshd, make_key

from chaos import clusters
from chaos.books import WORKSPACE, Entry
from chaos.disks import disk, fill_for
from chaos.workload import Workload, insist
from chaos.world import Stage, Unavailable, send, wait_until
from wherry import Run, Workspace
from wherry.compute import RemoteCompute
from wherry.core.errors import ComputeTargetException, NotFoundError

_SITE = "lab"
_AWAY_S = ((1, 3), (1, 3), (60, 90), (10, 30))
_LET_GO_S = 60.0
_CUT_S = ((1, 3), (1, 3), (120, 240), (10, 60))
_KEPT = ("agents", "programs")


@contextmanager
def pool(folder: Path) -> Iterator[Stage]:
    """Two hosts, that one key opens."""
    with _serving(folder, [_host(folder, number) for number in range(2)]) as hosts:
        yield Stage(hosts=hosts)


@contextmanager
def small_pool(folder: Path) -> Iterator[Stage]:
    """The same; the first has little room, but enough to be used."""
    with disk(folder / "hosts/0/home", 96), pool(folder) as stage:
        yield stage


@contextmanager
def far_pool(folder: Path) -> Iterator[Stage]:
    """The same, each in a network of its own."""
    with ExitStack() as stack:
        networks = [Network(), Network()]
        for network in networks:
            stack.callback(network.remove)
            try:
                network.make()
            except OSError as error:
                raise Unavailable(f"no network of its own can be made here: {error}") from None
        hosts = [Far(folder / f"hosts/{n}", network) for n, network in enumerate(networks)]
        yield Stage(hosts=stack.enter_context(_serving(folder, hosts)))


class Far(Sshd):
    """At the end of a wire that can be cut."""

    def __init__(self, folder: Path, network: Network) -> None:
        inside = ["ip", "netns", "exec", network.name]
        super().__init__(folder, network.address, folder.parent / "cache", inside, port=22)
        self.network = network


def _host(folder: Path, number: int) -> Sshd:
    return Sshd(folder / f"hosts/{number}", f"127.0.0.{5 + number}", folder / "cache")


@contextmanager
def _serving(folder: Path, hosts: Sequence[Sshd]) -> Iterator[Sequence[Sshd]]:
    with ExitStack() as stack:
        for host in hosts:
            shutil.copy(hosts[0].folder / "key.pub", host.folder / "authorized_keys")
            stack.enter_context(served(folder, host))
        yield hosts


@contextmanager
def served(folder: Path, host: Sshd, **options: str) -> Iterator[None]:
    """What runs there knows the ledger."""
    settings = {
        "HOME": host.home,
        "WHERRY_CACHE": host.cache,
        "CHAOS_LEDGER": folder / "ledger",
    }
    told = " ".join(f"{name}={value}" for name, value in settings.items())
    if servers.missing():
        raise Unavailable(servers.missing())
    try:
        host.start({"SetEnv": told, **options})
        yield
    finally:
        away(host)
        for process in processes_on(host):
            send(process.pid, signal.SIGKILL)


@contextmanager
def site(work: Workload) -> Iterator[None]:
    """The pool. At last nothing of ours is on its hosts any more."""
    hosts = work.world.hosts
    wanted = {
        "kind": "ssh",
        "config": {
            "hosts": [{"address": each.address, "port": each.port} for each in hosts],
            "username": servers.user(),
        },
        "secrets": {"private_key": hosts[0].key},
    }
    client = Workspace.get(WORKSPACE)._client
    client.request("PUT", f"/sites/{_SITE}", json=wanted)
    yield
    insist(lambda: client.request("DELETE", f"/sites/{_SITE}"))
    check_left(hosts)


def check_left(hosts: Sequence[Sshd]) -> None:
    with suppress(TimeoutError):
        wait_until(lambda: not any(map(_left, hosts)), "letting hosts go", _LET_GO_S)
    left = [fault for host in hosts for fault in _left(host)]
    assert not left, "; ".join(left)


@contextmanager
def lab(work: Workload) -> Iterator[None]:
    """A cluster of the pool's hosts, to which runs go."""
    with site(work), clusters.cluster(work, vm_size="", location=_SITE):
        yield


def stop_sshd(work: Workload, rounds: int) -> None:
    """It ends with every connection, and is started again: runs go on meanwhile."""
    with lab(work):
        for number in range(rounds):
            seconds = work.chance.uniform(*_AWAY_S[number % len(_AWAY_S)])
            work.submit(count=30, pause_s=0.05)
            work.submit(count=20, pause_s=seconds / 15)
            time.sleep(work.chance.uniform(0, 4))
            struck = work.chance.choice((work.world.hosts, work.world.hosts[:1]))
            for host in struck:
                away(host)
            time.sleep(seconds)
            for host in struck:
                host.start()
            work.settle(240 + 2 * seconds)


def kill_host(work: Workload, rounds: int) -> None:
    """Everything on one host is gone at once; later it is there again."""
    with lab(work):
        for _ in range(rounds):
            for entry in [work.submit(count=40, pause_s=0.05)[1] for _ in range(2)]:
                entry.may_be_lost = True
            host = work.chance.choice(work.world.hosts)
            wait_until(partial(processes_on, host), "work on the host")
            time.sleep(work.chance.uniform(0, 2))
            for process in processes_on(host):
                send(process.pid, signal.SIGKILL)
            away(host)
            time.sleep(work.chance.uniform(0, 3))
            host.start()
            work.settle()


def cut_off(work: Workload, rounds: int) -> None:
    """One host is out of reach, and the server knows nothing of what runs there meanwhile."""
    with lab(work):
        for number in range(rounds):
            seconds = work.chance.uniform(*_CUT_S[number % len(_CUT_S)])
            work.submit(count=30, pause_s=0.05)
            work.submit(count=20, pause_s=seconds / 15)
            time.sleep(work.chance.uniform(0, 4))
            host = work.chance.choice(work.world.hosts)
            assert isinstance(host, Far)
            host.network.cut()
            time.sleep(seconds / 2)
            work.submit(count=3)
            time.sleep(seconds / 2)
            host.network.heal()
            work.settle(240 + 2 * seconds)


def give_up(work: Workload, rounds: int) -> None:
    """A host that is cut off is declared lost. It comes back, and is rid of what it still ran."""
    with lab(work):
        for _ in range(rounds):
            sent = [work.submit(count=300, pause_s=0.2) for _ in range(2)]
            for _, entry in sent:
                entry.may_be_lost = entry.given_up = True
            wait_until(partial(_begun, work, sent), "both runs' begin")
            host = work.chance.choice(work.world.hosts)
            assert isinstance(host, Far)
            host.network.cut()
            insist(partial(_declare_lost, host), 240)
            if work.chance.random() < 0.5:
                send(work.world.server_pid(), signal.SIGKILL)
            work.submit(count=3)
            time.sleep(work.chance.uniform(0, 10))
            host.network.heal()
            work.settle()
            ends = sorted(insist(run.get_status) for run, _ in sent)
            assert ends == ["Completed", "Failed"], f"one host was given up, the runs are {ends}"
            wait_until(partial(_is_rid, host), "ending what a lost host still ran", 240)


def _begun(work: Workload, sent: list[tuple[Run, Entry]]) -> bool:
    ledger = work.world.ledger.read_text()
    return all(f"said {entry.token}" in ledger for _, entry in sent)


def _declare_lost(host: Sshd) -> None:
    with suppress(NotFoundError):  # done already, and the answer was lost
        clusters.found("pool").give_up_node(host.address)


def _is_rid(host: Sshd) -> bool:
    """Of attempts; who looks after them may be there."""
    return not _folders(host) and not any(map(_is_of_attempt, processes_on(host)))


def _is_of_attempt(process: psutil.Process) -> bool:
    with suppress(psutil.Error, OSError):
        return "WHERRY_ATTEMPT_ID" in process.environ()
    return False


def refuse(work: Workload, rounds: int) -> None:
    """One host refuses our key or shows another one of its own: the other one does the work."""
    with lab(work):
        work.submit(count=1)
        work.submit(count=1)
        work.settle()  # both keys are pinned
        for number in range(rounds):
            host = work.chance.choice(work.world.hosts)
            with (_other_host_key, _other_user_key)[number % 2](host):
                time.sleep(work.chance.uniform(0, 3))
                sent = [work.submit(count=3)[0] for _ in range(3)]
                _attach_in_vain(host)
                wait_until(partial(_done, sent), "work on the other host", 240)
            work.submit(count=3)
            work.settle(480)  # a host that refused is left alone for minutes


def kill_scaling(work: Workload, rounds: int) -> None:
    """The server dies while hosts are taken and given back."""
    with site(work):
        clusters.kill_scaling(work, rounds, max_nodes=2, vm_size="", location=_SITE)


def exhaust(work: Workload, rounds: int) -> None:
    """Two clusters want the same two hosts."""
    with site(work):
        clusters.exhaust(work, rounds, 2, vm_size="", location=_SITE)


def fill_host(work: Workload, rounds: int) -> None:
    """One host has no room: what was written is kept, and runs go on when there is some."""
    with lab(work):
        for _ in range(rounds):
            for entry in [work.submit(count=60, pause_s=0.02)[1] for _ in range(2)]:
                entry.may_be_lost = True  # a script whose print fails may well give up
            time.sleep(work.chance.uniform(0.1, 4))
            fill_for(work.world.hosts[0].home, work.chance.uniform(1, 3))
            work.settle()
    used = work.world.hosts[0].home / ".wherry-node/programs"
    assert used.exists(), "the host that was filled was never used"


def processes_on(host: Sshd) -> list[psutil.Process]:
    """What was started there by us, but sshd's own."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("HOME") == str(host.home):
                found.append(process)
    return found


@contextmanager
def _other_host_key(host: Sshd) -> Iterator[None]:
    with _replaced(host.folder / "host_key"):
        make_key(host.folder / "host_key")
        away(host)
        host.start()
        yield
    away(host)
    host.start()


@contextmanager
def _other_user_key(host: Sshd) -> Iterator[None]:
    with _replaced(host.folder / "authorized_keys"):
        (host.folder / "authorized_keys").write_text("")
        away(host)
        host.start()
        yield


@contextmanager
def _replaced(path: Path) -> Iterator[None]:
    kept = path.with_name(f"kept_{path.name}")
    shutil.copy(path, kept)
    yield
    kept.replace(path)


def _attach_in_vain(host: Sshd) -> None:
    """With a password that opens nothing: that is told, and nothing stays."""
    machine = RemoteCompute.attach(
        Workspace.get(WORKSPACE),
        "vm",
        username=servers.user(),
        address=host.address,
        ssh_port=host.port,
        password="wrong",
    )
    told = ""
    try:
        machine.wait_for_completion()
    except ComputeTargetException as error:
        told = str(error)
    assert "refused user" in told, told or "a wrong password opened the host"
    machine.detach()
    wait_until(lambda: "vm" not in Workspace.get(WORKSPACE).compute_targets, "the detaching")


def _done(sent: list[Run]) -> int:
    """How many are; one that was given the host before waits until it is back."""
    return sum(insist(run.get_status) == "Completed" for run in sent)


def away(host: Sshd) -> None:
    """Neither those that are connected nor new ones are served."""
    sessions = host.sessions()
    host.stop()
    for session in sessions:
        with suppress(psutil.Error):
            for process in [session, *session.children()]:
                if "sshd" in process.name():
                    process.kill()


def _folders(host: Sshd) -> list[Path]:
    """Of attempts."""
    ours = [path for path in host.home.glob(".wherry-node/*") if path.name not in _KEPT]
    return [path for place in ours for path in place.glob("[!.]*") if path.is_dir()]


def _left(host: Sshd) -> list[str]:
    return [
        *(f"a connection to {host.address}: {each.pid}" for each in host.sessions()),
        *(f"a process on {host.address}: {each}" for each in processes_on(host)),
        *(f"a folder on {host.address}: {path}" for path in _folders(host)),
    ]
