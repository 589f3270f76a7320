"""A real JupyterLab through a server that is killed and started again: ``make jupyter``."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from tests.homes import Home, wait_until
from tests.jupyter import Kernel, Visitor
from tests.session.test_lab import lab  # noqa: F401
from wherry import Workspace
from wherry.compute import ComputeInstance, ComputeTarget

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]
_PATIENCE_S = 300.0


def test_a_kernel_outlives_the_server_and_its_websocket_is_made_again(lab: Home) -> None:  # noqa: F811
    workspace = Workspace.get("w")
    configuration = ComputeInstance.provisioning_configuration()
    ComputeTarget.create(workspace, "nb", configuration).wait_for_completion()
    visitor = Visitor(ComputeInstance(workspace, "nb").sign_in_url())
    kernel = visitor.kernel()
    kernel.run("kept = 41")
    sent = kernel.send("import time; time.sleep(5); kept += 1")
    while json.loads(kernel._socket.recv(_PATIENCE_S))["parent_header"].get("msg_id") != sent:
        pass  # it has not begun
    lab.kill_server()
    with pytest.raises((ConnectionClosed, EOFError)):
        _listen(kernel)
    assert Workspace.get("w").name == "w"  # which starts a server
    wait_until(lambda: _answers(visitor, lab), _PATIENCE_S)
    with Kernel(visitor, kernel.id) as again:
        assert again.run("print(kept)") == "42\n"


def _listen(kernel: Kernel) -> None:
    while True:
        kernel._socket.recv(_PATIENCE_S)


def _answers(visitor: Visitor, home: Home) -> bool:
    """With the cookie of before, at the port that the next server has."""
    url = json.loads(Path(home.home / "server.json").read_text())["url"]
    visitor._host = f"localhost:{urlsplit(url).port}"
    try:
        return visitor.answer("GET", "api/kernels")[0] == 200
    except OSError:
        return False
