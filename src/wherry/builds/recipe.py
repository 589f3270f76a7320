"""The part of a specification that says what gets installed, taken apart."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from wherry.builds.error import BuildError

RESOLVERS = ("auto", "rattler", "pypi")
_CONDA_WORD = re.compile(r"^(?:(?P<channel>\S+)::)?(?P<name>[A-Za-z0-9_.\-]+)\s*(?P<pin>.*)$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_DATE = re.compile(r"^\d{4}-[01]\d-[0-3]\d([T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:?\d\d)?)?$")
_NESTED = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")


class Recipe(NamedTuple):
    name: str = "this environment"
    python: str = ""  # the pin alone, "=3.8"
    channels: Tuple[str, ...] = ()
    conda: Tuple[str, ...] = ()  # as written, without python
    pip: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()  # of pip, one word each
    as_of: Optional[str] = None
    strict: bool = False
    resolver: str = "auto"
    lock: Optional[Dict[str, Any]] = None
    file: Optional[str] = None
    lines: Mapping[str, int] = {}
    notices: Tuple[str, ...] = ()  # that azureml packages are not installed

    def place(self, requirement: str) -> str:
        """Where a requirement was written, for a sentence: ``conda.yml, line 7``."""
        line = self.lines.get(requirement)
        parts = [self.file or "", f"line {line}" if line else ""]
        return ", ".join(part for part in parts if part)


def parse(spec: Dict[str, Any], folder: Optional[str] = None) -> Recipe:
    """``folder`` is where files that the pip section names are looked for."""
    python = spec.get("python") or {}
    if not isinstance(python, dict):
        raise BuildError(f"'python' must be an object, not {python!r}")
    name = f"environment {spec['name']!r}" if spec.get("name") else "this environment"
    channels, conda, pip = _sections(python.get("conda") or {}, name)
    requirements, options = _pip(pip, folder, name)
    pin, conda = _python(conda)
    azureml: List[str] = []
    lock = python.get("lock")
    if lock is not None and not _is_lock(lock):
        raise BuildError(f"the lock of {name} is not one that a build has written")
    return Recipe(
        name=name,
        python=pin,
        channels=tuple(channels),
        conda=tuple(_without_azureml(conda, azureml)),
        pip=tuple(_without_azureml(requirements, azureml)),
        options=tuple(options),
        as_of=_date(python.get("as_of"), name),
        strict=bool(python.get("strict")),
        resolver=_resolver(python.get("resolver"), name),
        lock=lock,
        file=python.get("file"),
        lines=dict(python.get("lines") or {}),
        notices=_not_installed(azureml),
    )


def name_of(requirement: str) -> str:
    """Of a pip requirement, as package indexes compare names; empty for a path or an address."""
    found = _NAME.match(requirement.strip())
    if not found or re.match(r"^[a-z+]+://", requirement.strip()):
        return ""
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def conda_parts(word: str) -> Tuple[str, str]:
    """The name and the pin of a conda dependency."""
    found = _CONDA_WORD.match(word.strip())
    if not found:
        raise BuildError(f"{word!r} is not a conda dependency: write it as name=version")
    return found.group("name").lower(), found.group("pin").strip()


def _is_lock(lock: Any) -> bool:
    parts = {"platform": str, "python": str, "conda": list, "pypi": list, "pylock": str}
    return (
        isinstance(lock, dict)
        and lock.get("format") == 1
        and all(isinstance(lock.get(part), kind) for part, kind in parts.items())
    )


def _sections(conda: Any, name: str) -> Tuple[List[str], List[str], List[str]]:
    if not isinstance(conda, dict):
        raise BuildError(f"the conda dependencies of {name} must be an object, not {conda!r}")
    words: List[str] = []
    pip: List[str] = []
    for each in _list(conda.get("dependencies"), "dependencies", name):
        if isinstance(each, str):
            words.append(each.strip())
        elif isinstance(each, dict) and set(each) == {"pip"}:
            pip += [str(one).strip() for one in _list(each["pip"], "pip", name)]
        else:
            raise BuildError(
                f"{name} has a dependency that is neither a name nor a pip list: {each!r}"
            )
    channels = [str(each) for each in _list(conda.get("channels"), "channels", name)]
    return channels, words, pip


def _list(value: Any, what: str, name: str) -> List[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BuildError(f"'{what}' of {name} must be a list, not {value!r}")
    return value


def _python(words: List[str]) -> Tuple[str, List[str]]:
    pin, rest = "", []
    for word in words:
        name, said = conda_parts(word)
        if name == "python":
            pin = said
        else:
            rest.append(word)
    return pin, rest


def _pip(entries: List[str], folder: Optional[str], name: str) -> Tuple[List[str], List[str]]:
    requirements: List[str] = []
    options: List[str] = []
    for entry in entries:
        text = re.sub(r"(^|\s)#.*$", "", entry).strip()
        if not text:
            continue
        if not text.startswith("-"):
            if text.startswith((".", "/")):
                raise _path_refused(text, name)
            requirements.append(text)
            continue
        words = _words(text.replace("=", " ", 1) if text.startswith("--") else text)
        if words[0] in _NESTED[:2]:
            more = _pip(_read(words, folder, name), folder, name)
            requirements += more[0]
            options += more[1]
        elif words[0] in _NESTED:
            raise _path_refused(text, name)
        else:
            options += words
    return requirements, options


def _words(text: str) -> List[str]:
    """As a shell would: an address may be quoted."""
    import shlex  # seldom needed

    try:
        return shlex.split(text)
    except ValueError:
        raise BuildError(f"{text!r} in the pip section has a quote that is not closed") from None


def _path_refused(text: str, name: str) -> BuildError:
    return BuildError(
        f"{name} asks for {text!r}: environments are shared between runs and cannot hold a path",
        hint="the source directory is on the script's path; a wheel of your own goes to"
        " the workspace (wherry environment add-wheel FILE), and its address here",
    )


def _read(words: List[str], folder: Optional[str], name: str) -> List[str]:
    if len(words) != 2:
        raise BuildError(f"{name} says {' '.join(words)!r}, which names no file")
    path = os.path.join(folder or os.curdir, words[1])
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise BuildError(
            f"{name} asks for the requirements in {words[1]!r}, which cannot be read: "
            f"{error.strerror}",
            hint="the path is relative to the source directory",
        ) from None
    return re.sub(r"\\\n", " ", text).splitlines()


def _without_azureml(words: List[str], left_out: List[str]) -> List[str]:
    kept = []
    for word in words:
        if re.match(r"^(\S+::)?azureml([-_.]|$|[^A-Za-z0-9])", word.strip(), re.IGNORECASE):
            left_out.append(word)
        else:
            kept.append(word)
    return kept


def _not_installed(words: List[str]) -> Tuple[str, ...]:
    if not words:
        return ()
    verb, whose = ("is", "its") if len(words) == 1 else ("are", "their")
    return (
        f"{', '.join(words)} {verb} not installed: Wherry's own azureml module takes {whose} place",
    )


def _date(value: Any, name: str) -> Optional[str]:
    if value is None:
        return None
    text = str(value)
    if not _DATE.match(text):
        raise BuildError(f"'as_of' of {name} is {text!r}: write a date as 2020-05-01")
    return text


def _resolver(value: Any, name: str) -> str:
    chosen = value or "auto"
    if chosen not in RESOLVERS:
        raise BuildError(
            f"{name} asks for the resolver {chosen!r}; there are {', '.join(RESOLVERS)}"
        )
    return str(chosen)
