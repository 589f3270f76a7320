"""The keys of a machine that this server makes: derived, never stored, and the same every time."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass

import asyncssh
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from wherry.core.errors import UserErrorException

from .ssh_keys import text_of

_EARLIER_S = 300  # clocks differ


@dataclass(frozen=True)
class Pair:
    """``private`` as the text of a file, ``public`` as ``ssh-ed25519 AAAA...``."""

    private: str
    public: str


class MachineKeys:
    """``login`` opens the machine, and signs what opens it for a while; ``host`` is what it shows.

    ``secret`` is the server's own: whoever has it has the keys, and nobody else.
    """

    def __init__(self, secret: bytes, node_id: str) -> None:
        self.login = _derived(secret, "login", node_id, PrivateFormat.PKCS8)
        self.host = _derived(secret, "host", node_id, PrivateFormat.OpenSSH)
        self._node_id = node_id

    @property
    def mark(self) -> str:
        """Tells these keys from others without giving them away."""
        return hashlib.sha256((self.login.public + self.host.public).encode()).hexdigest()[:16]

    def sign(self, public: str, user: str, who: str, seconds: int) -> str:
        """A certificate for somebody's own key, which lets it in as that user for so long."""
        try:
            key = asyncssh.import_public_key(public)
        except (asyncssh.KeyImportError, ValueError):
            raise UserErrorException(
                "public_key is no public key of SSH",
                hint="it is the line of a file that ends with .pub: ssh-ed25519 AAAA...",
            ) from None
        now = int(time.time())
        signed = asyncssh.import_private_key(self.login.private).generate_user_certificate(
            key,
            f"{who} at {self._node_id}",
            principals=[user],
            valid_after=now - _EARLIER_S,
            valid_before=now + seconds,
        )
        return signed.export_certificate().decode().strip()


def _derived(secret: bytes, what: str, node_id: str, form: PrivateFormat) -> Pair:
    """Every sshd reads OpenSSH's form, whose text is another each time; the other is the same."""
    seed = hmac.digest(secret, f"wherry: {what} key of machine {node_id}".encode(), "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    return Pair(private, text_of(asyncssh.import_private_key(private)))
