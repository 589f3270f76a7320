"""The whole program, with a small server in the place of JupyterLab and no server of Wherry."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.homes import wait_until
from tests.jupyter import Lab
from wherry.core.sessions import variables

_SOURCE = Path(__file__).resolve().parents[3] / "src"
_QUICK = (
    "import sys; from wherry.session import __main__ as m; m._BACKOFF_S = (0.01, 0.01);"
    " m._START_S = {start_s}; m._GRACE_S = {grace_s}; sys.exit(m.main())"
)
_FAKE = """
import http.server, os, socketserver, sys
options = dict(each[2:].split("=", 1) for each in sys.argv[1:])
assert os.environ["JUPYTER_TOKEN"] not in " ".join(sys.argv)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = options["ServerApp.base_url"] + "api/status"
        known = self.headers["Authorization"] == "token " + os.environ["JUPYTER_TOKEN"]
        self.send_response(200 if known and self.path == wanted else 404)
        self.end_headers()
        self.wfile.write(b'{"kernels": 0}')
    def address_string(self):
        return "socket"
print("here I am, with token", os.environ["JUPYTER_TOKEN"], flush=True)
os.umask(0o177)
socketserver.UnixStreamServer(options["ServerApp.sock"], Handler).serve_forever()
"""


class Life:
    """A session as a process, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self._log = folder / "log"
        self._modules = folder / "modules"
        self._process: subprocess.Popen[bytes] | None = None
        self.fake(_FAKE)

    def fake(self, text: str) -> None:
        (self._modules / "jupyterlab").mkdir(parents=True, exist_ok=True)
        (self._modules / "jupyterlab" / "__main__.py").write_text(text)

    def begin(self, start_s: float = 300, grace_s: float = 60, **contract: Any) -> None:
        fields = {"home": str(self.home), "jupyter_token": "secret", "base_url": "/b/", **contract}
        env = {**os.environ, **variables(json.dumps(fields))}
        env["PYTHONPATH"] = f"{_SOURCE}:{self._modules}"
        code = _QUICK.format(start_s=start_s, grace_s=grace_s)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], env=env, stdout=log, stderr=log
            )

    def begun(self, **contract: Any) -> Life:
        self.begin(**contract)
        self.wait_for("answers")
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        wait_until(
            lambda: self.said().count(words) >= times or self.process.poll() is not None, 300
        )
        assert self.said().count(words) >= times, self.said()

    def private(self) -> Path:
        return Path((self.home / ".wherry" / "private").read_text())

    def jupyter(self) -> psutil.Process:
        (found,) = [
            each
            for each in psutil.Process(self.process.pid).children()
            if "jupyterlab" in each.cmdline()
        ]
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(300)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    yield life
    if life._process is not None and life._process.poll() is None:
        life.end()


def test_it_serves_and_ends_when_asked(life: Life) -> None:
    life.begun(instance="nb", base_url="/instances/w/nb/", notices=["there is no environment 'x'"])
    lab = Lab(str(life.private() / "j.sock"), "/instances/w/nb/", "secret")
    assert lab.call("GET", "api/status") == {"kernels": 0}
    assert (life.private() / "j.sock").stat().st_mode & 0o777 == 0o600
    assert "secret" not in life.said()
    assert life.said().startswith("there is no environment 'x'\n")
    assert "here I am, with token ***" in life.said()
    private, jupyter = life.private(), life.jupyter()
    assert life.end() == 0
    assert not private.exists()
    assert not jupyter.is_running()


def test_one_that_does_not_want_to_end_is_killed(life: Life) -> None:
    life.fake("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _FAKE)
    life.begun(grace_s=0.2)
    jupyter = life.jupyter()
    assert life.end() == 0
    assert not jupyter.is_running()


def test_one_that_was_killed_is_started_again_and_its_kernels_are_ended(life: Life) -> None:
    life.begun()
    kernel = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(1000)", life.private() / "runtime/kernel-1"]
    )
    life.jupyter().kill()
    life.wait_for("answers", times=2)
    assert kernel.wait(300) == -signal.SIGKILL
    assert "JupyterLab was ended by signal 9; it is started again" in life.said()


def test_one_that_always_dies_ends_the_session_with_its_last_words(life: Life) -> None:
    life.fake("import sys; print('no such option'); sys.exit(4)")
    life.begin()
    assert life.process.wait(300) == 1
    assert life.said().count("it is started again in 0.01 s") == 2
    assert life.said().endswith("JupyterLab ended with exit code 4\nno such option\n")


def test_one_that_never_answers_counts_as_dead(life: Life) -> None:
    life.fake("import time; time.sleep(1000)")
    life.begin(start_s=0.2)
    assert life.process.wait(300) == 1
    assert life.said().endswith("JupyterLab does not answer\n")


def test_a_start_like_the_one_before_writes_nothing_anew(life: Life) -> None:
    """The home's disk may be full, and its owner about to make room."""
    seen = []
    for _ in range(2):
        life.begun()
        assert life.end() == 0
        own = life.home / ".wherry"
        kept = [each for each in own.rglob("*") if each.name not in ("private", "__pycache__")]
        seen.append({each: each.stat().st_ino for each in kept})
    assert seen[0] == seen[1]
    assert {"kernel.json", "bashrc", "_wherry_below.pth", "wherry.json"} <= {
        each.name for each in seen[0]
    }


def test_files_in_the_home_are_no_modules_of_jupyter(life: Life) -> None:
    life.home.mkdir()
    for name in ("random", "email", "http", "json", "tornado"):
        (life.home / f"{name}.py").write_text("raise RuntimeError('a file of my own')")
    life.begun()
    assert life.end() == 0


@pytest.mark.parametrize("trouble", ["sys.exit(4)", "options['ServerApp.base_url'] = '/x/'"])
def test_settings_with_which_it_does_not_start_are_left_out(life: Life, trouble: str) -> None:
    """Its home is reached through it alone: nobody could put them right."""
    settings = life.home / ".jupyter" / "jupyter_server_config.py"
    settings.parent.mkdir(parents=True)
    settings.touch()
    asked = f"os.path.exists(os.environ['JUPYTER_CONFIG_DIR'] + '/{settings.name}')"
    life.fake(_FAKE.replace("print(", f"if {asked}: {trouble}\nprint(", 1))
    life.begun()
    assert f"runs without the settings in {settings.parent}, with which" in life.said()
    assert ("does not know the token" in life.said()) == ("base_url" in trouble)
    assert life.end() == 0


def test_an_end_that_is_asked_for_during_a_script(life: Life) -> None:
    life.begin(
        create=True, creation_script={"content": f"echo begun; sleep 1000\n: {'x' * 150_000}"}
    )
    life.wait_for("begun")
    assert life.end() == 0
    assert "answers" not in life.said()


def test_a_session_without_a_contract(life: Life) -> None:
    life.begin(jupyter_token="")
    assert life.process.wait(300) == 2
    assert re.match("a session cannot begin: .* names no token for JupyterLab", life.said())


def test_a_home_that_cannot_be_used_is_said(life: Life, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    life.begin(home=str(tmp_path / "file"))
    assert life.process.wait(300) == 1
    assert life.said() == f"the home {tmp_path / 'file'} cannot be used: File exists\n"
