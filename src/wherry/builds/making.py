"""The long way: an environment that is not here yet."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Dict, List, Optional, Tuple

from wherry.builds.activation import activation
from wherry.builds.cache import Cache
from wherry.builds.channels import Channel, addresses, probe, why_silent
from wherry.builds.claim import claim
from wherry.builds.command import run
from wherry.builds.conda import TOOL, Conda, Record
from wherry.builds.conda_names import conda_only, requirement, to_pypi
from wherry.builds.disk import check_space, from_os
from wherry.builds.downloads import using_downloads
from wherry.builds.error import BuildError, BuildKilled
from wherry.builds.finding import find, open_environment
from wherry.builds.interpreters import Interpreter, Pin, choose
from wherry.builds.key import digest, platform, spec_key
from wherry.builds.prepared import Prepared
from wherry.builds.prune import prune
from wherry.builds.pypi import PyPI, listed
from wherry.builds.recipe import Recipe, conda_parts, name_of, parse
from wherry.builds.redacting import lock_without_secrets, scrub
from wherry.builds.talk import Talk
from wherry.builds.uv import fetch_python, find_uv, variables
from wherry.builds.wheels import Fetch, Wheels

Lock = Dict[str, Any]
_OLDEST = (3, 8)  # in which Wherry's own modules run
_TRIES = 3
_EVERYWHERE = ("pip", "setuptools", "wheel")


def make(
    recipe: Recipe,
    key: str,
    cache: Cache,
    talk: Talk,
    uv: Optional[str],
    limit: Optional[int] = None,
    fetch: Optional[Fetch] = None,
) -> Prepared:
    """Builds it, or waits for whoever does."""
    try:
        cache.make_folders()
        with claim(cache.path("locks"), key, recipe.name, talk):
            found = find(cache, key, recipe) or _Maker(recipe, key, cache, talk, uv, fetch).make()
    except OSError as error:
        raise from_os(error, cache) or BuildError(
            f"{recipe.name} could not be made in {cache.root}: {error.strerror or error}"
        ) from error
    if found.built and limit is not None:
        prune(cache.root, limit=limit)
    return found


class _Maker:
    def __init__(
        self,
        recipe: Recipe,
        key: str,
        cache: Cache,
        talk: Talk,
        uv: Optional[str],
        fetch: Optional[Fetch],
    ) -> None:
        if recipe.lock and not recipe.options:  # a lock alone knows where its packages came from
            recipe = recipe._replace(options=tuple(recipe.lock.get("options") or ()))
        self._recipe = _new_enough(recipe, talk)
        self._key = key
        self._cache = cache
        self._talk = talk
        self._work = cache.path("work", key)
        self._uv = find_uv(cache, talk, uv)
        self._wheels = Wheels(cache, talk, recipe.name, fetch)
        for notice in recipe.notices:
            talk.log(f"notice: {notice}\n".encode())

    def make(self) -> Prepared:
        """A program that was killed half-way has said nothing against the environment."""
        for _ in range(_TRIES - 1):
            try:
                return self._make()
            except BuildKilled as error:
                self._talk.log(f"{error}; it is begun again\n".encode())
        return self._make()

    def _make(self) -> Prepared:
        shutil.rmtree(self._work, ignore_errors=True)
        os.makedirs(self._work, mode=0o700)  # an address of a package may hold a password
        try:
            with using_downloads(self._cache, self._talk):
                environment, built = self._resolve_and_build()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        self._cache.remember(self._key, environment, self._talk.notices)
        notices = [*self._recipe.notices, *self._talk.notices]
        found = open_environment(self._cache, environment, notices, built)
        if found is None:
            raise BuildError(f"{self._recipe.name} was removed as soon as it was built")
        return found

    def _resolve_and_build(self) -> Tuple[str, bool]:
        if self._recipe.lock is not None:
            return self._build(*self._as_locked(self._recipe.lock))
        channels = self._channels()
        if channels:
            return self._build(*self._solve_conda(channels))
        return self._build(*self._resolve_pypi())

    # What to install.

    def _as_locked(self, lock: Lock) -> Tuple[Optional[Interpreter], Lock]:
        """The same files; the same versions where the lock is of another kind of machine."""
        if lock["conda"]:
            return None, lock
        interpreter = self._interpreter("=" + str(lock["python"]))
        minor = tuple(map(int, lock["python"].split(".")[:2]))
        if lock["platform"] == platform() and interpreter.version[:2] == minor:
            return interpreter, lock
        self._talk.notice(
            f"the lock was written on {lock['platform']} for Python {lock['python']}: the same"
            f" versions are installed, from other files"
        )
        pins = [_pinned(each) for each in lock["pypi"]]
        pylock = self._pypi(self._recipe).resolve(pins, interpreter.path)
        return interpreter, self._lock(interpreter, pylock)

    def _channels(self) -> List[Channel]:
        """Those to solve from; none where PyPI is to provide everything."""
        recipe = self._recipe
        plain = all(conda_parts(word)[0] in _EVERYWHERE for word in recipe.conda)
        if recipe.resolver == "pypi" or (recipe.resolver == "auto" and plain):
            return []
        self._talk.say("asking conda channels")
        asked = probe(addresses(recipe.channels), self._talk)
        silent = [each for each in asked if each.silence]
        why = why_silent(silent)
        if silent and recipe.resolver == "rattler":
            raise BuildError(
                f"{recipe.name} needs a conda channel that does not answer: {why}",
                hint="check the channel's name and the target's network, or set conda.resolver ="
                " auto to take wheels from PyPI",
            )
        answering = [each for each in asked if not each.silence]
        if not answering:
            self._talk.notice(f"packages come from PyPI, as no conda channel answers: {why}")
        elif silent:
            self._talk.notice(f"conda channels that do not answer were left out: {why}")
        return answering

    def _resolve_pypi(self) -> Tuple[Interpreter, Lock]:
        recipe = self._recipe
        stand_ins = to_pypi(recipe)
        if stand_ins and recipe.resolver == "pypi":
            self._talk.notice("packages come from PyPI, as conda.resolver is pypi")
        interpreter = self._interpreter(recipe.python)
        # The error must name what the user wrote, not what it was translated to.
        asked = recipe._replace(
            conda=(),
            pip=(*stand_ins, *recipe.pip),
            lines={**recipe.lines, **self._moved(stand_ins)},
        )
        pypi = self._pypi(asked)
        try:
            pylock = pypi.resolve(asked.pip, interpreter.path)
        except BuildError as error:
            if "was not found in" in error.explanation:
                self._name_conda_only(pypi, interpreter)
            raise
        return interpreter, self._lock(interpreter, pylock)

    def _moved(self, stand_ins: List[str]) -> Dict[str, int]:
        lines = self._recipe.lines
        pairs = zip(self._recipe.conda, stand_ins)
        return {stand_in: lines[word] for word, stand_in in pairs if word in lines}

    def _name_conda_only(self, pypi: PyPI, interpreter: Interpreter) -> None:
        names = {name_of(requirement(word)): word for word in self._recipe.conda}
        absent = [names[each] for each in pypi.missing(list(names), interpreter.path)]
        if absent:
            reasons = [each for each in self._talk.notices if each.startswith("packages come")]
            raise conda_only(self._recipe, absent, reasons[0] if reasons else None)

    def _solve_conda(self, channels: List[Channel]) -> Tuple[None, Lock]:
        records = self._conda().solve(channels)
        return None, self._lock(None, None, records)

    def _lock(
        self,
        interpreter: Optional[Interpreter],
        pylock: Optional[str],
        records: Optional[List[Record]] = None,
    ) -> Lock:
        """``pylock`` is None until conda's Python is there to resolve the pip section for."""
        pythons = [each["version"] for each in records or [] if each["name"] == "python"]
        return {
            "format": 1,
            "platform": platform(),
            "python": str(interpreter) if interpreter else (pythons or [None])[0],
            "as_of": self._recipe.as_of,
            "options": list(self._recipe.options),
            "conda": records or [],
            "pypi": listed(pylock or ""),
            "pylock": pylock,
        }

    # Where it is put.

    def _build(self, interpreter: Optional[Interpreter], lock: Lock) -> Tuple[str, bool]:
        """Into its final place, since environments hold their own path; finished by its marker."""
        asked = (self._recipe.pip, self._recipe.options) if lock["pylock"] is None else None
        base = os.path.realpath(interpreter.path) if interpreter else None
        key = digest(base, lock, asked)
        with claim(self._cache.path("locks"), key, self._recipe.name, self._talk):
            if self._cache.finished(key) is not None:
                return key, False
            started = time.time()
            prefix = self._cache.environment(key)
            self._cache.discard(prefix)
            try:
                python = self._fill(prefix, interpreter, lock)
                scrub(prefix, self._wheels.shown)
            except BaseException:
                self._cache.discard(prefix)
                raise
            marker = {
                "prefix": prefix,
                "interpreter": python,
                "lock": lock_without_secrets(lock),
                "activation": activation(prefix) if lock["conda"] else {},
                "name": self._recipe.name,
                "seconds": time.time() - started,
            }
            self._cache.finish(key, marker)
        self._talk.say("ready")
        return key, True

    def _fill(self, prefix: str, interpreter: Optional[Interpreter], lock: Lock) -> str:
        python = os.path.join(prefix, "bin", "python")
        pypi = self._pypi(self._recipe)
        if interpreter is not None:
            self._venv(prefix, interpreter)
        else:
            self._conda().install(lock["conda"], prefix)
            if lock["pylock"] is None:
                pylock = pypi.add(self._recipe.pip, python)
                lock.update(pylock=pylock, pypi=listed(pylock))
                return python
        pypi.install(lock["pylock"], python)
        return python

    def _venv(self, prefix: str, interpreter: Interpreter) -> None:
        words = [self._uv, "venv", "--quiet", "--python", interpreter.path, prefix]
        done = run(words, self._talk, variables(self._cache))
        if done.code != 0:
            check_space(done.output, self._cache)
            raise BuildError(
                f"Python {interpreter} ({interpreter.path}) cannot make an environment",
                explanation=done.output.strip(),
            )

    # With what.

    def _pypi(self, recipe: Recipe) -> PyPI:
        return PyPI(self._uv, self._cache, self._talk, recipe, self._work, self._wheels)

    def _conda(self) -> Conda:
        tool = parse(TOOL)
        key = spec_key(tool)
        made = find(self._cache, key, tool)
        if made is None:
            made = make(tool, key, self._cache, self._talk.aside(), self._uv)
        self._tool_use = made.use
        return Conda(made.interpreter, self._cache, self._talk, self._recipe, self._work)

    def _interpreter(self, pin: str) -> Interpreter:
        chosen, notice = choose(
            Pin(pin),
            self._recipe.strict,
            lambda request: fetch_python(self._uv, self._cache, request, self._talk),
            [self._cache.path("pythons")],
        )
        if notice:
            self._talk.notice(notice)
        return chosen


def _pinned(package: Dict[str, Any]) -> str:
    """What an index has by version, and what an address has by that."""
    if package.get("url"):
        return f"{package['name']} @ {package['url']}"
    return f"{package['name']}=={package['version']}"


def _new_enough(recipe: Recipe, talk: Talk) -> Recipe:
    """Files of 2020 ask for azureml and Python 3.6, in which what takes its place does not run."""
    settled = recipe.strict or recipe.lock is not None or not recipe.notices
    if settled or not recipe.python or Pin(recipe.python).reaches(_OLDEST):
        return recipe
    oldest = ".".join(map(str, _OLDEST))
    talk.notice(
        f"Python {recipe.python.lstrip('= ')} is too old for Wherry's own azureml module: Python"
        f" {oldest} is used instead ('strict: true' keeps the old one, 'as_of: 2020-06-01' takes"
        " packages of that day)"
    )
    return recipe._replace(python=f"={oldest}")
