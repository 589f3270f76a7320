"""The image of machines: that of their site, with sshd and Python where it has none."""

from __future__ import annotations

import json
from collections.abc import Sequence

# Run by the shell of the image, whatever distribution it is of.
_INSTALL = """\
set -e
PATH="$PATH:/usr/sbin:/sbin"
if ! command -v sshd >/dev/null || ! command -v python3 >/dev/null; then
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends openssh-server python3 ca-certificates
    rm -rf /var/lib/apt/lists/*
  elif command -v apk >/dev/null; then apk add --no-cache openssh-server python3
  elif command -v dnf >/dev/null; then dnf install -y openssh-server python3
  elif command -v microdnf >/dev/null; then microdnf install -y openssh-server python3
  elif command -v zypper >/dev/null; then zypper --non-interactive install openssh python3
  else
    echo 'it has no sshd, or no python3, and no package manager to install them with' >&2
    exit 1
  fi
fi
rm -f /etc/ssh/ssh_host_*
mkdir -p /etc/wherry /run/sshd
"""
_FOLDER = "/etc/wherry"
HOST_KEY, LOGIN_KEYS = f"{_FOLDER}/host_key", f"{_FOLDER}/login_keys"
CONFIG = f"{_FOLDER}/sshd_config"

_SSHD = """\
Port {port}
ListenAddress {address}
HostKey {host_key}
AuthorizedKeysFile {login_keys} .ssh/authorized_keys
TrustedUserCAKeys {login_keys}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
MaxStartups 100:30:200
MaxSessions 100
Subsystem sftp internal-sftp
SetEnv {variables}
"""
# The shell is the first process: it takes in whatever loses its parent, and ends when told to.
START = f"""\
PATH="$PATH:/usr/sbin:/sbin"
mkdir -p /run/sshd && chmod 755 /run/sshd
"$(command -v sshd)" -D -e -f {CONFIG} & sshd=$!
trap 'kill $sshd; exit 0' TERM INT
wait $sshd
"""


def dockerfile(image: str) -> bytes:
    install = json.dumps(["/bin/sh", "-c", _INSTALL])  # on one line, as its form wants it
    return f"FROM {image}\nUSER root\nRUN {install}\n".encode()


def sshd_config(address: str, port: int, variables: Sequence[str]) -> str:
    """``variables`` are the image's own, which sshd would not hand on."""
    return _SSHD.format(
        address=address,
        port=port,
        host_key=HOST_KEY,
        login_keys=LOGIN_KEYS,
        variables=" ".join(filter(None, map(_quoted, variables))) or "WHERRY_MACHINE=1",
    )


def _quoted(variable: str) -> str:
    """Of a value with a quote or a line's end sshd cannot be told."""
    name, _, value = variable.partition("=")
    if set(value) & set('"\n\\') or not name.isidentifier():
        return ""
    return f'"{name}={value}"'
