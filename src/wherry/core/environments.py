"""What an environment is: its specification, checked, normalised and known by its content. Pure.

A specification is one JSON object: ``name``, ``version``, ``python`` (user-managed: an
``interpreter``; else a ``conda`` file, or a ``lock`` of an earlier build), ``docker``, ``spark``,
``inference`` and ``variables``. What is absent or None is not said.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence

from .credentials import without_credentials
from .errors import UserErrorException
from .nearest import suggest
from .requirements import Problem, conda_problem, pip_problem, sorted_pip
from .text import clean

LATEST = "latest"
RESOLVERS = ("auto", "rattler", "pypi")
MAX_BYTES = 4 * 2**20
_MAX_LEVELS = 20
_MAX_MESSAGE = 1000
_SHARED = r"azureml://registries/[^/]+/environments/([^/]+)(?:/(?:versions|labels)/[^/]+)?/?"
_VERSION = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}\Z"
_DATE = r"\d{4}-\d{2}-\d{2}([T ][\d:.]+(Z|[+-]\d{2}:?\d{2})?)?\Z"
_IMAGE = r"(?a:[A-Za-z0-9_][\w.+-]*(?:[:@/][A-Za-z0-9_][\w.+-]*){0,99})\Z"
_MAX_IMAGE = 1024
_SHM_SIZE = r"\d+(\.\d+)?[bkmgBKMG]?\Z"

Fields = Mapping[str, Any]
Reader = Callable[[Any, str, str], Any]


def parse(fields: Any, where: str = "the environment") -> Dict[str, Any]:
    """The specification with what it says and nothing else, or ``UserErrorException``.

    ``where`` names the environment or its file in sentences.
    """
    _check_json(fields, where)
    fields = _section(fields, where, where)
    known: Dict[str, Reader] = {
        "name": _text,
        "version": check_version,
        "python": _python,
        "docker": _docker,
        "spark": _section,
        "inference": _section,
        "variables": _variables,
    }
    spec = _read(fields, known, where, "")
    python = spec.setdefault("python", {})
    python.setdefault("user_managed", python.get("conda") is None and python.get("lock") is None)
    return spec


def check_version(version: Any, where: str = "the environment", name: str = "version") -> str:
    """A version is text: ``3`` and ``2024-01-31`` are both."""
    if isinstance(version, int) and not isinstance(version, bool):
        version = str(version)
    if not isinstance(version, str) or version == LATEST or not re.match(_VERSION, version):
        _refuse(
            f"{where}: {_shown(version)} is no version",
            "use letters, digits, '-', '_' and '.', such as 3; 'latest' means the newest one",
        )
    return version


def check_label(label: Any) -> str:
    """A label is written as a version is; ``latest`` is on the newest one by itself."""
    if not isinstance(label, str) or label == LATEST or not re.match(_VERSION, label):
        _refuse(
            f"{_shown(label)} is no label that can be put on an environment",
            "use letters, digits, '-', '_' and '.', such as production; latest is always on the "
            "newest version",
        )
    return label


class Reference(NamedTuple):
    """A version of an environment, by itself or by a label; without either the newest."""

    name: str
    version: Optional[str] = None
    label: Optional[str] = None


def parse_reference(reference: str) -> Reference:
    """What ``azureml:name:version``, ``name@label`` or ``name`` means.

    An environment of Azure ML's own registry (``azureml://registries/azureml/environments/...``)
    is a curated one.
    """
    shared = re.fullmatch(_SHARED, reference)
    if shared:
        return Reference(f"AzureML-{shared.group(1)}")
    text = reference[len("azureml:") :] if reference.startswith("azureml:") else reference
    name, mark, which = next(
        (text.partition(mark) for mark in ":@" if mark in text), (text, "", "")
    )
    if not name or "/" in name or (mark and not which):
        _refuse(f"{_shown(reference)} names no environment", "write name:version or name@label")
    if not mark or which == LATEST:
        return Reference(name)
    return Reference(name, version=which) if mark == ":" else Reference(name, label=which)


def content_hash(spec: Fields) -> str:
    """What gets installed, as a SHA-256: the same for all specifications that mean the same."""
    content = {"python": _python_content(spec), "docker": _docker_content(spec)}
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def fingerprint_text(spec: Fields) -> str:
    """All that a registered version promises: two are the same where this is."""
    python = {
        name: value
        for name, value in (spec.get("python") or {}).items()
        if name not in ("lines", "file")
    }
    others = {name: spec.get(name) or {} for name in ("docker", "spark", "inference", "variables")}
    return canonical({"python": python, **others})


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def pip_of(conda: Fields) -> List[str]:
    """The pip section of a conda file."""
    return [
        line
        for each in conda.get("dependencies") or []
        if isinstance(each, Mapping)
        for line in each.get("pip") or []
    ]


def conda_of(conda: Fields) -> List[str]:
    """Its packages from channels."""
    return [each for each in conda.get("dependencies") or [] if isinstance(each, str)]


def _python_content(spec: Fields) -> Dict[str, Any]:
    python = spec.get("python") or {}
    if python.get("user_managed"):
        return {"interpreter": python.get("interpreter") or ""}
    conda = python.get("conda") or {}
    content: Dict[str, Any] = {
        "channels": list(conda.get("channels") or []),
        "conda": sorted({" ".join(line.split()) for line in conda_of(conda)}),
        "pip": sorted_pip(pip_of(conda)),
    }
    for name in ("as_of", "resolver", "strict", "lock"):
        if python.get(name):
            content[name] = python[name]
    if content.get("resolver") == "auto":
        del content["resolver"]
    return content


def _docker_content(spec: Fields) -> Dict[str, Any]:
    docker = spec.get("docker") or {}
    if not docker.get("enabled"):
        return {}
    names = ("image", "dockerfile", "context", "platform")
    content = {name: docker[name] for name in names if docker.get(name)}
    address = (docker.get("registry") or {}).get("address")
    return {**content, "registry": address} if address else content


def _python(value: Any, where: str, name: str) -> Dict[str, Any]:
    fields = _section(value, where, name)
    at = _Place(where, fields.get("file"), fields.get("lines"))
    known: Dict[str, Reader] = {
        "user_managed": _switch,
        "interpreter": _text,
        "conda": lambda conda, where, name: _conda(conda, where, name, at),
        "lines": _lines,
        "file": _text,
        "as_of": _date,
        "strict": _switch,
        "resolver": _resolver,
        "lock": _section,
    }
    if isinstance(fields.get("conda"), Mapping):
        fields = _lifted(fields)
    return _read(fields, known, where, name)


def _lifted(python: Fields) -> Dict[str, Any]:
    """``as_of`` and ``strict`` may stand in the conda file; its ``prefix`` means nothing here."""
    conda = dict(python["conda"])
    conda.pop("prefix", None)
    said = {name: conda.pop(name) for name in ("as_of", "strict") if name in conda}
    return {**said, **{k: v for k, v in python.items() if v is not None}, "conda": conda}


class _Place:
    """The lines of a user's file, for sentences."""

    def __init__(self, where: str, file: Any, lines: Any) -> None:
        self.where = file if isinstance(file, str) and file else where
        self._lines = lines if isinstance(lines, Mapping) else {}

    def refuse(self, problem: Problem, line: Any) -> NoReturn:
        number = self._lines.get(line) if isinstance(line, str) else None
        at = f", line {number}" if number else ""
        _refuse(f"{self.where}{at}: {problem.sentence}", problem.hint)


def _conda(value: Any, where: str, name: str, at: _Place) -> Dict[str, Any]:
    known: Dict[str, Reader] = {"name": _text, "channels": _texts, "dependencies": _list}
    conda = _read(_section(value, where, name), known, at.where, "")
    found: List[Any] = []
    for each in conda.get("dependencies") or []:
        if isinstance(each, Mapping):
            found.append(_pip_section(each, at, found))
            continue
        problem = conda_problem(each)
        if problem is not None:
            at.refuse(problem, each)
        found.append(each.strip())
    return {**conda, "dependencies": found}


def _pip_section(value: Fields, at: _Place, before: Sequence[Any]) -> Dict[str, List[str]]:
    if list(value) != ["pip"]:
        others = [str(key) for key in value if key != "pip"] or ["nothing"]
        at.refuse(
            Problem(f"among the dependencies stands a section {others[0]!r}", "it may be pip:"), ""
        )
    if any(isinstance(each, Mapping) for each in before):
        at.refuse(Problem("there are two pip sections", "write all of it below one '- pip:'"), "")
    lines = value["pip"]
    if not isinstance(lines, (list, tuple)):
        at.refuse(Problem(f"the pip section is {lines!r}, not a list", "write '- pandas'"), "")
    for line in lines:
        problem = pip_problem(line)
        if problem is not None:
            at.refuse(problem, line)
    return {"pip": [line.strip() for line in lines]}


def _docker(value: Any, where: str, name: str) -> Dict[str, Any]:
    known: Dict[str, Reader] = {
        "enabled": _switch,
        "image": _image,
        "dockerfile": _text,
        "context": _text,
        "registry": _registry,
        "platform": _section,
        "arguments": _texts,
        "shared_volumes": _switch,
        "shm_size": _shm_size,
        "gpus": _anything,
    }
    docker = _read(_section(value, where, name), known, where, name)
    if docker.get("enabled") and not (
        docker.get("image") or docker.get("dockerfile") or docker.get("context")
    ):
        _refuse(
            f"{where} asks for a container, but names no image",
            "name one, such as python:3.11-slim, or give a Dockerfile",
        )
    if docker.get("image") and docker.get("dockerfile"):
        _refuse(
            f"{where} has both an image {docker['image']!r} and a Dockerfile",
            "leave out the image: the Dockerfile's FROM names it",
        )
    return docker


def _registry(value: Any, where: str, name: str) -> Dict[str, Any]:
    known: Dict[str, Reader] = {"address": _address, "username": _text, "password": _text}
    return _read(_section(value, where, name), known, where, name)


def _image(value: Any, where: str, name: str) -> str:
    """What an engine could have under this name; nothing that means something else to it."""
    image = _text(value, where, name)
    if image and (len(image) > _MAX_IMAGE or not re.match(_IMAGE, image)):
        _refuse(
            f"{where}: {name} is {_shown(image)}, which is no name of an image",
            "write it like python:3.11-slim or registry.example.com/team/image:tag",
        )
    return image


def _address(value: Any, where: str, name: str) -> str:
    address = _text(value, where, name)
    if address and not re.match(_IMAGE, re.sub(r"https?://", "", address, count=1).rstrip("/")):
        _refuse(
            f"{where}: {name} is {_shown(address)}, which is no registry's address",
            "write it like registry.example.com; username and password stand beside it",
        )
    return address


def _read(fields: Fields, known: Mapping[str, Reader], where: str, above: str) -> Dict[str, Any]:
    found = {}
    for key, value in fields.items():
        name = f"{above}.{key}" if above else str(key)
        if key not in known:
            _refuse(
                f"{where} has a field {name!r}, which an environment has not{suggest(key, known)}",
                f"the fields{' of ' + above if above else ''} are {', '.join(known)}",
            )
        if value is not None:
            found[key] = known[key](value, where, name)
    return found


def _section(value: Any, where: str, name: str) -> Dict[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(f"{where}: {name} is {_shown(value)} and has no fields", "write it as name: value")
    return dict(value)


def _text(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str):
        _refuse(f"{where}: {name} is {_shown(value)}, not text", "put it in quotes")
    return value


def _list(value: Any, where: str, name: str) -> List[Any]:
    if not isinstance(value, (list, tuple)):
        _refuse(f"{where}: {name} is {_shown(value)}, not a list", "begin each line with '- '")
    return list(value)


def _texts(value: Any, where: str, name: str) -> List[str]:
    return [_text(each, where, name) for each in _list(value, where, name)]


def _switch(value: Any, where: str, name: str) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{where}: {name} is {_shown(value)}", "it is true or false")
    return value


def _date(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str) or not re.match(_DATE, value) or not _is_day(value[:10]):
        _refuse(f"{where}: {name} is {_shown(value)}, not a date", "write it like 2020-05-01")
    return value


def _is_day(text: str) -> bool:
    from datetime import date

    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _resolver(value: Any, where: str, name: str) -> str:
    if value not in RESOLVERS:
        guess = suggest(str(value), RESOLVERS)
        _refuse(f"{where}: {name} is {_shown(value)}{guess}", f"it is {' or '.join(RESOLVERS)}")
    return str(value)


def _shm_size(value: Any, where: str, name: str) -> str:
    text = str(value)
    if isinstance(value, bool) or not re.match(_SHM_SIZE, text):
        _refuse(f"{where}: {name} is {_shown(value)}, not a size", "write it like 2g or 512m")
    return text


def _lines(value: Any, where: str, name: str) -> Dict[str, int]:
    lines = _section(value, where, name)
    for key, number in lines.items():
        if isinstance(number, bool) or not isinstance(number, int):
            _refuse(f"{where}: {name} of {key!r} is {_shown(number)}", "it is a line's number")
    return lines


def _variables(value: Any, where: str, name: str) -> Dict[str, str]:
    found = {}
    for key, item in _section(value, where, name).items():
        if not key or "=" in key or isinstance(item, (Mapping, list, tuple)):
            shown = str(key).partition("=")[0]  # what follows may be a value, and secret
            _refuse(f"{where}: {name} has an entry {shown!r} that cannot be used", "write A: '1'")
        text = "" if item is None else str(item)
        found[key] = text.lower() if isinstance(item, bool) else text
    return found


def _anything(value: Any, where: str, name: str) -> Any:
    return value


def _check_json(value: Any, where: str) -> None:
    """Text that every database holds, numbers that JSON has, levels that every reader bears."""
    _check_plain(value, where, 0)
    size = len(canonical(value))
    if size > MAX_BYTES:
        _refuse(
            f"{where} is described with {size} bytes, more than {MAX_BYTES}",
            "a large file belongs into the source directory or a build context",
        )


def _check_plain(value: Any, where: str, level: int) -> None:
    if level > _MAX_LEVELS:
        _refuse(f"{where} is nested more than {_MAX_LEVELS} levels deep", "write it flatter")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                _refuse(f"{where}: the name {_shown(key)} is not text", "put it in quotes")
            _check_plain(key, where, level)
            _check_plain(item, where, level + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_plain(item, where, level + 1)
    elif isinstance(value, str):
        if clean(value) != value:
            _refuse(f"{where}: {_shown(value)} cannot be kept as text", "take the odd bytes out")
    elif value is not None and not isinstance(value, (bool, int, float)):
        _refuse(f"{where}: {_shown(value)} is not text, a number or a list", "put it in quotes")
    elif isinstance(value, float) and value - value != 0:
        _refuse(f"{where}: {value} is no number that can be kept", "leave it out")
    elif isinstance(value, int) and abs(value) >= 2**63:
        _refuse(f"{where} has a number that is too large", "write it as text, in quotes")


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _refuse(message: str, hint: str) -> NoReturn:
    message = clean(without_credentials(message), _MAX_MESSAGE)
    raise UserErrorException(message, hint=without_credentials(hint))
