"""What lets somebody in, in what describes an environment: covered for all but its node. Pure."""

from __future__ import annotations

import re
from typing import Any, List, Mapping

COVER = "***"
_LOGIN = r"://[^/@\s\"']*@"
_TOKEN = r"(://[^/\s\"']+/t)/[^/\s\"']+"  # as conda's servers take them
_PAIR = r"([?&])([^=&?\s\"'#]+)=([^&\s\"'#]+)"
_SECRET = ("sig", "token", "password", "secret", "key", "credential")
_VARIABLE = r"((?:-e|--env)[ =]\s*)?([A-Za-z_]\w*)=.*"
_SAYS_VARIABLE = (["-e"], ["--env"])


def without_credentials(text: str) -> str:
    """The text, whatever it is, without what its addresses let somebody in with.

    >>> without_credentials("--index-url https://me:secret@host/simple")
    '--index-url https://***@host/simple'
    """
    if "://" not in text:
        return text
    text = re.sub(_LOGIN, f"://{COVER}@", text)
    text = re.sub(_TOKEN, rf"\1/{COVER}", text)
    return re.sub(_PAIR, _pair, text)


def covered(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """An environment's specification as anybody may see it; itself if nothing in it is secret."""
    found = _covered(spec)
    docker = found.get("docker") or {}
    if docker.get("arguments"):
        arguments = _arguments(docker["arguments"])
        found = {**found, "docker": {**docker, "arguments": arguments}}
    return spec if found == spec else found


def _pair(found: Any) -> str:
    start, name, value = found.groups()
    secret = any(word in name.lower() for word in _SECRET)
    return f"{start}{name}={COVER if secret else value}"


def _covered(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, (list, tuple)):
        return [_covered(each) for each in value]
    if isinstance(value, Mapping):  # a requirement may be a name, too: of the line it stood in
        return {_covered(name): _covered(each) for name, each in value.items()}
    return value


def _arguments(words: List[str]) -> List[str]:
    """Those of ``docker run``, without the values of variables."""
    found: List[str] = []
    for word in words:
        said = re.fullmatch(_VARIABLE, word, re.DOTALL)
        variable = said and (said.group(1) or found[-1:] in _SAYS_VARIABLE)
        found.append(f"{said.group(1) or ''}{said.group(2)}={COVER}" if said and variable else word)
    return found
