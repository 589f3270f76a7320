"""Site files and hosts of a command line, as requests of ours."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..core.errors import UserErrorException
from .command import guess
from .compute_file import split_host
from .ending import Usage

_CONTAINER = "container"
_ENGINE_FIELDS = (
    "name", "kind", "engine", "image", "cores", "memory", "gpus", "price_per_hour", "volumes",
    "network",
)  # fmt: skip
_FIELDS = ("name", "kind", "hosts", "username", "port", "jump", "python", "key", "price_per_hour")
_SECRETS = ("key", "password", "passphrase")


class Site(NamedTuple):
    """A site as it is asked for."""

    name: str
    body: Dict[str, Any]


def read(
    path: Optional[str],
    name: Optional[str],
    hosts: Sequence[str],
    secrets: Mapping[str, str],
    engine: Mapping[str, Any],
) -> Site:
    """What a file says, with what the command line says besides."""
    from .yaml_file import load_with_lines

    fields: Dict[str, Any] = load_with_lines(path, "a site")[0] if path else {}
    where = path or "the site"
    boxed = bool(engine) or fields.get("kind") == _CONTAINER
    known = _ENGINE_FIELDS if boxed else _FIELDS
    for field in map(str, fields):
        if field not in known:
            kind = "a site of containers" if boxed else "a site"
            raise UserErrorException(
                f"{where} has a field {field!r}, which {kind} has not{guess(field, known)}",
                hint=f"its fields are {', '.join(known)}",
            )
    called = str(name or fields.get("name") or "")
    if not called:
        raise Usage(f"{where} has no name", hint="wherry site create NAME --host HOST")
    if boxed:
        return Site(called, _of_engine(fields, hosts, engine))
    listed = [*_listed(fields, where), *map(host, hosts)]
    if not listed:
        raise Usage(
            f"{where} has no hosts",
            hint="--host user@address adds one; repeat it. --containers is for a container engine",
        )
    common = {key: fields[key] for key in _FIELDS[3:] if key != "key" and fields.get(key)}
    body: Dict[str, Any] = {"kind": str(fields.get("kind") or "ssh")}
    body["config"] = {**common, "hosts": [_without_secrets(each) for each in listed]}
    body["secrets"] = {**_key(fields, path), **_of_hosts(listed, fields, path), **secrets}
    return Site(called, body)


def _of_engine(
    fields: Mapping[str, Any], hosts: Sequence[str], engine: Mapping[str, Any]
) -> Dict[str, Any]:
    if hosts:
        raise Usage("a site has hosts or a container engine", hint="leave out --host")
    said = {key: fields[key] for key in _ENGINE_FIELDS[2:] if fields.get(key) is not None}
    given = {key: value for key, value in engine.items() if value and key != "containers"}
    return {"kind": _CONTAINER, "config": {**said, **given}}


def host(text: str) -> Dict[str, Any]:
    """``user@address:port`` as fields."""
    user, address, port = split_host(text)
    found: Dict[str, Any] = {"address": address}
    if user:
        found["username"] = user
    return {**found, "port": port} if port else found


def changed(
    site: str, known: Sequence[Mapping[str, Any]], added: Sequence[str], removed: Sequence[str]
) -> List[Dict[str, Any]]:
    """The hosts of a site after the change."""
    left = [dict(each) for each in known]
    for text in removed:
        _, address, port = split_host(text)
        kept = [
            each
            for each in left
            if each["address"] != address or port not in (None, each.get("port", 22))
        ]
        if len(kept) == len(left):
            names = ", ".join(str(each["address"]) for each in left)
            raise Usage(f"site {site} has no host {text!r}", hint=f"its hosts are {names}")
        left = kept
    return [*left, *map(host, added)]


def _listed(fields: Mapping[str, Any], where: str) -> List[Any]:
    hosts = fields.get("hosts") or []
    if not isinstance(hosts, list):
        raise UserErrorException(
            f"{where}: hosts is {hosts!r}, which is no list", hint="such as hosts: [node1.lab]"
        )
    return [host(each) if isinstance(each, str) else each for each in hosts]


def _without_secrets(host: Any) -> Any:
    if not isinstance(host, dict):
        return host  # the server says what a host is
    return {name: value for name, value in host.items() if name not in _SECRETS}


def _of_hosts(
    hosts: Sequence[Any], fields: Mapping[str, Any], path: Optional[str]
) -> Dict[str, str]:
    """What single hosts are logged in to with, each called as the server calls it."""
    from ..core.compute_configs import secret_of

    found = {}
    for host in hosts:
        if isinstance(host, dict) and host.get("address"):
            place = {"address": host["address"], "port": host.get("port") or fields.get("port", 22)}
            own = {name: str(host[name]) for name in _SECRETS[1:] if host.get(name)}
            for name, value in {**_key(host, path), **own}.items():
                found[secret_of(place, name)] = value
    return found


def _key(fields: Mapping[str, Any], path: Optional[str]) -> Dict[str, str]:
    if not fields.get("key"):
        return {}
    from ..sdk.compute.machine import read_key

    folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    where = os.path.join(folder, os.path.expanduser(str(fields["key"])))
    return {"private_key": read_key(where)}
