"""A preflight says precisely what is wrong, each trouble in its own words."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests import sshd as servers
from tests.interpreters import find_python
from tests.sshd import Sshd
from wherry.core.errors import TargetUnavailableError
from wherry.drivers import ssh_connection, ssh_preflight
from wherry.drivers.ssh_host import Host
from wherry.drivers.ssh_preflight import preflight


def trouble(host: Host, root: str = "~/attempts", server: str = "") -> tuple[str, str]:
    """Its kind and its sentence."""
    with pytest.raises(TargetUnavailableError) as raised:
        preflight(host, root, server)
    return str(raised.value.fields["cause"]), raised.value.message


def test_what_a_machine_has(sshd: Sshd) -> None:
    found = preflight(sshd.host())
    assert found.host_key == sshd.host_key
    assert os.path.exists(found.python)
    assert found.version.startswith("3.")
    assert found.resources.cpu > 0
    assert found.disk_free > 0
    assert abs(found.clock_skew_s) < 30
    assert (sshd.home / ".wherry-node").stat().st_mode & 0o777 == 0o700


def test_a_name_that_does_not_resolve() -> None:
    kind, sentence = trouble(Host("no-such-machine.invalid"))
    assert kind == "name"
    assert "the name no-such-machine.invalid cannot be resolved" in sentence


def test_a_closed_port(sshd: Sshd) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    kind, sentence = trouble(replace(sshd.host(host_key=""), port=port))
    assert kind == "port_closed"
    assert f"nothing listens at port {port} of 127.0.0.2" in sentence


def test_a_name_with_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
        for address in ("127.0.0.2", "127.0.0.3")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_words, **_options: found)
    kind, sentence = trouble(Host("both.lab", port))
    assert kind == "port_closed"
    assert f"nothing listens at port {port} of both.lab" in sentence


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """Something that is no SSH server; without an answer it takes no connections either."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        listener.listen(0)
        thread = threading.Thread(target=_answer, args=(listener, answer), daemon=True)
        if answer is not None:
            thread.start()
        yield listener.getsockname()[1]


def _answer(listener: socket.socket, answer: bytes) -> None:
    try:
        opened, _ = listener.accept()
    except OSError:
        return
    with opened:
        opened.recv(100)
        opened.sendall(answer)


def test_a_port_that_drops_everything(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "CONNECT_S", 1.0)
    with listening(None) as port, socket.socket() as first, socket.socket() as second:
        for filling in (first, second):  # the queue is full: no more are let in
            filling.setblocking(False)
            filling.connect_ex(("127.0.0.2", port))
        kind, sentence = trouble(replace(sshd.host(), port=port))
    assert kind == "port_filtered"
    assert f"port {port} of 127.0.0.2 did not answer for 1 s" in sentence


def test_another_service(sshd: Sshd) -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        kind, sentence = trouble(replace(sshd.host(), port=port))
    assert kind == "not_ssh"
    assert f"something answers at port {port} of 127.0.0.2, but does not speak SSH" in sentence


def test_a_changed_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    servers.make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    before = sshd.logins()
    kind, sentence = trouble(sshd.host(host_key=other))
    assert kind == "host_key"
    assert "the host key of" in sentence
    assert "is another than expected: ssh-ed25519 SHA256:" in sentence
    assert sshd.logins() == before  # nothing was told to it


def test_a_host_key_of_another_kind_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    servers.make_key(tmp_path / "other", kind="rsa")
    kind, _ = trouble(sshd.host(host_key=(tmp_path / "other.pub").read_text()))
    assert kind == "host_key"


@pytest.mark.parametrize("known", [True, False])
def test_known_hosts_are_honoured(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    servers.make_key(tmp_path / "other")
    key = sshd.host_key if known else (tmp_path / "other.pub").read_text()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"[127.0.0.2]:{sshd.port} {key}\n")
    if known:
        assert preflight(sshd.host(host_key="")).host_key == sshd.host_key
    else:
        kind, sentence = trouble(sshd.host(host_key=""))
        assert kind == "host_key"
        assert "known_hosts has ssh-ed25519" in sentence


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_machine_with_several_keys_shows_the_one_that_is_known(
    own_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    servers.make_key(own_sshd.folder / "second_key", kind="rsa")
    own_sshd.start({"HostKey": str(own_sshd.folder / "second_key")})
    key = {
        "ed25519": own_sshd.host_key,
        "rsa": " ".join((own_sshd.folder / "second_key.pub").read_text().split()[:2]),
    }[kind]
    assert preflight(own_sshd.host(host_key="")).host_key == own_sshd.host_key
    (tmp_path / ".ssh" / "known_hosts").write_text(f"[{own_sshd.address}]:{own_sshd.port} {key}\n")
    assert preflight(own_sshd.host(host_key="")).host_key == key


def test_a_key_that_is_not_let_in(sshd: Sshd, tmp_path: Path) -> None:
    servers.make_key(tmp_path / "other")
    kind, sentence = trouble(sshd.host(private_key=str(tmp_path / "other")))
    assert kind == "credentials"
    assert f"127.0.0.2 refused user {servers.user()!r}: the private key ssh-ed25519" in sentence
    assert sentence.endswith("was tried")


def test_a_password_where_none_is_taken(sshd: Sshd) -> None:
    kind, sentence = trouble(sshd.host(private_key="", password="geheim"))
    assert kind == "credentials"
    assert "a password was tried" in sentence
    assert "geheim" not in sentence


def test_keys_of_ones_own(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    kind, sentence = trouble(sshd.host(private_key=""))
    assert kind == "credentials"
    assert "the keys of the SSH agent and of ~/.ssh were tried" in sentence
    (tmp_path / ".ssh").mkdir()
    shutil.copy(sshd.folder / "key", tmp_path / ".ssh" / "id_ed25519")
    assert preflight(sshd.host(private_key="")).host_key == sshd.host_key


def test_a_key_with_a_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "locked"
    shutil.copy(sshd.folder / "key", path)
    path.chmod(0o600)
    argv = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(path)]
    subprocess.run(argv, check=True)
    for private_key in (str(path), path.read_text()):
        host = sshd.host(private_key=private_key, passphrase="open sesame")
        assert preflight(host).host_key == sshd.host_key
        kind, sentence = trouble(sshd.host(private_key=private_key, passphrase="wrong"))
        assert (kind, "passphrase" in sentence) == ("key", True)
        assert "wrong" not in sentence or "is wrong" in sentence
        kind, sentence = trouble(sshd.host(private_key=private_key))
        assert (kind, "passphrase is needed" in sentence) == ("key", True)


def test_a_key_file_that_is_none(sshd: Sshd, tmp_path: Path) -> None:
    kind, sentence = trouble(sshd.host(private_key=str(tmp_path / "missing")))
    assert kind == "key"
    assert f"the key file {tmp_path / 'missing'} cannot be read: no such file" in sentence
    (tmp_path / "text").write_text("hello")
    kind, sentence = trouble(sshd.host(private_key=str(tmp_path / "text")))
    assert kind == "key"
    assert f"the key file {tmp_path / 'text'} is not a private key" in sentence


def test_no_python(sshd: Sshd) -> None:
    kind, sentence = trouble(sshd.host(python="/no/such/python"))
    assert kind == "python"
    assert sentence.endswith(": /no/such/python is no Python 3.8 or later")


def test_an_old_python(sshd: Sshd) -> None:
    kind, sentence = trouble(sshd.host(python=find_python("3.7")))
    assert kind == "python"
    assert "has no Python 3.8 or later; found only: " in sentence
    assert "is Python 3.7" in sentence


def test_a_shell_that_talks(own_sshd: Sshd) -> None:
    """What a user's start-up files print is no answer of ours."""
    own_sshd.start({"ForceCommand": 'echo "Welcome!"; echo done >&2; eval "$SSH_ORIGINAL_COMMAND"'})
    assert preflight(own_sshd.host()).host_key == own_sshd.host_key


def test_no_shell(own_sshd: Sshd) -> None:
    own_sshd.start({"ForceCommand": "echo this account is not available >&2; exit 1"})
    kind, sentence = trouble(own_sshd.host())
    assert kind == "shell"
    assert sentence.endswith("this account is not available")


def test_a_home_that_cannot_be_written(own_sshd: Sshd) -> None:
    own_sshd.start()
    (own_sshd.home / ".wherry-node").write_text("in the way")
    kind, sentence = trouble(own_sshd.host())
    assert kind == "home"
    assert ".wherry-node cannot be written" in sentence


def test_a_folder_for_attempts_that_cannot_be_written(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kind, sentence = trouble(sshd.host(), str(tmp_path / "file" / "attempts"))
    assert kind == "home"
    assert "cannot be written: Not a directory" in sentence


def test_a_full_disk(sshd: Sshd, small_disk: Path) -> None:
    kind, sentence = trouble(sshd.host(), str(small_disk / "attempts"))
    assert kind == "disk_full"
    assert f"the disk with {small_disk}/attempts is full" in sentence


def test_a_clock_that_is_off(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_preflight, "_now", lambda: time.time() - 3600)
    found = preflight(sshd.host())
    assert found.clock_skew_s == pytest.approx(3600, abs=60)
    assert any("s ahead: times of runs will be off" in each for each in found.warnings)


def test_forwarding_refused_the_agent_leads_to_the_server(own_sshd: Sshd) -> None:
    """Seen by the sentence about what does not answer at the other end."""
    own_sshd.start({"AllowTcpForwarding": "no"})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{probe.getsockname()[1]}"
    kind, sentence = trouble(own_sshd.host(), server=server)
    assert kind == "tunnel"
    assert "is forwarded to this server, but from there http://127.0.0.1:" in sentence


def test_a_tunnel_that_leads_nowhere(sshd: Sshd) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{probe.getsockname()[1]}"
    kind, sentence = trouble(sshd.host(), server=server)
    assert kind == "tunnel"
    assert "is forwarded to this server, but from there http://127.0.0.1:" in sentence


def test_openssh_configuration_is_honoured(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        f"Host lab\n  HostName 127.0.0.2\n  Port {sshd.port}\n  User {servers.user()}\n"
        f"  IdentityFile {sshd.folder / 'key'}\n"
    )
    assert preflight(Host("lab", host_key=sshd.host_key)).host_key == sshd.host_key


def test_openssh_configuration_names_the_way(
    sshd: Sshd, own_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own_sshd.start()
    shutil.copy(sshd.folder / "authorized_keys", own_sshd.folder / "authorized_keys")
    (tmp_path / ".ssh").mkdir()
    config = tmp_path / ".ssh" / "config"
    config.write_text(
        f"Host gate\n  HostName {own_sshd.address}\n  Port {own_sshd.port}\n"
        f"Host lab\n  HostName {sshd.address}\n  Port {sshd.port}\n  ProxyJump gate\n"
    )
    host = replace(sshd.host(host_key=""), address="lab", port=22)
    found = preflight(host)
    assert (found.host_key, found.jump_host_keys) == (sshd.host_key, (own_sshd.host_key,))
    assert own_sshd.logins() == 1
    kind, sentence = trouble(replace(host, jump_host_keys=(sshd.host_key,)))
    assert (kind, "the host key of gate is another than expected" in sentence) == ("host_key", True)
    config.write_text("Port none-such\n")
    kind, sentence = trouble(host)
    assert (kind, "~/.ssh/config of the server's user" in sentence) == ("config", True)


def test_by_way_of_another_machine(sshd: Sshd, own_sshd: Sshd) -> None:
    own_sshd.start()
    shutil.copy(sshd.folder / "authorized_keys", own_sshd.folder / "authorized_keys")
    jump = f"{servers.user()}@{own_sshd.address}:{own_sshd.port}"
    found = preflight(sshd.host(jump=jump))
    assert found.host_key == sshd.host_key
    assert found.jump_host_keys == (own_sshd.host_key,)
    assert own_sshd.logins() == 1
    kind, _ = trouble(sshd.host(jump=jump, jump_host_keys=(sshd.host_key,)))
    assert kind == "host_key"
    kind, sentence = trouble(replace(sshd.host(jump=jump), port=1))
    assert kind == "jump"
    assert "cannot reach" in sentence


@pytest.mark.parametrize("right", [True, False])
def test_a_password(
    open_folder: Path, shared_sshd: Sshd, throwaway_user: tuple[str, str], right: bool
) -> None:
    name, password = throwaway_user
    with servers.serving(open_folder, options={"PasswordAuthentication": "yes"}) as sshd:
        sshd.home.chmod(0o777)
        host = sshd.host(private_key="", user=name, password=password if right else "wrong")
        if right:
            assert preflight(host).host_key == sshd.host_key
        else:
            kind, sentence = trouble(host)
            assert kind == "credentials"
            assert f"refused user {name!r}: a password was tried" in sentence
