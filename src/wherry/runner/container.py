"""The command in a container: the same face as a process has, another way to start and end it."""

from __future__ import annotations

import _thread
import os
import re
import select
from dataclasses import replace

from wherry.builds import BuildError, default_root
from wherry.builds.cache import Cache
from wherry.builds.downloads import SHARED, using_downloads
from wherry.builds.redacting import without_secrets
from wherry.builds.talk import Talk
from wherry.builds.uv import find_uv
from wherry.builds.wheels import Wheels, named_in
from wherry.containers import gpus, note
from wherry.containers.container import NO_PROGRAM, Container, remove_all, status_of
from wherry.containers.context import Context
from wherry.containers.engine import Engine, find
from wherry.containers.error import ContainerError, EngineError, is_full_disk
from wherry.containers.images import Image, Images, key_of
from wherry.containers.packages import BUILT, Workshop
from wherry.containers.pruning import prune_images
from wherry.containers.request import Request

from .environment import command_environment
from .evidence import machine_kills
from .folder import Folder, tell
from .light import TYPE_CHECKING, loads, signal, suppress
from .preparation import BuildLog, keep_lock, to_be_made
from .process import Command, Signals, missing_script
from .rescue import marked
from .tree import mark_of, processes, send
from .workspace import CanceledError, SetupError

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional

    from .confinement import Confinement
    from .ranks import Ranks

_PAUSE_S = 5.0
_SAID = 200
_TROUBLE = (ContainerError, EngineError)
_CANNOT_HOLD = "cgroup|cpuset|controller|memory limit|memory\\.max|CPUs are not available"


class Fetching:
    """What the server has for an image: ``context`` unpacks a snapshot into a folder, ``wheel``
    writes the content of a digest to a path.
    """

    def __init__(
        self, context: Callable[[str, str], None], wheel: Callable[[str, str], None]
    ) -> None:
        self.context = context
        self.wheel = wheel


class Box:
    """The container of one attempt: its engine, its image, its start.

    ``say`` tells how far the image is.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Mapping[str, Any],
        say: Callable[[str], None],
        fetching: Fetching,
        ranks: Optional[Ranks] = None,
    ) -> None:
        self._ranks = ranks
        self._folder = folder
        self._manifest = manifest
        self._say = say
        self._fetching = fetching
        self._spec: Dict[str, Any] = manifest["environment"]
        self._docker: Dict[str, Any] = self._spec["docker"]
        self._packages = to_be_made(manifest)
        self.notices: List[str] = []
        self._called = f"environment {self._spec.get('name') or 'unnamed'!r}"
        self._engine: Engine
        self._image: Image
        self._command: Optional[ContainerCommand] = None
        self._log = BuildLog(folder.build_log)

    def prepare(self, signals: Signals) -> None:
        """Find the engine and have the image there."""
        try:
            self._engine = find(os.environ)
            self._image = _apart(signals, self._have_image, self._stop)
        except ContainerError as error:
            why = without_secrets(str(error))
            self._log.write(f"error: {why}\n".encode("utf-8", "replace"))
            raise SetupError(why) from None
        finally:
            self._log.close()

    def start(self, library: str, signals: Signals, limits: Confinement) -> ContainerCommand:
        container = Container(self._engine, str(self._manifest["attempt_id"]))
        os.chdir(self._folder.work)
        self._check_script()
        with open(self._folder.log, "ab"):
            os.chmod(self._folder.log, 0o600)
        try:
            request = self._request(library)
            note.write(self._folder.path, container)
            kills = machine_kills()
            held = self._start_held(container, request, limits)
        except _TROUBLE as error:
            raise SetupError(self._not_started(error)) from None
        self._command = ContainerCommand(container, self._folder, self._manifest, signals, kills)
        self._command.held = held
        return self._command

    def _start_held(self, container: Container, request: Request, limits: Confinement) -> bool:
        """Whether the engine holds it to what its node has, as far as the engine says."""
        held = replace(request, cpu=limits.cpu, cpus=limits.cpus, memory_bytes=limits.memory_bytes)
        try:
            warnings = self._start_as(container, held)
        except EngineError as error:
            if held == request or not re.search(_CANNOT_HOLD, str(error), re.IGNORECASE):
                raise
            tell(f"the container cannot be held to its limits: {error}")
            container.remove()
            self._start_as(container, request)
            return False
        return not warnings and not self._engine.rootless

    def _start_as(self, container: Container, request: Request) -> List[str]:
        warnings = container.create(request.body())
        if self._packages:
            self._keep_lock(container)
        self._folder.begin()
        container.start()
        return warnings

    def remove(self) -> None:
        if self._command is not None:
            self._command.remove()
        elif note.read(self._folder.path) is not None:
            _remove(self._engine, str(self._manifest["attempt_id"]), self._folder)

    def _keep_lock(self, container: Container) -> None:
        built = loads(container.read(BUILT).decode())
        self.notices = list(built.get("notices") or [])
        if built.get("lock"):
            keep_lock(built["lock"], self._folder.files)

    def _have_image(self) -> Image:
        cache = os.environ.get("WHERRY_CACHE") or os.path.expanduser("~/.cache/wherry")
        locks = f"{cache}/images"
        images = Images(self._engine, self._called, locks, self._tell)
        found = self._made_by(images)
        limit = self._spec.get("limit")
        if images.made and limit is not None:
            self._make_room(locks, int(limit))
        return found

    def _make_room(self, locks: str, limit: int) -> None:
        """For what was built just now; this one stays."""
        try:
            for each in prune_images(self._engine, locks, limit=limit):
                self._log.write(f"removed {each.name}, which was not used for long\n".encode())
        except (OSError, *_TROUBLE) as error:
            tell(f"images that nobody uses cannot be removed: {error}")

    def _made_by(self, images: Images) -> Image:
        registry = self._docker.get("registry") or {}
        if self._docker.get("image"):
            base = images.pull(str(self._docker["image"]), registry)
        else:
            parts = [self._docker.get(name) for name in ("dockerfile", "context", "platform")]
            base = images.build(self._context, registry, key_of(*parts))
        if not self._packages:
            return base
        python = self._spec["python"]
        key = key_of(base.id, {k: v for k, v in python.items() if k not in ("lines", "file")})
        attempt_id = str(self._manifest["attempt_id"])
        container = Container(self._engine, attempt_id, prefix="wherry-build-")
        cache = Cache(default_root())
        cache.make_folders()
        with using_downloads(cache, Talk()):
            return images.install(base, key, container, lambda: self._workshop(container, cache))

    def _workshop(self, container: Container, cache: Cache) -> Workshop:
        """Downloads are shared where files that the container writes are this user's."""
        note.write(self._folder.path, container)
        library = os.path.abspath(__file__).rpartition("/wherry/runner/")[0]
        talk = Talk(self._log.write, self._say, None)
        try:
            uv = find_uv(cache, talk)
            wheels = self._wheels(cache, talk)
        except BuildError as error:
            raise ContainerError(error.text()) from None
        ours = self._engine.rootless or os.getuid() == 0
        downloads = {name: cache.path(name) for name in SHARED} if ours else {}
        workshop = Workshop(f"{self._folder.path}/workshop", downloads)
        workshop.fill(self._spec, library, uv, os.environ, wheels)
        return workshop

    def _wheels(self, cache: Cache, talk: Talk) -> Dict[str, str]:
        """Where those are that the environment asks for, by their digests."""
        kept = Wheels(cache, talk, self._called, self._fetching.wheel)
        asked = named_in(self._spec.get("python") or {})
        return {digest: kept.file(digest, name) for digest, name in asked}

    def _stop(self) -> None:
        """Nobody wants the image any more."""
        self._engine.hang_up()
        if note.read(self._folder.path) is not None:
            _remove(self._engine, str(self._manifest["attempt_id"]), self._folder, sure=False)

    def _context(self) -> Context:
        """The build context's snapshot, if there is one, and the Dockerfile's text, if given."""
        folder, text = "", self._docker.get("dockerfile")
        if self._docker.get("context"):
            folder = f"{self._folder.path}/context"
            self._fetching.context(str(self._docker["context"]), folder)
        files = {"Dockerfile": str(text).encode()} if text else {}
        context = Context(folder, files, self._folder.path)
        if not context.has_dockerfile():
            raise ContainerError(
                f"the build context of {self._called} has no file Dockerfile; put one at its top, "
                "or give its text"
            )
        return context

    def _tell(self, line: str) -> None:
        line = without_secrets(line)
        self._log.write(line.encode("utf-8", "replace") + b"\n")
        self._say(line.strip("= \n")[:_SAID])

    def _check_script(self) -> None:
        script = missing_script(list(self._manifest["argv"]))
        if script and not os.path.isabs(script):  # that one may be in the image
            raise SetupError(f"the script {script} is not in the snapshot")

    def _request(self, library: str) -> Request:
        rootless = self._engine.rootless
        env = command_environment({}, self._manifest, self._folder.path, library)
        if not rootless and os.getuid() != 0:  # who has no home in the image
            home = f"{self._folder.path}/home"
            os.makedirs(home, exist_ok=True)
            env.setdefault("HOME", home)
        return Request(
            attempt_id=str(self._manifest["attempt_id"]),
            image=self._image.id,
            argv=self._argv(env),
            env=env,
            docker=self._docker,
            work=self._folder.work,
            log=self._folder.log,
            end=self._folder.end,
            user="0:0" if rootless else f"{os.getuid()}:{os.getgid()}",
            groups=[] if rootless else os.getgroups(),
            writable=[self._folder.path],
            readable=[library],
            own=self._image.variables,
            cdi=gpus.has_cdi(),
            labels={"wherry.run": str(self._manifest["run_id"])},
        )

    def _argv(self, env: Mapping[str, str]) -> List[str]:
        program, *rest = self._manifest["argv"]
        interpreter = (self._spec.get("python") or {}).get("interpreter")
        if program == "python3" and interpreter and interpreter != "python":
            program = interpreter
        if self._ranks is None or self._ranks.count == 1:
            return [program, *rest]
        return self._ranks.launch([program, *rest], env, interpreter or "python3")

    def _not_started(self, error: Exception) -> str:
        if isinstance(error, ContainerError):
            return str(error)
        why = " ".join(str(error).split())
        if is_full_disk(why):
            return (
                f"the disk of {self._engine.name()} on {os.uname().nodename} is full ({why}); make "
                "room there, for instance with docker system prune, and submit again"
            )
        if "/bin/sh" in why:
            return (
                f"the image {self._image.name!r} of {self._called} has no /bin/sh, which starts "
                "the command; use an image that has one"
            )
        return (
            f"{self._engine.name()} on {os.uname().nodename} cannot start a container of the image "
            f"{self._image.name!r}: {why}; look at docker.arguments of {self._called}"
        )


class ContainerCommand(Command):
    """A command in a container that was started, by this runner or by one before it.

    ``kills`` is how often the machine had lacked memory before.
    """

    def __init__(
        self,
        container: Container,
        folder: Folder,
        manifest: Mapping[str, Any],
        signals: Signals,
        kills: int,
    ) -> None:
        super().__init__(0, subreaper=True)
        self._container = container
        self._folder = folder
        self._attempt_id = str(manifest["attempt_id"])
        self._program = str(manifest["argv"][0])
        self._ends: List[str] = []
        self._kills = kills
        _thread.start_new_thread(self._wait, (signals,))

    def watch(
        self, signals: Signals, limit_s: Optional[float], grace_s: float, look: Callable[[], None]
    ) -> None:
        super().watch(signals, limit_s, grace_s, look)
        if self._ends[0] == NO_PROGRAM:
            raise SetupError(
                f"there is no program {self._program!r} in the image of the environment; use an "
                "image that has it, or name one that this has"
            )
        if self.status and not self.killed:
            self._look_why()

    def kill(self) -> None:
        self.killed = True
        send(_inside(self._attempt_id), signal.SIGKILL)
        with suppress(
            *_TROUBLE
        ):  # it has ended, or the engine does not answer and will be asked again
            self._container.kill()

    def members(self) -> Dict[int, int]:
        return dict.fromkeys(_inside(self._attempt_id), 0)

    def remove(self) -> None:
        """The fast way: by its name."""
        try:
            self._container.remove()
            note.erase(self._folder.path)
        except (OSError, *_TROUBLE) as error:
            tell(f"the container {self._container.name} cannot be removed: {error}")

    def _wait(self, signals: Signals) -> None:
        code = None if self._seen_ending() else self._container.wait()
        killed = 128 + signal.SIGKILL
        self._ends.append(self._written_end() or str(killed if code is None else code))
        signals.wake()

    def _seen_ending(self) -> bool:
        """Whether the kernel told of the shell's end, after which there is what it wrote last."""
        try:
            pid = int((self._container.state() or {}).get("Pid") or 0)
            process = os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
            try:
                if mark_of(pid) == self._attempt_id:
                    select.select([process], [], [])
            finally:
                os.close(process)
        except (OSError, AttributeError, *_TROUBLE):
            return False
        return bool(self._written_end())

    def _written_end(self) -> str:
        try:
            with open(self._folder.end, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError):
            return ""

    def _running(self) -> bool:
        if self._ends and self.status is None:
            text = self._ends[0]
            self.status = status_of(int(text)) if text.isdigit() else 0
        return self.status is None

    def _ask(self, number: int) -> None:
        send(_inside(self._attempt_id), signal.SIGTERM)

    def _left_over(self) -> bool:
        """The kernel ends all of a container with its first process."""
        return False

    def _look_why(self) -> None:
        """Whether it, or one of those that it started, lacked memory: by the kernel's counter, too,
        since not every engine tells. What ended it may also have removed the container.
        """
        state: Optional[Dict[str, Any]] = {}
        with suppress(*_TROUBLE):
            state = self._container.state()
        if state is None and self.status == signal.SIGKILL:
            self.detail = "its container was removed from outside"
        else:
            told = bool((state or {}).get("OOMKilled"))
            self.out_of_memory = told or machine_kills() > self._kills


def adopt(
    folder: Folder, manifest: Mapping[str, Any], signals: Signals
) -> Optional[ContainerCommand]:
    """The container that an earlier runner left, if it was ever started."""
    container = note.read(folder.path)
    if container is None:
        return None
    try:
        state = container.state()
    except _TROUBLE as error:
        tell(f"the container is waited for: {error}")
        state = {"Status": "unknown"}
    if state is None or state.get("Status") in ("created", "configured", "initialized"):
        _remove(container.engine, container.attempt_id, folder, sure=False)
        return None
    return ContainerCommand(container, folder, manifest, signals, machine_kills())


def _inside(attempt_id: str) -> List[int]:
    """The processes in the attempt's container, whatever they did to their environment.

    Its first one hears but SIGKILL.
    """
    spaces = {_space(pid) for pid in marked(attempt_id)} - {_space(os.getpid()), ""}
    return [pid for pid in processes() if _space(pid) in spaces]


def _space(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _remove(engine: Engine, attempt_id: str, folder: Folder, *, sure: bool = True) -> None:
    """Unless it is ``sure``, one may be on its way: the note stays, and the driver looks again."""
    try:
        remove_all(engine, attempt_id)
        if sure:
            note.erase(folder.path)
    except (OSError, *_TROUBLE) as error:
        tell(f"the containers of {attempt_id} cannot be removed: {error}")


def _apart(signals: Signals, work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Do it in a thread of its own, while this one hears signals."""
    results: List[Any] = []
    errors: List[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  # raised again, in the other thread
            errors.append(error)
        signals.wake()

    _thread.start_new_thread(run, ())
    try:
        while not results and not errors and not signals.asked:
            signals.wait(_PAUSE_S)
    finally:
        stopped = not results and not errors
        if stopped:
            stop()
    if stopped:  # whatever it met when it was
        raise CanceledError
    if errors:
        raise errors[0]
    return results[0]
