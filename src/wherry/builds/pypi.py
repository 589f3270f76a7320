"""Packages from a package index, resolved and installed by uv."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, Sequence

from wherry.builds.blame import uninstalled, unresolved
from wherry.builds.cache import Cache
from wherry.builds.command import Outcome, run
from wherry.builds.dates import cutoff
from wherry.builds.disk import check_space
from wherry.builds.error import BuildError
from wherry.builds.pip_options import for_uv
from wherry.builds.recipe import Recipe, name_of
from wherry.builds.talk import Talk
from wherry.builds.uv import variables
from wherry.builds.wheels import Wheels

Package = Dict[str, Any]
_KEY = re.compile(r'^(name|version) = "([^"]*)"$', re.MULTILINE)
_ARCHIVE = re.compile(r'^archive = \{ url = "([^"]+)"', re.MULTILINE)
_SHA256 = re.compile(r'sha256 = "([0-9a-f]{64})"')
_NO_DATE = re.compile(r"`(\S+)` is missing an upload date")


class PyPI:
    """uv with one recipe's options, an interpreter and a folder for its files."""

    def __init__(
        self, uv: str, cache: Cache, talk: Talk, recipe: Recipe, work: str, wheels: Wheels
    ) -> None:
        self._uv = uv
        self._cache = cache
        self._talk = talk
        self._recipe = recipe
        self._work = work
        self._wheels = wheels
        self._options = for_uv(recipe.options)
        for word in self._options.unknown:
            talk.log(f"pip's option {word} means nothing here\n".encode())

    def resolve(self, requirements: Sequence[str], python: str, alone: bool = False) -> str:
        """A pylock.toml, empty for nothing; of these ``alone`` or with all that they need."""
        if not requirements:
            return ""
        self._talk.say(f"resolving {_count(len(requirements), 'requirement')}")
        locked = os.path.join(self._work, "pylock.toml")
        words = ["--python", python, "--format", "pylock.toml", "--no-header"]
        words += ["--output-file", locked, *self._asked(requirements)]
        done = self._run("compile", words + ["--no-deps"] * alone, stdout=False)
        self._check_dates(done)
        if done.code != 0:
            raise unresolved(self._recipe, done.output)
        with open(locked, encoding="utf-8") as file:
            return self._wheels.to_keep(file.read())

    def install(self, pylock: str, python: str) -> None:
        """Exactly these files: uv checks their hashes."""
        if not pylock:
            return
        packages = _count(len(listed(pylock)), "package")
        there = self._wheels.to_install(pylock)
        words = [*_into(python), "--no-deps", "-r", self._write("pylock.toml", [there])]
        self._talk.say(f"downloading {packages}")
        done = self._run("install", words, _Downloads(self._talk, packages).heard)
        if done.code != 0:
            raise uninstalled(self._recipe, done.output)

    def add(self, requirements: Sequence[str], python: str) -> str:
        """Installs these as pip does, content with what is there; a pylock.toml of what is new."""
        if not requirements:
            return ""
        before = self._installed(python)
        self._talk.say(f"resolving {_count(len(requirements), 'requirement')} of the pip section")
        words = [*_into(python), *self._asked(requirements)]
        words.insert(-1, "-r")
        done = self._run("install", words, _Downloads(self._talk, "packages").heard)
        self._check_dates(done)
        if done.code != 0 and ("No solution found" in done.output or "parse" in done.output):
            raise unresolved(self._recipe, done.output)
        if done.code != 0:
            raise uninstalled(self._recipe, done.output)
        new = [each for each in self._installed(python) if each not in before]
        replaced = {_name(each) for each in new} & {_name(each) for each in before}
        if replaced:
            names = ", ".join(sorted(replaced))
            self._talk.notice(f"the pip section replaces packages that conda installed: {names}")
        return self.resolve(new, python, alone=True)

    def _asked(self, requirements: Sequence[str]) -> List[str]:
        """The last word is the file."""
        as_of = self._recipe.as_of
        dated = ["--exclude-newer", cutoff(as_of)] if as_of else []
        there = [self._wheels.required(each) for each in requirements]
        return [*dated, self._write("requirements.in", there)]

    def _installed(self, python: str) -> List[str]:
        """What an interpreter already has, one requirement each."""
        words = [self._uv, "pip", "freeze", "--quiet", "--python", python]
        quiet = Talk(canceled=self._talk.canceled)
        lines = run(words, quiet, self._variables()).output.splitlines()
        return [line for line in lines if "==" in line or " @ " in line]

    def missing(self, names: Sequence[str], python: str) -> List[str]:
        """Those that the index has no package for."""
        quiet = Talk(canceled=self._talk.canceled)
        path = os.path.join(self._work, "one.in")
        absent = []
        for name in names:
            self._write("one.in", [name])
            words = [self._uv, "pip", "compile", "--python", python, "--no-deps", "--quiet", path]
            done = run([*words, *self._options.words], quiet, self._variables())
            if "was not found in" in done.output:
                absent.append(name)
        return absent

    def _run(
        self,
        verb: str,
        words: List[str],
        heard: Callable[[str], object] = lambda line: None,
        stdout: bool = True,
    ) -> Outcome:
        command = [self._uv, "pip", verb, *words, *self._options.words]
        done = run(command, self._talk, self._variables(), heard, stdout=stdout)
        if done.code != 0:
            check_space(done.output, self._cache)
        return replace(done, output=self._wheels.shown(done.output))

    def _variables(self) -> Dict[str, str]:
        return {**variables(self._cache), **self._options.variables}

    def _write(self, name: str, lines: Sequence[str]) -> str:
        path = os.path.join(self._work, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def _check_dates(self, done: Outcome) -> None:
        as_of = self._recipe.as_of
        if not as_of:
            return
        if "UV_FIND_LINKS" in self._variables():
            self._talk.notice(
                f"files of --find-links carry no date: {as_of} does not hold for them"
            )
        undated = _NO_DATE.search(done.output)
        if undated and done.code != 0:
            raise BuildError(
                f"{self._recipe.name} is to be resolved as of {as_of}, but the package index does"
                f" not say when files were uploaded ({undated[1]}, for one)",
                hint="use an index that does, as pypi.org, or leave out as_of and pin versions",
                explanation=done.output.strip(),
            )
        if undated:
            self._talk.notice(
                f"the package index does not date all files: those without were not looked at"
                f" ({undated[1]}, for one)"
            )


class _Downloads:
    """uv announces the larger files, and what it builds, when it begins and when it has them."""

    def __init__(self, talk: Talk, packages: str) -> None:
        self._talk = talk
        self._packages = packages
        self._begun = 0
        self._done = 0
        self._building: List[str] = []

    def heard(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if word == "Downloading":
            self._begun += 1
        elif word == "Downloaded":
            self._done += 1
        elif word == "Building":
            self._building.append(rest)
        elif word == "Built" and rest in self._building:
            self._building.remove(rest)
        elif word != "Prepared":
            return
        self._talk.say(f"linking {self._packages}" if word == "Prepared" else self._under_way())

    def _under_way(self) -> str:
        if self._building and self._done == self._begun:
            return f"building {', '.join(self._building)} from source, which may take minutes"
        if not self._begun:
            return f"downloading {self._packages}"
        return f"downloading {self._done} of {self._begun} large files ({self._packages} in all)"


def listed(pylock: str) -> List[Package]:
    """The packages of a pylock.toml as uv writes it, which is one key a line."""
    packages: List[Package] = []
    for block in pylock.split("[[packages]]")[1:]:
        keys = dict(_KEY.findall(block))
        package = {
            "name": keys["name"],
            "version": keys.get("version"),
            "hashes": [f"sha256:{each}" for each in _SHA256.findall(block)],
        }
        address = _ARCHIVE.search(block)
        packages.append({**package, "url": address[1]} if address else package)
    return packages


def _into(python: str) -> List[str]:
    """Conda's Pythons are not virtual environments, and ours to change all the same."""
    return ["--python", python, "--break-system-packages"]


def _name(requirement: str) -> str:
    return name_of(re.split(r"==| @ ", requirement)[0])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
