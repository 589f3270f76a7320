"""An engine that is reached by TCP, with or without TLS: where, and with which certificates."""

from __future__ import annotations

import os
import ssl
from typing import Optional, Tuple
from urllib.parse import parse_qs, urlencode, urlsplit

_TCP, _TLS = "tcp://", "https"
_PORT, _TLS_PORT = 2375, 2376


def certified(address: str, folder: str, *, verify: bool) -> str:
    """The address with the folder of ``ca.pem``, ``cert.pem`` and ``key.pem``.

    A socket of this machine, or one behind SSH, needs none.
    """
    if not address.startswith(_TCP):
        return address
    told = {"certificates": folder, **({} if verify else {"verify": "no"})}
    return f"{_TLS}://{address[len(_TCP) :].rstrip('/')}?{urlencode(told)}"


def dialled(address: str) -> Tuple[str, int, Optional[ssl.SSLContext]]:
    """Its host, its port, and whom to trust there; ``OSError`` if the certificates are unfit."""
    where = urlsplit(address)
    host = where.hostname or ""
    if where.scheme != _TLS:
        return host, where.port or _PORT, None
    told = parse_qs(where.query)
    context = _trust(told.get("certificates", [""])[0])
    if told.get("verify") == ["no"]:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return host, where.port or _TLS_PORT, context


def _trust(folder: str) -> ssl.SSLContext:
    authority, cert, key = (os.path.join(folder, f"{name}.pem") for name in ("ca", "cert", "key"))
    context = ssl.create_default_context(cafile=authority if os.path.exists(authority) else None)
    if os.path.exists(cert):
        context.load_cert_chain(cert, key, password=lambda: b"")  # else it would ask the terminal
    return context
