"""Images: found, pulled, or built once under a name that says what is in them."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional
from urllib.parse import quote

from .container import Container
from .context import Context
from .engine import Engine
from .error import ContainerError, EngineError, is_full_disk
from .packages import Workshop

BUILT = "wherry-environment"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
KEY = 32  # digits
_LOOK_S = 0.1

Tell = Callable[[str], None]
Fill = Callable[[], Workshop]


class Image:
    """One that the engine has. ``variables`` are those that it sets, as ``NAME=value``."""

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self.name = name
        self.id = str(facts["Id"])
        self.variables: List[str] = list((facts.get("Config") or {}).get("Env") or [])


class Images:
    """Those of one engine. ``tell`` gets what happens, line by line, and keeps it where ``kept``
    says; ``locks`` is a folder.

    ``made`` says whether one had to be built.
    """

    def __init__(
        self, engine: Engine, called: str, locks: str, tell: Tell, kept: str = BUILD_LOG
    ) -> None:
        self._engine = engine
        self._called = called
        self._locks = locks
        self._tell = tell
        self._kept = kept
        self.made = False

    def find(self, name: str) -> Optional[Image]:
        try:
            return Image(name, self._engine.call("GET", f"/images/{quote(name, safe='/:@')}/json"))
        except EngineError as error:
            if error.status == 404:
                return None
            raise ContainerError(
                f"{self._engine.name()} on {_node()} cannot look for the image {name!r} of "
                f"{self._called}: {error.message}; correct its name"
            ) from None

    def pull(self, name: str, registry: Mapping[str, Any]) -> Image:
        """The image of that name, from its registry if it is not there."""
        name = with_address(name, registry)
        found = self.find(name)
        if found is not None:
            return found
        with self._alone(name):
            return self.find(name) or self._pull(name, registry)

    def build(
        self, make_context: Callable[[], Context], registry: Mapping[str, Any], key: str
    ) -> Image:
        """What the context makes, under the name of ``key``: made once, whoever asks."""
        name = self._named(key)
        found = self.find(name)
        if found is not None:
            return found
        with self._alone(name):
            return self._there(key, name) or self._build(make_context(), registry, name)

    def build_named(self, name: str, context: Context) -> Image:
        """What the context makes, under that name: made once, and left there."""
        found = self.find(name)
        if found is not None:
            return found
        with self._alone(name):
            return self.find(name) or self._build(context, {}, name)

    def install(self, base: Image, key: str, container: Container, fill: Fill) -> Image:
        """``base`` with packages on top, under the name of ``key``; ``fill`` says which."""
        name = self._named(key)
        found = self.find(name)
        if found is not None:
            return found
        with self._alone(name):
            return self._there(key, name) or self._install(base, container, fill, name)

    def _named(self, key: str) -> str:
        """What is found after this stays, until this process ends; then its container keeps it."""
        handle = self._open(f"{key[:KEY]}.use")
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(handle)
        try:
            return built_name(key, cache_id(self._locks))
        except OSError as error:
            raise self._unwritable(error) from None

    def _there(self, key: str, name: str) -> Optional[Image]:
        """Another cache's image gets a name of this one: it then stays, whatever that one does."""
        found = self.find(name)
        if found is not None:
            return found
        repository, _, tag = name.rpartition(":")
        with suppress(EngineError):
            wanted = {"reference": [f"{BUILT}:{key[:KEY]}-*"]}
            for facts in self._engine.call("GET", "/images/json", filters=wanted):
                path = f"/images/{quote(str(facts['Id']), safe=':')}/tag"
                self._engine.call("POST", path, repo=repository, tag=tag)
                return self.find(name)
        return None

    def _pull(self, name: str, registry: Mapping[str, Any]) -> Image:
        self._tell(f"pulling the image {name}")
        try:
            headers = {"X-Registry-Auth": _encoded(_credentials(registry))} if registry else {}
            source = name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"
            work = self._engine.follow("/images/create", headers=headers, fromImage=source)
            self._follow(work)
        except EngineError as error:
            raise self._not_pulled(name, error.message) from None
        found = self.find(name)
        if found is None:
            raise self._not_pulled(name, "it was not there afterwards")
        return found

    def _build(self, context: Context, registry: Mapping[str, Any], name: str) -> Image:
        self.made = True
        self._tell(f"building the image {name}")
        headers = {"Content-Type": "application/x-tar"}
        if registry.get("address"):
            known = {str(registry["address"]): _credentials(registry)}
            headers["X-Registry-Config"] = _encoded(known)
        options = {"t": name, "networkmode": "host", "rm": True, "forcerm": True}
        step = _Step()
        try:
            with context.archive() as pieces:
                self._follow(self._engine.follow("/build", pieces, headers, **options), step)
        except EngineError as error:
            if step.met_full_disk:
                raise self._full("build the image", _one_line(error.message)) from None
            raise self._not_built(error.message) from None
        found = self.find(name)
        if found is None:
            raise self._not_built("the engine stopped before it was finished")
        return found

    def _install(self, base: Image, container: Container, fill: Fill, name: str) -> Image:
        self.made = True
        self._tell(f"installing packages on top of the image {base.name}")
        workshop = fill()
        try:
            container.create(workshop.body(base.id, container.attempt_id))
            container.start()
            code = self._watch(container, workshop)
            if code != 0:
                raise ContainerError(self._not_installed(workshop.error(), code))
            self._tell(f"keeping the image {name}")
            container.commit(name)
        except EngineError as error:
            raise self._not_built(error.message) from None
        finally:
            with suppress(ContainerError, EngineError):  # whoever clears away finds it by its label
                container.remove()
            workshop.remove()
        found = self.find(name)
        if found is None:
            raise self._not_built("the engine did not keep it")
        return found

    def _watch(self, container: Container, workshop: Workshop) -> int:
        while True:
            state = container.state()  # first: what is there afterwards is all it wrote
            for line in workshop.new_lines():
                self._tell(line)
            if state is None:
                raise ContainerError(f"the container that makes {self._called} was removed")
            if not state.get("Running"):
                return int(state.get("ExitCode") or 0)
            time.sleep(_LOOK_S)

    def _not_installed(self, told: str, code: int) -> str:
        if is_full_disk(told):
            return str(self._full("install the packages"))
        if told:
            return told
        return (
            f"the packages of {self._called} cannot be installed on top of its image: the builder "
            f"ended with exit code {code}; its output is in {self._kept}"
        )

    def _follow(self, work: Iterator[Mapping[str, Any]], step: Optional[_Step] = None) -> None:
        for said in work:
            trouble = said.get("error") or (said.get("errorDetail") or {}).get("message")
            if trouble:
                raise EngineError(200, str(trouble))
            line = progress_line(said)
            if line:
                self._tell(line)
                if step is not None:
                    step.hear(line)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One at a time on this machine; the others find what it made."""
        handle = self._open(hashlib.sha256(name.encode()).hexdigest()[:32])
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._tell(f"waiting for another run that makes the image {name}")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _open(self, file: str) -> int:
        try:
            os.makedirs(self._locks, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            return os.open(f"{self._locks}/{file}", flags, 0o600)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> ContainerError:
        return ContainerError(
            f"{self._locks} on {_node()} cannot be written: {error.strerror}; make room, or "
            "name another folder in WHERRY_CACHE"
        )

    def _not_pulled(self, name: str, why: str) -> ContainerError:
        if is_full_disk(why):
            return self._full(f"pull the image {name!r}")
        return ContainerError(
            f"the image {name!r} of {self._called} is not on {_node()} and cannot be pulled: "
            f"{_one_line(why)}; correct its name, load it there, or give the registry's credentials"
        )

    def _not_built(self, why: str) -> ContainerError:
        if is_full_disk(why):
            return self._full("build the image")
        return ContainerError(
            f"the image of {self._called} cannot be built on {_node()}: {_one_line(why)}; "
            f"the output of its steps is in {self._kept}"
        )

    def _full(self, what: str, why: str = "") -> ContainerError:
        told = f" ({why})" if why else ""
        return ContainerError(
            f"{_node()} has no room to {what} of {self._called}: the engine's disk is full{told}; "
            "remove images that nobody needs (docker image prune) and submit again"
        )


class _Step:
    """What a step of a Dockerfile prints before it fails: an engine tells its exit code alone."""

    def __init__(self) -> None:
        self.met_full_disk = False

    def hear(self, line: str) -> None:
        if re.match(r"step \d", line, re.IGNORECASE):
            self.met_full_disk = False
        elif is_full_disk(line):
            self.met_full_disk = True


def with_address(name: str, registry: Mapping[str, Any]) -> str:
    """Azure ML has the registry's address apart from the image's name."""
    address = str(registry.get("address") or "").rstrip("/")
    address = address.partition("://")[2] or address
    if not address or name.startswith(address + "/") or address in ("docker.io", "index.docker.io"):
        return name
    return f"{address}/{name}"


def built_name(key: str, cache: str) -> str:
    return f"{BUILT}:{key[:KEY]}-{cache}"


def cache_id(locks: str) -> str:
    """Of the cache whose folder this is: several may share an engine, each with its own images."""
    known = known_cache_id(locks)
    if known is not None:
        return known
    made = f"{locks}/id.{os.urandom(8).hex()}"
    with open(made, "w", encoding="ascii") as file:
        file.write(os.urandom(4).hex())
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):  # another one was faster
        os.link(made, f"{locks}/id")
    os.unlink(made)
    return cache_id(locks)


def known_cache_id(locks: str) -> Optional[str]:
    """None as long as nothing was built with it."""
    try:
        with open(f"{locks}/id", encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


def key_of(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def progress_line(said: Mapping[str, Any]) -> str:
    """What an engine's message says to a reader; of the many about bytes, nothing."""
    if said.get("stream"):
        return str(said["stream"]).rstrip("\n")
    status = str(said.get("status") or "")
    if not status or said.get("progressDetail"):
        return ""
    return f"{said['id']}: {status}" if said.get("id") else status


def _credentials(registry: Mapping[str, Any]) -> Dict[str, str]:
    return {
        "username": str(registry.get("username") or ""),
        "password": str(registry.get("password") or ""),
        "serveraddress": str(registry.get("address") or ""),
    }


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _node() -> str:
    return os.uname().nodename
