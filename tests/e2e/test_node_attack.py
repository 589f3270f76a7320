"""Scripts that do to their node what scripts do, through the server and the real runner."""

from __future__ import annotations

import pytest

from tests.homes import Home

EMPTIES_ITS_LOG = """
import os, sys, time
print("before", flush=True)
time.sleep(0.5)
os.system("echo warning > /dev/stderr")
print("after", flush=True)
"""

LEAVES_A_RESPAWNER = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until = time.time() + 120
    while time.time() < until:
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
time.sleep(0.5)
"""

IN_THE_WAY = """
import os
os.rmdir("logs")
os.symlink("/etc", "logs")
open("outputs/kept", "w").write("kept")
os.chmod("..", 0)
"""


def test_a_log_that_is_emptied_loses_nothing(home: Home) -> None:
    run = home.submit(EMPTIES_ITS_LOG)
    run.wait_for_completion()
    run.download_file("user_logs/std_log.txt", str(home.folder / "log"))
    assert (home.folder / "log").read_text() == "before\nwarning\nafter\n"


def test_what_forks_and_leaves_all_the_time_is_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_CANCEL_GRACE_S", "1")
    run = home.submit(LEAVES_A_RESPAWNER)
    assert run.wait_for_completion()["status"] == "Completed"
    ours = {home.server_pid(), *(each.pid for each in home.nurseries())}
    assert [each.pid for each in home.processes() if each.pid not in ours] == []


def test_what_lies_in_the_way_of_the_files_is_told(home: Home) -> None:
    run = home.submit(IN_THE_WAY)
    run.wait_for_completion()
    assert "outputs/kept" in run.get_file_names()
    run.download_file("system_logs/runner.log", str(home.folder / "told"))
    assert "'logs' is not kept: it is a link" in (home.folder / "told").read_text()
