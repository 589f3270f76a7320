"""``CondaDependencies``: the packages of an environment, as a conda file says them."""

from __future__ import annotations

import os
import re
import sys
from json import dumps
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ..core import requirements
from ..core.environments import conda_of, parse, pip_of
from ..core.errors import UserErrorException
from . import yaml_text

NAME = "project_environment"
FILE_NAME = "conda_dependencies.yml"
CHANNELS = ("anaconda", "conda-forge")
DEFAULT_PIP = "azureml-defaults"
# What begins with a letter, or as an option, and has nothing in it that YAML takes for its own:
# a colon before a space or at the end, a number sign behind a space.
_PLAIN = r"(?:--?)?[A-Za-z_](?:(?!: | #)[ -~])*(?<![: ])"
_PRINTABLE = r"[ -~]*"
_VERSION = r"(?a:[=<>!~]*\d[\w.*,|<>=!~]*)"
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


class CondaDependencies:
    """The conda packages, pip requirements and channels of an environment.

    >>> packages = CondaDependencies.create(conda_packages=["scikit-learn"], pip_packages=["tqdm"])
    >>> packages.add_channel("conda-forge")
    >>> print(packages.serialize_to_string())

    With a path it is what the file says. Without a python version it asks for the one that runs
    here. ``azureml-*`` packages may be named: Wherry's own take their place.
    """

    def __init__(
        self,
        conda_dependencies_file_path: Any = None,
        _underlying_structure: Optional[Mapping[str, Any]] = None,
        _where: str = "",
        _lines: Optional[Mapping[str, int]] = None,
    ) -> None:
        self._file = _where
        self._lines: Dict[str, int] = dict(_lines or {})
        if conda_dependencies_file_path is not None:
            self._file = os.fspath(conda_dependencies_file_path)
            self._conda = self._load()
        elif _underlying_structure is not None:
            where = _where or "the conda file"
            self._conda = _checked(_underlying_structure, where, self._lines)
        else:
            dependencies = [f"python={_here()}", {"pip": [DEFAULT_PIP]}]
            self._conda = {
                "name": NAME,
                "dependencies": dependencies,
                "channels": list(CHANNELS),
            }

    @staticmethod
    def create(
        pip_indexurl: Optional[str] = None,
        pip_packages: Optional[Sequence[str]] = None,
        conda_packages: Optional[Sequence[str]] = None,
        python_version: Optional[str] = None,
        pin_sdk_version: bool = True,
    ) -> CondaDependencies:
        """The usual packages with these besides.

        >>> CondaDependencies.create(conda_packages=["scikit-learn"], python_version="3.11")
        """
        made = CondaDependencies()
        if python_version is not None:
            made.set_python_version(python_version)
        for package in _listed("conda_packages", conda_packages):
            made.add_conda_package(package)
        for package in _listed("pip_packages", pip_packages):
            made.add_pip_package(package)
        if pip_indexurl:
            made.set_pip_index_url(pip_indexurl)
        return made

    @staticmethod
    def merge_requirements(requirements_list: Sequence[str]) -> List[str]:
        """One line for each package, with all that the lines say of it.

        >>> CondaDependencies.merge_requirements(["pandas>=1", "numpy", "pandas<3"])
        ['pandas>=1,<3', 'numpy']
        """
        found: Dict[str, List[str]] = {}
        first: Dict[str, str] = {}
        for line in requirements_list:
            name = requirements.pip_name(line)
            rest = requirements.pip_rest(line)
            first.setdefault(name, line[: len(line.rstrip()) - len(rest)].strip() if rest else line)
            if rest and rest not in found.setdefault(name, []):
                found[name].append(rest)
        return [first[name] + ",".join(found.get(name, [])) for name in first]

    @property
    def conda_channels(self) -> List[str]:
        return list(self._conda.get("channels") or [])

    @property
    def conda_packages(self) -> List[str]:
        return conda_of(self._conda)

    @property
    def pip_packages(self) -> List[str]:
        return [line for line in pip_of(self._conda) if not requirements.is_option(line)]

    @property
    def pip_options(self) -> List[str]:
        return [line for line in pip_of(self._conda) if requirements.is_option(line)]

    def get_python_version(self) -> Optional[str]:
        """What follows ``python``; None if nothing does."""
        for line in self.conda_packages:
            if requirements.conda_name(line) == "python":
                version = line.strip()[len("python") :].strip().lstrip("=")
                return version or None
        return None

    def set_python_version(self, version: str) -> None:
        if not re.fullmatch(_VERSION, str(version)):
            raise UserErrorException(
                f"{version!r} is no version of Python", hint="write it like 3.11"
            )
        self.add_conda_package(f"python={version}")

    def add_channel(self, channel: Any) -> None:
        if not isinstance(channel, str) or not channel.strip():
            raise UserErrorException(
                f"{channel!r} is no channel", hint="name one like conda-forge, or its address"
            )
        channels = self._conda.setdefault("channels", [])
        if channel not in channels:
            channels.append(channel)

    def remove_channel(self, channel: str) -> None:
        channels = self._conda.get("channels") or []
        if channel in channels:
            channels.remove(channel)

    def add_conda_package(self, conda_package: str) -> None:
        """Add a package; one of the same name gives way to it."""
        _check(requirements.conda_problem(conda_package))
        line = conda_package.strip()
        lines = self._dependencies()
        name = requirements.conda_name(line)
        for place, each in enumerate(lines):
            if isinstance(each, str) and requirements.conda_name(each) == name:
                lines[place] = line
                return
        lines.append(line)

    def remove_conda_package(self, conda_package: str) -> None:
        name = requirements.conda_name(_text(conda_package))
        lines = self._dependencies()
        lines[:] = [
            each
            for each in lines
            if not (isinstance(each, str) and requirements.conda_name(each) == name)
        ]

    def add_pip_package(self, pip_package: str) -> None:
        """Add a requirement; one of the same name gives way to it."""
        _check(requirements.pip_problem(pip_package))
        line = pip_package.strip()
        lines = self._pip()
        name = requirements.pip_name(line)
        for place, each in enumerate(lines):
            if requirements.pip_name(each) == name:
                lines[place] = line
                return
        lines.append(line)

    def remove_pip_package(self, pip_package: str) -> None:
        name = requirements.pip_name(_text(pip_package))
        lines = self._pip()
        lines[:] = [each for each in lines if requirements.pip_name(each) != name]

    def set_pip_index_url(self, index_url: str) -> None:
        """Where pip looks for packages. An address, or the whole option."""
        self.set_pip_option(
            index_url if requirements.is_option(index_url) else f"--index-url {index_url}"
        )

    def set_pip_option(self, pip_option: Any) -> None:
        """Say an option to pip, such as ``--extra-index-url https://...``.

        ``--index-url`` is said once; of others there may be many.
        """
        if not isinstance(pip_option, str) or not requirements.is_option(pip_option.strip()):
            raise UserErrorException(
                f"{pip_option!r} is no option of pip", hint="write it like --pre"
            )
        _check(requirements.pip_problem(pip_option))
        option, lines = pip_option.strip(), self._pip()
        if _option_name(option) == "--index-url":
            lines[:] = [each for each in lines if _option_name(each) != "--index-url"]
        if option not in lines:
            lines.insert(len(self.pip_options), option)

    def remove_pip_option(self, pip_option: str) -> None:
        """Take an option back: the whole of it, or by its name all that say it."""
        option, lines = _text(pip_option).strip(), self._pip()
        lines[:] = [
            each
            for each in lines
            if not requirements.is_option(each) or option not in (each, _option_name(each))
        ]

    def set_pip_requirements(self, pip_requirements: Sequence[str]) -> None:
        """Have these requirements, and no others, in the pip section; options stay."""
        lines = _listed("pip_requirements", pip_requirements)
        for line in lines:
            _check(requirements.pip_problem(line))
        self._pip()[:] = [*self.pip_options, *(line.strip() for line in lines)]

    def add_tensorflow_pip_package(
        self, core_type: str = "cpu", version: Optional[str] = None
    ) -> None:
        self.add_pip_package(_tensorflow(core_type, version, "=="))

    def add_tensorflow_conda_package(
        self, core_type: str = "cpu", version: Optional[str] = None
    ) -> None:
        self.add_conda_package(_tensorflow(core_type, version, "="))

    def remove_tensorflow_pip_package(
        self, core_type: str = "cpu", version: Optional[str] = None
    ) -> None:
        self.remove_pip_package(_tensorflow(core_type, None, ""))

    def remove_tensorflow_conda_package(
        self, core_type: str = "cpu", version: Optional[str] = None
    ) -> None:
        self.remove_conda_package(_tensorflow(core_type, None, ""))

    def as_dict(self) -> Dict[str, Any]:
        """The conda file as a dict; a copy."""
        return {name: _copied(value) for name, value in self._conda.items()}

    def serialize_to_string(self) -> str:
        """The conda file as text."""
        lines = [f"name: {_scalar(self._conda.get('name') or NAME)}"]
        for name in ("as_of", "strict"):
            if name in self._conda:
                lines.append(f"{name}: {dumps(self._conda[name])}")
        return "\n".join([*lines, *self._dependency_lines(), *self._channel_lines(), ""])

    def save_to_file(self, base_directory: Any, conda_file_path: Any = None) -> str:
        """Write the conda file below a folder, and say where."""
        path = os.path.join(os.fspath(base_directory), os.fspath(conda_file_path or FILE_NAME))
        self.save(path)
        return path

    def save(self, path: Any = None) -> None:
        """Write the conda file; without a path to where it was read from."""
        where = os.fspath(path) if path is not None else self._file or FILE_NAME
        if os.path.isdir(where):
            where = os.path.join(where, FILE_NAME)
        try:
            with open(where, "w", encoding="utf-8") as file:
                file.write(_HEAD + self.serialize_to_string())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserErrorException(f"{where} cannot be written: {reason}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CondaDependencies) and other._conda == self._conda

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CondaDependencies({self.as_dict()!r})"

    def to_spec(self) -> Dict[str, Any]:
        """The fields of a specification's ``python`` that it stands for."""
        spec: Dict[str, Any] = {"conda": self.as_dict()}
        if self._file:
            present = {*self.conda_packages, *pip_of(self._conda)}
            spec["file"] = self._file
            spec["lines"] = {line: at for line, at in self._lines.items() if line in present}
        return spec

    def _load(self) -> Dict[str, Any]:
        text = yaml_text.read_file(self._file, "a conda file")
        value, lines = yaml_text.parse_with_lines(text, self._file, _FORM)
        if not isinstance(value, Mapping):
            raise UserErrorException(f"{self._file} is no conda file", hint=_FORM)
        self._lines = lines_of(value, lines)
        return _checked(value, self._file, self._lines)

    def _dependencies(self) -> List[Any]:
        found: List[Any] = self._conda.setdefault("dependencies", [])
        return found

    def _pip(self) -> List[str]:
        """The pip section, made if there is none."""
        for each in self._dependencies():
            if isinstance(each, dict):
                lines: List[str] = each["pip"]
                return lines
        self._dependencies().append({"pip": []})
        return self._pip()

    def _dependency_lines(self) -> List[str]:
        lines = []
        for each in self._conda.get("dependencies") or []:
            if isinstance(each, str):
                lines.append(f"- {_scalar(each)}")
            elif each["pip"]:
                lines += ["- pip:", *(f"  - {_scalar(line)}" for line in each["pip"])]
        return ["dependencies:", *lines] if lines else ["dependencies: []"]

    def _channel_lines(self) -> List[str]:
        channels = self.conda_channels
        return ["channels:", *(f"- {_scalar(each)}" for each in channels)] if channels else []


_FORM = "a conda file has name:, channels: and dependencies:, each dependency on a line '- numpy'"
_HEAD = """\
# A conda environment. It is made for runs that do not say userManagedDependencies: true.
"""


def lines_of(conda: Mapping[str, Any], lines: Mapping[Any, int]) -> Dict[str, int]:
    """Where each requirement stands, from where each value of the conda file does."""
    found: Dict[str, int] = {}
    dependencies = conda.get("dependencies")
    for place, each in enumerate(dependencies if isinstance(dependencies, list) else []):
        if isinstance(each, str):
            found.setdefault(each.strip(), lines.get(("dependencies", place), 0))
        elif isinstance(each, Mapping) and isinstance(each.get("pip"), list):
            for below, line in enumerate(each["pip"]):
                if isinstance(line, str):
                    at = lines.get(("dependencies", place, "pip", below), 0)
                    found.setdefault(line.strip(), at)
    return {line: at for line, at in found.items() if at}


def _checked(conda: Mapping[str, Any], where: str, lines: Mapping[str, int]) -> Dict[str, Any]:
    """What the file says, in its order, with ``as_of`` and ``strict`` where it said them."""
    plain = {name: dated(value) for name, value in conda.items() if name != "prefix"}
    python = parse({"python": {"conda": plain, "file": where, "lines": dict(lines)}}, where)[
        "python"
    ]
    said = {name: python[name] for name in ("as_of", "strict") if name in python}
    return {**{name: python["conda"][name] for name in plain if name in python["conda"]}, **said}


def dated(value: Any) -> Any:
    """YAML reads 2020-05-01 as a date; a specification has text."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _check(problem: Optional[requirements.Problem]) -> None:
    if problem is not None:
        raise UserErrorException(problem.sentence, hint=problem.hint)


def _text(line: Any) -> str:
    if not isinstance(line, str):
        raise UserErrorException(f"{line!r} is not text", hint="name it like numpy, or --pre")
    return line


def _listed(name: str, values: Optional[Iterable[str]]) -> List[str]:
    if isinstance(values, str):
        raise UserErrorException(f"{name} is {values!r}, not a list", hint=f"write [{values!r}]")
    return list(values or [])


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _option_name(option: str) -> str:
    name = re.split(r"[\s=]", option.strip(), maxsplit=1)[0]
    return {"-i": "--index-url", "-f": "--find-links"}.get(name, name)


def _tensorflow(core_type: str, version: Optional[str], pin: str) -> str:
    if core_type not in ("cpu", "gpu"):
        raise UserErrorException(f"core_type is {core_type!r}", hint="it is cpu or gpu")
    name = "tensorflow" if core_type == "cpu" else "tensorflow-gpu"
    return f"{name}{pin}{version}" if version else name


def _scalar(text: str) -> str:
    """Text as YAML reads it back: plain where it may be, else in quotes."""
    if re.fullmatch(_PLAIN, text) and text.lower() not in _WORDS:
        return text
    if re.fullmatch(_PRINTABLE, text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(letter: str) -> str:
    """As JSON writes it, but for two kinds of letters that YAML writes its own way."""
    if letter == "\x7f" or letter > "\uffff":
        return f"\\U{ord(letter):08x}"
    return dumps(letter)[1:-1]


def _here() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
