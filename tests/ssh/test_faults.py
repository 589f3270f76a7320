"""What goes wrong with a machine over SSH is told, bounded and healed."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from tests.sshd import Sshd, until
from wherry.core.errors import TargetUnavailableError
from wherry.core.lifecycle import Phase
from wherry.core.resources import Resources
from wherry.drivers import agent_bundle, agent_lines, ssh_connection
from wherry.drivers.base import Launch
from wherry.drivers.ssh import SshDriver
from wherry.testing.driver_contract import DriverContract
from wherry.testing.evidence import look


def launch(program: str, *arguments: str, **options: Any) -> Launch:
    return DriverContract().launch(program, *arguments, **options)


@pytest.fixture
def driver(own_sshd: Sshd, tmp_path: Path) -> Iterator[SshDriver]:
    own_sshd.start()
    driver = SshDriver(own_sshd.host(), str(tmp_path / "node"))
    yield driver
    driver.close()


def agent_of(driver: SshDriver) -> psutil.Process:
    link = driver._shared.line._link
    assert link is not None
    return psutil.Process(int(link.agent.hello["pid"]))


def test_a_hundred_attempts_share_one_connection(own_sshd: Sshd, driver: SshDriver) -> None:
    with ThreadPoolExecutor(16) as threads:
        handles = list(threads.map(driver.submit, [launch("leave", "3") for _ in range(100)]))
    until(lambda: all(each.phase is Phase.EXITED for each in driver.observe(handles).values()))
    assert {each.exit.exit_code for each in driver.observe(handles).values() if each.exit} == {3}
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(driver.release, handles))
    assert own_sshd.logins() == 1


def test_a_connection_that_was_lost_is_made_again(own_sshd: Sshd, driver: SshDriver) -> None:
    handle = driver.submit(launch("linger", "x"))
    own_sshd.drop()
    assert look(driver, handle).phase is Phase.RUNNING
    own_sshd.drop()
    own_sshd.stop()
    with pytest.raises(TargetUnavailableError, match="nothing listens at port"):
        until(lambda: driver.check() is None)
    own_sshd.start()
    until(lambda: answers(driver))
    driver.release(handle)
    assert look(driver, handle).phase is Phase.GONE


def answers(driver: SshDriver) -> bool:
    try:
        driver.check()
    except TargetUnavailableError:
        return False
    return True


def test_an_agent_that_hangs_is_replaced(driver: SshDriver) -> None:
    handle = driver.submit(launch("linger", "x"))
    agent = agent_of(driver)
    agent.send_signal(signal.SIGSTOP)
    with pytest.raises(TargetUnavailableError, match="has not answered for 1 s"):
        driver._ask("check", limit_s=1.0)
    assert look(driver, handle).phase is Phase.RUNNING
    until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE)
    driver.release(handle)


def test_a_machine_that_hangs_keeps_no_other_waiting(
    own_sshd: Sshd, sshd: Sshd, driver: SshDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_connection, "CONNECT_S", 120.0)
    assert own_sshd._process is not None
    own_sshd._process.send_signal(signal.SIGSTOP)  # it takes connections and says nothing
    hanging = threading.Thread(target=driver.check, daemon=True)
    hanging.start()
    try:
        other = SshDriver(sshd.host(), "~/attempts")
        assert other.check().nodes
        other.close()
        assert driver.refuse(Resources(), None) is None  # nor a submission to itself
        assert hanging.is_alive()
    finally:
        own_sshd._process.send_signal(signal.SIGCONT)
    hanging.join(60)
    assert not hanging.is_alive()


def test_another_version_of_the_agent_takes_over(
    own_sshd: Sshd, driver: SshDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = driver.submit(launch("linger", "x"))
    driver.close()
    until(lambda: (own_sshd.host(), "") not in agent_lines.lines._shared)
    monkeypatch.setattr(agent_bundle, "digest", lambda: "0" * 32)
    newer = SshDriver(own_sshd.host(), str(tmp_path / "node"))
    assert look(newer, handle).phase is Phase.RUNNING
    until(lambda: newer.read_log(handle, 0) == b"x")
    newer.release(handle)
    newer.close()
    found = {path.name for path in (own_sshd.home / ".wherry-node" / "agents").iterdir()}
    assert len(found) == 2


def test_a_token_is_not_on_the_nodes_disk(
    own_sshd: Sshd, driver: SshDriver, tmp_path: Path
) -> None:
    wanted = launch("linger", "x", attempt_id=str(uuid4()))
    manifest = json.loads(wanted.files["manifest.json"])
    token = f"token-{uuid4()}"
    files = {"manifest.json": json.dumps({**manifest, "token": token}).encode()}
    handle = driver.submit(replace(wanted, files=files))
    until(lambda: driver.read_log(handle, 0) == b"x")
    found = [
        path
        for place in (tmp_path / "node", own_sshd.home)
        for path in place.rglob("*")
        if path.is_file() and token.encode() in path.read_bytes()
    ]
    driver.release(handle)
    assert found == []


def test_credentials_that_were_refused_are_not_tried_again_at_once(
    own_sshd: Sshd, sshd: Sshd, tmp_path: Path
) -> None:
    own_sshd.start()
    driver = SshDriver(own_sshd.host(private_key=sshd.key), str(tmp_path / "node"))
    for _ in range(3):
        with pytest.raises(TargetUnavailableError, match="refused user"):
            driver.check()
        time.sleep(0.7)  # longer than the pause after other troubles
    driver.close()
    assert own_sshd.refusals() == 1


def test_a_closed_driver_says_so(driver: SshDriver) -> None:
    driver.close()
    with pytest.raises(TargetUnavailableError, match="was closed"):
        driver.check()


def test_what_a_machine_could_never_run_is_refused(own_sshd: Sshd, driver: SshDriver) -> None:
    driver.check()
    refusal = driver.refuse(Resources(cpu=10_000), None)
    assert refusal is not None
    assert f"{own_sshd.host()} has" in refusal
    assert driver.refuse(Resources(), "/no/such/python") is not None
    assert driver.refuse(Resources(), None) is None


def test_what_is_declared_counts(own_sshd: Sshd, tmp_path: Path) -> None:
    own_sshd.start()
    driver = SshDriver(own_sshd.host(), str(tmp_path / "node"), cpus=64, memory_bytes=1 << 40)
    assert driver.check().nodes[0].resources == Resources(64, 1 << 40, 0)
    driver.close()
