from __future__ import annotations

import pytest

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.resources import Resources
from wherry.drivers.base import Driver, Handle, Launch, Preflight
from wherry.drivers.memory import MemoryBackend, MemoryDriver

LAUNCH = Launch("a1", ["anything"])


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def driver(backend: MemoryBackend) -> MemoryDriver:
    return MemoryDriver(backend)


def look(driver: Driver, handle: Handle) -> Observation:
    return driver.observe([handle])[handle]


def test_the_test_says_what_becomes_of_it(backend: MemoryBackend, driver: MemoryDriver) -> None:
    handle = driver.submit(LAUNCH)
    assert look(driver, handle).phase is Phase.PENDING
    backend.begin("a1")
    assert look(MemoryDriver(backend), handle).phase is Phase.RUNNING
    backend.end("a1", ExitRecord(exit_code=3))
    assert look(driver, handle) == Observation(Phase.EXITED, ExitRecord(exit_code=3))
    assert driver.submit(LAUNCH) == handle
    assert backend.starts == {"a1": 1}


def test_an_attempt_may_vanish(backend: MemoryBackend, driver: MemoryDriver) -> None:
    handle = driver.submit(LAUNCH)
    backend.lose("a1")
    assert look(driver, handle) == Observation(Phase.GONE)


@pytest.mark.parametrize("force", [False, True])
def test_cancel(backend: MemoryBackend, driver: MemoryDriver, force: bool) -> None:
    handle = driver.submit(LAUNCH)
    driver.cancel(handle, force=force)
    seen = look(driver, handle)
    assert seen.exit == ExitRecord(signal=9 if force else 15, canceled=True)


def test_a_stubborn_one_needs_force(backend: MemoryBackend, driver: MemoryDriver) -> None:
    backend.stubborn.add("a1")
    handle = driver.submit(LAUNCH)
    driver.cancel(handle)
    assert look(driver, handle).phase is Phase.PENDING
    driver.cancel(handle, force=True)
    assert look(driver, handle).phase is Phase.EXITED


def test_an_outage_is_told_by_every_call(backend: MemoryBackend, driver: MemoryDriver) -> None:
    handle = driver.submit(LAUNCH)
    backend.down = True
    for call in (
        driver.check,
        lambda: driver.submit(LAUNCH),
        lambda: driver.observe([handle]),
        lambda: driver.cancel(handle),
        lambda: driver.read_log(handle, 0),
        lambda: driver.release(handle),
    ):
        with pytest.raises(TargetUnavailableError):
            call()
    backend.down = False
    assert look(driver, handle).phase is Phase.PENDING


def test_a_refusal_leaves_nothing(backend: MemoryBackend, driver: MemoryDriver) -> None:
    backend.refusal = "no"
    with pytest.raises(LaunchRefusedError, match="no"):
        driver.submit(LAUNCH)
    assert backend.attempts == {}
    backend.refusal = ""
    driver.submit(LAUNCH)
    assert backend.starts == {"a1": 1}


def test_a_program_that_raises_fails(backend: MemoryBackend) -> None:
    def broken(_job: object) -> int:
        raise ValueError("oh")

    driver = MemoryDriver(MemoryBackend(programs={"broken": broken}))
    handle = driver.submit(Launch("a1", ["broken"]))
    while look(driver, handle).phase is not Phase.EXITED:
        pass
    assert look(driver, handle).exit == ExitRecord(exit_code=1)
    assert b"ValueError: oh" in driver.read_log(handle, 0)


def test_what_it_has(backend: MemoryBackend, driver: MemoryDriver) -> None:
    backend.resources, backend.gpus = Resources(2.0, 1000, 0), ("0", "1")
    node = driver.check().nodes[0]
    assert node.resources == Resources(2.0, 1000, 2)
    assert node.gpus == ("0", "1")
    assert isinstance(driver, Preflight)
    assert driver.refuse(Resources(2.0, 0, 1), None) is None
    assert driver.refuse(Resources(3.0, 0, 0), None) == "asks for 3 CPUs, memory has " + str(
        Resources(2.0, 1000, 2)
    )
