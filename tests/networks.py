"""Networks of the tests' own, which can be cut and healed. Root alone makes them."""

from __future__ import annotations

import secrets
import subprocess


class Network:
    """One of its own, that reaches nothing; this machine reaches it by one wire."""

    def __init__(self) -> None:
        near = f"10.{secrets.randbelow(55) + 200}.{secrets.randbelow(256)}"
        self.name = f"wherry-{secrets.token_hex(4)}"
        self.address = f"{near}.2"
        self._ours = f"{near}.1"

    def make(self) -> None:
        wire = self.name[:15]
        ip("netns", "add", self.name)
        ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{self._ours}/30", "dev", wire)
        ip("link", "set", wire, "up")
        for words in (
            ("addr", "add", f"{self.address}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", self.name, *words)

    def cut(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "down")

    def heal(self) -> None:
        ip("-n", self.name, "link", "set", "eth0", "up")

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())
