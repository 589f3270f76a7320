"""Keys of ours and of machines, and what is wrong with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import asyncssh

from wherry.core.errors import TargetUnavailableError

from . import ssh_config
from .ssh_host import Host

_LARGEST = 1 << 17
_KNOWN_HOSTS = Path("~/.ssh/known_hosts")
_SIGNATURES = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256"}


def private_key(host: Host) -> asyncssh.SSHKey:
    """The key that the host is given, opened."""
    inline = host.private_key.lstrip().startswith(("-----BEGIN", "---- BEGIN", "PuTTY"))
    name = "the private key" if inline else f"the key file {host.private_key}"
    text = host.private_key if inline else _text(host)
    try:
        return asyncssh.import_private_key(text, host.passphrase or None)
    except asyncssh.KeyEncryptionError:
        raise _wrong(host, f"the passphrase does not open {name}") from None
    except asyncssh.KeyImportError as error:
        if "passphrase" in str(error).lower():
            problem = "is wrong" if host.passphrase else "is needed"
            raise _wrong(host, f"{name} is encrypted, and a passphrase {problem}") from None
        raise _wrong(host, f"{name} is not a private key: {error}") from None


def problem_with(host: Host, key: asyncssh.SSHKey, names: Sequence[str], port: int) -> str:
    """Why the machine's key is not the one that it should have; empty if it is."""
    if host.host_key:
        try:
            pinned = asyncssh.import_public_key(host.host_key)
        except asyncssh.KeyImportError:
            return f"the host key that is kept for it cannot be read: {host.host_key[:80]!r}"
        if key == pinned:
            return ""
        return f"{fingerprint(pinned)} is kept for it, and it shows {fingerprint(key)}"
    known = _known([host.address, *names], port)
    if not known or key in known:
        return ""
    return f"~/.ssh/known_hosts has {fingerprint(known[0])} and it shows {fingerprint(key)}"


def algorithms(host: Host) -> str:
    """Of the several keys that a machine has, the kind that is pinned or known; else Ed25519."""
    if host.host_key:
        kinds = [host.host_key.split(" ")[0]]
    else:
        name, port = ssh_config.place_of(host)
        kinds = [key.get_algorithm() for key in _known([host.address, name], port)]
    wanted = [_SIGNATURES.get(kind, kind) for kind in kinds or ["ssh-ed25519"]]
    return f"^{','.join(dict.fromkeys(wanted))}"


def text_of(key: asyncssh.SSHKey) -> str:
    """``ssh-ed25519 AAAA...``, without what is said about whose it is."""
    return " ".join(key.export_public_key().decode().split()[:2])


def fingerprint(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def _text(host: Host) -> str:
    try:
        return _file(Path(host.private_key).expanduser()).decode()
    except ValueError:
        raise _wrong(host, f"the key file {host.private_key} is not a private key") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _wrong(host, f"the key file {host.private_key} cannot be read: {reason}") from None


def _file(path: Path) -> bytes:
    """Nothing that waits for somebody to write to it, and nothing without an end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a file")
        return file.read(_LARGEST)


def _wrong(host: Host, sentence: str) -> TargetUnavailableError:
    return TargetUnavailableError(
        f"{host}: {sentence}",
        hint="give the key, its passphrase, or a password anew",
        cause="key",
    )


def _known(names: Sequence[str], port: int) -> list[asyncssh.SSHKey]:
    path = _KNOWN_HOSTS.expanduser()
    found: list[asyncssh.SSHKey] = []
    for name in dict.fromkeys(names):
        with suppress(OSError, ValueError):
            found += asyncssh.match_known_hosts(str(path), name, "", port)[0]
    return found
