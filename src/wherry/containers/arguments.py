"""Arguments of ``docker run``, as the fields that Docker's interface has for them."""

from __future__ import annotations

import shlex
from typing import Any, Callable, Dict, List, Sequence

from .error import ContainerError
from .sizes import parse_size

Fields = Dict[str, Any]
Setter = Callable[[Fields, str], None]

_SHORT = {"-v": "--volume", "-m": "--memory", "-e": "--env", "-c": "--cpu-shares", "-l": "--label"}
_NO_MEANING = {"--rm", "--detach", "-d", "--interactive", "-i", "--tty", "-t", "-it"}


def parse_arguments(words: Sequence[str]) -> Fields:
    """``HostConfig`` and others, to be laid over those of a container to be made."""
    fields: Fields = {"HostConfig": {}}
    rest = _split(words)
    while rest:
        word = rest.pop(0)
        name, given, value = word.partition("=")
        name = _SHORT.get(name, name)
        if name in _NO_MEANING:
            continue
        if name in _SWITCHES:
            fields["HostConfig"][_SWITCHES[name]] = value.lower() != "false"
            continue
        if name not in _SETTERS:
            raise ContainerError(
                f"docker.arguments has {word!r}, which is not taken; "
                f"there are {', '.join(sorted([*_SETTERS, *_SWITCHES]))}"
            )
        if not given:
            if not rest:
                raise ContainerError(f"docker.arguments ends with {word!r}; its value is missing")
            value = rest.pop(0)
        _SETTERS[name](fields, value)
    return fields


def _split(words: Sequence[str]) -> List[str]:
    """``-v /data:/data`` may stand in one."""
    found: List[str] = []
    for word in words:
        apart = word.startswith("-") and " " in word.partition("=")[0]
        found += shlex.split(word) if apart else [word]
    return found


def _plain(key: str, convert: Callable[[str], Any] = str) -> Setter:
    def put(fields: Fields, value: str) -> None:
        try:
            fields["HostConfig"][key] = convert(value)
        except ValueError:
            raise ContainerError(
                f"docker.arguments gives {value!r} where a number belongs; correct it"
            ) from None

    return put


def _size(key: str) -> Setter:
    return _plain(key, lambda text: parse_size(text, "a size in docker.arguments"))


def _more(key: str) -> Setter:
    return lambda fields, value: fields["HostConfig"].setdefault(key, []).append(value)


def _env(fields: Fields, value: str) -> None:
    if "=" in value:
        fields.setdefault("Env", []).append(value)


def _label(fields: Fields, value: str) -> None:
    name, _, text = value.partition("=")
    fields.setdefault("Labels", {})[name] = text


def _volume(fields: Fields, value: str) -> None:
    source, _, rest = value.partition(":")
    target, _, options = rest.partition(":")
    if not source.startswith("/") or not target.startswith("/"):
        raise ContainerError(
            f"docker.arguments mounts {value!r}; write it like /data:/data or /data:/data:ro"
        )
    mount: Fields = {"Type": "bind", "Source": source, "Target": target}
    if "ro" in options.split(","):
        mount["ReadOnly"] = True
    fields["HostConfig"].setdefault("Mounts", []).append(mount)


def _ulimit(fields: Fields, value: str) -> None:
    name, _, limits = value.partition("=")
    soft, _, hard = limits.partition(":")
    try:
        limit = {"Name": name, "Soft": int(soft), "Hard": int(hard or soft)}
    except ValueError:
        raise ContainerError(
            f"docker.arguments has the limit {value!r}; write it like nofile=65536:65536"
        ) from None
    fields["HostConfig"].setdefault("Ulimits", []).append(limit)


def _device(fields: Fields, value: str) -> None:
    here, _, rest = value.partition(":")
    there, _, rights = rest.partition(":")
    device = {
        "PathOnHost": here,
        "PathInContainer": there or here,
        "CgroupPermissions": rights or "rwm",
    }
    fields["HostConfig"].setdefault("Devices", []).append(device)


def _tmpfs(fields: Fields, value: str) -> None:
    path, _, options = value.partition(":")
    fields["HostConfig"].setdefault("Tmpfs", {})[path] = options


def _gpus(fields: Fields, value: str) -> None:
    fields["gpus"] = value


_SWITCHES = {"--privileged": "Privileged", "--init": "Init", "--read-only": "ReadonlyRootfs"}
_SETTERS: Dict[str, Setter] = {
    "--add-host": _more("ExtraHosts"),
    "--cap-add": _more("CapAdd"),
    "--cap-drop": _more("CapDrop"),
    "--cpu-shares": _plain("CpuShares", int),
    "--cpus": _plain("NanoCpus", lambda text: int(float(text) * 1e9)),
    "--cpuset-cpus": _plain("CpusetCpus"),
    "--device": _device,
    "--dns": _more("Dns"),
    "--env": _env,
    "--gpus": _gpus,
    "--group-add": _more("GroupAdd"),
    "--ipc": _plain("IpcMode"),
    "--label": _label,
    "--memory": _size("Memory"),
    "--memory-swap": _size("MemorySwap"),
    "--net": _plain("NetworkMode"),
    "--network": _plain("NetworkMode"),
    "--pids-limit": _plain("PidsLimit", int),
    "--runtime": _plain("Runtime"),
    "--security-opt": _more("SecurityOpt"),
    "--shm-size": _size("ShmSize"),
    "--tmpfs": _tmpfs,
    "--ulimit": _ulimit,
    "--volume": _volume,
}
