"""The engine that Docker's command line is set to use, by its context, with and without TLS."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.podman import BASE, Podman
from wherry.containers import engine
from wherry.containers.contexts import chosen
from wherry.containers.engine import find
from wherry.containers.error import ContainerError
from wherry.core.compute_configs import ContainersConfig
from wherry.core.errors import TargetUnavailableError
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.site_container import ContainerSite

VARIABLES = ("DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_TLS")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Docker's settings, and nothing that says otherwise."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


def context(docker: Path, name: str, host: str, **endpoint: Any) -> Path:
    """Written as ``docker context create`` does; the folder of its certificates, not yet there."""
    key = hashlib.sha256(name.encode()).hexdigest()
    meta = docker / "contexts" / "meta" / key
    meta.mkdir(parents=True)
    told = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, **endpoint}}}
    (meta / "meta.json").write_text(json.dumps(told))
    return docker / "contexts" / "tls" / key / "docker"


def use(docker: Path, name: str) -> None:
    (docker / "config.json").write_text(json.dumps({"auths": {}, "currentContext": name}))


def test_the_variable_comes_first_then_the_context(docker: Path) -> None:
    here = {"DOCKER_CONFIG": str(docker)}
    assert chosen(here) == ""
    context(docker, "lab", "unix:///lab.sock")
    context(docker, "other", "unix:///other.sock")
    use(docker, "lab")
    assert chosen(here) == "unix:///lab.sock"
    assert chosen({"HOME": str(docker.parent)}) == ""  # where there is no .docker
    assert chosen({**here, "DOCKER_CONTEXT": "other"}) == "unix:///other.sock"
    assert chosen({**here, "DOCKER_CONTEXT": "default"}) == ""
    both = {**here, "DOCKER_CONTEXT": "other", "DOCKER_HOST": "unix:///named.sock"}
    assert chosen(both) == "unix:///named.sock"
    (docker / "config.json").write_text("[]")
    assert chosen(here) == ""


def test_an_engine_over_ssh_is_for_sites(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "sockets", lambda _variables: [])
    context(docker, "far", "ssh://me@far")
    use(docker, "far")
    here = {"DOCKER_CONFIG": str(docker)}
    assert chosen(here, over_ssh=True) == "ssh://me@far"
    with pytest.raises(ContainerError, match="no container engine answers"):
        find(here)


def test_a_context_that_is_none_is_told(docker: Path) -> None:
    use(docker, "gone")
    with pytest.raises(ContainerError, match=r"context 'gone', but .* is not there; docker cont"):
        find({"DOCKER_CONFIG": str(docker)})
    context(docker, "torn", "unix:///torn.sock")
    (torn,) = docker.glob("contexts/meta/*/meta.json")
    torn.write_text('{"Name": ')
    with pytest.raises(ContainerError, match=r"'torn', but .* is no context"):
        find({"DOCKER_CONFIG": str(docker), "DOCKER_CONTEXT": "torn"})
    with pytest.raises(TargetUnavailableError, match=r"site 'boxes': Docker on .* 'gone'"):
        site(docker).machines()


def test_certificates_go_with_the_address(docker: Path) -> None:
    folder = context(docker, "lab", "tcp://lab:2376")
    use(docker, "lab")
    here = {"DOCKER_CONFIG": str(docker)}
    assert chosen(here) == "tcp://lab:2376"  # without any
    folder.mkdir(parents=True)
    assert chosen(here).startswith("https://lab:2376?certificates=")
    named: Mapping[str, str] = {"DOCKER_HOST": "tcp://lab", "DOCKER_TLS_VERIFY": "1"}
    assert chosen({**named, "DOCKER_CERT_PATH": "/c"}) == "https://lab?certificates=%2Fc"
    (folder / "cert.pem").write_text("no certificate")
    with pytest.raises(ContainerError, match=r"certificates for .* cannot be used"):
        find(here).call("GET", "/version")


def site(folder: Path, name: str = "boxes") -> ContainerSite:
    config = ContainersConfig("", BASE, network="host", cores=2, memory_bytes=2 << 30)
    root, locks = str(folder / "nodes"), str(folder / "locks")
    return ContainerSite(name, config, "me", root, locks, lambda: "")


def test_nodes_are_made_on_the_engine_of_the_context(
    docker: Path, podman: Podman, tmp_path: Path
) -> None:
    context(docker, "tests", podman.host)
    use(docker, "tests")
    assert "podman" in find({"DOCKER_CONFIG": str(docker)}).name()
    made_and_used(site(tmp_path), podman)


@pytest.mark.containers
def test_an_engine_by_tls_knows_whom_it_serves(
    docker: Path, podman: Podman, tmp_path: Path
) -> None:
    ours, theirs = Authority(), Authority()
    with encrypted(podman, ours, tmp_path) as port:
        folder = context(docker, "far", f"tcp://127.0.0.1:{port}")
        use(docker, "far")
        ours.give(folder)
        made_and_used(site(tmp_path), podman)
        theirs.give(folder)
        with pytest.raises(TargetUnavailableError, match="do not trust each other"):
            site(tmp_path).machines()
        careless = context(docker, "careless", f"tcp://127.0.0.1:{port}", SkipTLSVerify=True)
        use(docker, "careless")
        ours.give(careless)
        (careless / "ca.pem").unlink()
        assert site(tmp_path).machines() == {}


def made_and_used(boxes: ContainerSite, podman: Podman) -> None:
    machine = boxes.make("n1", boxes.sizes()[0])
    assert "wherry-node-n1" in podman("ps", "--format", "{{.Names}}")
    driver = boxes.driver("n1", machine)
    assert isinstance(driver, AgentDriver)
    assert driver.check().nodes[0].resources == machine.resources
    driver.close()
    boxes.remove("n1")
    assert boxes.machines() == {}


class Authority:
    """Vouches for one certificate, of a server and its clients alike."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        self._certificate = made.public_bytes(serialization.Encoding.PEM)
        self._key = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def give(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("ca.pem", "cert.pem"):
            (folder / name).write_bytes(self._certificate)
        (folder / "key.pem").write_bytes(self._key)
        return folder


@contextmanager
def encrypted(podman: Podman, authority: Authority, folder: Path) -> Iterator[int]:
    """A port at which the engine is reached by TLS alone, by whom the authority vouches for."""
    given = authority.give(folder / "server")
    wanted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(given / "ca.pem"))
    wanted.load_cert_chain(given / "cert.pem", given / "key.pem")
    wanted.verify_mode = ssl.CERT_REQUIRED
    bound: Future[int] = Future()
    ended, loop = asyncio.Event(), asyncio.new_event_loop()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(str(podman.socket))
        await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))

    async def serve() -> None:
        async with await asyncio.start_server(carry, "127.0.0.1", 0, ssl=wanted) as server:
            bound.set_result(server.sockets[0].getsockname()[1])
            await ended.wait()

    thread = threading.Thread(target=_run, args=(loop, serve()))
    thread.start()
    try:
        yield bound.result(60)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
