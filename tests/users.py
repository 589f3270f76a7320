"""Users of this machine that are there for a test, with passwords. Root alone makes them."""

from __future__ import annotations

import os
import secrets
import subprocess


class User:
    """``OSError`` where none can be made."""

    def __init__(self) -> None:
        self.name = f"wherry-{secrets.token_hex(4)}"
        self.password = secrets.token_hex(8)

    def make(self) -> None:
        if os.getuid() != 0:
            raise OSError("users are made by root alone")
        hashed = _hashed(self.password)
        argv = ["useradd", "--no-create-home", "--shell", "/bin/sh", "-p", hashed, self.name]
        made = subprocess.run(argv, capture_output=True, text=True)
        if made.returncode:
            raise OSError(f"no user can be made here: {made.stderr.strip()}")

    def change_password(self) -> None:
        self.password = secrets.token_hex(8)
        subprocess.run(["usermod", "-p", _hashed(self.password), self.name], check=True)

    def remove(self) -> None:
        subprocess.run(["pkill", "-KILL", "-u", self.name])
        subprocess.run(["userdel", self.name], capture_output=True)


def _hashed(password: str) -> str:
    argv = ["openssl", "passwd", "-6", "-stdin"]
    done = subprocess.run(argv, input=password, capture_output=True, text=True)
    if done.returncode:
        raise OSError("openssl makes no password here")
    return done.stdout.strip()
