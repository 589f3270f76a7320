"""A session in a container: its home is a volume, and ``HOME``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import wait_until
from tests.jupyter import Lab
from tests.podman import BASE, Podman
from tests.session.conftest import REPOSITORY, Instance
from wherry import AmlCompute

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@pytest.fixture
def shared_tmp() -> Iterator[Path]:
    """A container's /tmp, short enough for sockets when seen from here."""
    with tempfile.TemporaryDirectory(prefix="wt-") as folder:
        yield Path(folder)


@pytest.fixture
def boxed(
    instance: Instance, podman: Podman, shared_tmp: Path, tmp_path: Path
) -> Iterator[Instance]:
    image = "localhost/wherry-test-session:latest"
    file = f"FROM {BASE}\nENV SSL_CERT_FILE={CERTIFICATES} PIP_CERT={CERTIFICATES}\n"
    podman("build", "--tag", image, "--file", "-", str(shared_tmp), data=file.encode())
    (tmp_path / "volume").mkdir()
    volumes = [
        f"{REPOSITORY / '.tools' / 'bin' / 'uv'}:/usr/bin/uv:ro",
        f"{shared_tmp}:/tmp",
        f"{tmp_path / 'volume'}:/home/wherry",
    ]
    config = {"engine": podman.host, "image": image, "network": "host", "volumes": volumes}
    client = instance.workspace._client
    client.request("PUT", "/sites/boxes", json={"kind": "container", "config": config})
    given = AmlCompute.provisioning_configuration(location="boxes", max_nodes=1)
    cluster = AmlCompute.create(instance.workspace, "boxed", given)
    cluster.wait_for_completion()
    instance.target = "boxed"
    yield instance
    instance.stop()
    client.delete("/workspaces/w/computes/boxed?cancel=true")
    wait_until(lambda: podman("ps", "--all", "--format", "{{.Names}}") == "", 120)


def test_a_notebook_in_a_container(boxed: Instance, shared_tmp: Path, tmp_path: Path) -> None:
    boxed.start(home="/home/wherry")
    socket = Path(boxed.tags()["session.socket"])
    seen_from_here = shared_tmp / socket.relative_to("/tmp")
    lab = Lab(str(seen_from_here), "/instances/w/nb/", "a-token-of-jupyter")
    with lab.kernel() as kernel:
        assert kernel.run("import os; print(os.environ['HOME'], os.getcwd())") == (
            "/home/wherry /home/wherry\n"
        )
        assert kernel.run("from wherry import Workspace; print(Workspace.from_config().name)") == (
            "w\n"
        )
        assert kernel.run("!pip --version").startswith("pip ")
        kernel.run("%pip install toolz==1.0.0")
        assert kernel.run("import toolz; print(toolz.__version__)") == "1.0.0\n"
    assert "/home/wherry" in lab.terminal().run("pwd")
    assert list((tmp_path / "volume").glob(".wherry/venv/lib/*/site-packages/toolz"))
