"""The runner: prepares one attempt, executes it, outlives it, and tells how it ended."""

from __future__ import annotations

import os
import select
import time
from binascii import a2b_base64

from . import process, tree
from .confinement import Confinement, confinement
from .courier import Courier
from .environment import command_environment
from .evidence import MemoryKills
from .folder import Folder, tell
from .handover import hand_over
from .light import TYPE_CHECKING, become_subreaper, signal, suppress
from .outputs import MADE, Outputs, Sweeper
from .preparation import AS_IT_IS, in_container, make_ready, to_be_made
from .rescue import outlive
from .shipping import AwayError, RejectedError, Shipper, quote
from .verdict import READ_BACK, conclude
from .workspace import CanceledError, SetupError, unpack

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional

    from .container import Box
    from .ranks import Ranks

_SHORT_S = 0.1
_NOTICED_S = 0.1
_HEARTBEAT_S = 5.0


def main(
    path: str,
    library: str,
    manifest_text: Optional[str] = None,
    pipe: Optional[int] = None,
    on_claim: Optional[Callable[[], None]] = None,
    signals: Optional[process.Signals] = None,
) -> bool:
    """Run the attempt whose folder is ``path``; ``library`` goes on the command's Python path.

    The manifest is read from the folder unless its text is given; ``pipe`` is the short way home,
    and whether it was taken is returned. ``on_claim`` is called as soon as it is clear whose the
    attempt is. ``signals`` are those of a process that has run others.
    """
    signals = signals or process.Signals()
    folder = Folder(path, manifest_text)
    claimed = folder.claim(time.time())
    if on_claim is not None:
        on_claim()
    if not claimed:
        return False
    try:
        manifest = folder.manifest()
    except SetupError as error:
        folder.write_exit(_without_start(error))
        return False
    return _Attempt(folder, manifest, library, signals, pipe).run()


def rescue(
    path: str,
    library: str,
    manifest_text: Optional[str] = None,
    signals: Optional[process.Signals] = None,
) -> None:
    """Bring home what the attempt left whose runner is gone."""
    signals = signals or process.Signals()
    folder = Folder(path, manifest_text)
    try:
        manifest = folder.manifest()
    except SetupError as error:
        tell(str(error))
        return
    _Attempt(folder, manifest, library, signals).rescue()


class _Attempt:
    """One attempt. The methods stand in the order in which they are called."""

    def __init__(
        self,
        folder: Folder,
        manifest: Dict[str, Any],
        library: str,
        signals: process.Signals,
        pipe: Optional[int] = None,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._library = library
        self._signals = signals
        self._pipe = pipe
        self._shipper = _shipper(manifest)
        self._file_shipper = _shipper(manifest)
        self._courier = Courier(
            self._shipper,
            manifest,
            folder,
            on_cancel=lambda: signals.ask(signal.SIGTERM),
            on_done=signals.wake,
        )
        self._outputs = Outputs(self._file_shipper, str(manifest["run_id"]), folder)
        self._sweeper = Sweeper(self._outputs)
        self._ready = AS_IT_IS
        self._box: Optional[Box] = None
        self._ranks = self._found_ranks() if manifest.get("ranks") else None

    def _found_ranks(self) -> Ranks:
        from .ranks import Ranks

        grace_s = float(self._manifest.get("grace_s", 10.0))
        ranks = Ranks(self._manifest["ranks"], self._folder, grace_s)
        self._courier.logs = ranks.logs()
        return ranks

    def run(self) -> bool:
        """Whether all was handed over and nothing of the attempt is left with this process."""
        try:
            return self._run()
        finally:
            if self._box is not None:
                self._box.remove()

    def _run(self) -> bool:
        try:
            self._prepare()
            record = self._execute()
        except (SetupError, CanceledError) as error:
            record = _without_start(error)
        except Exception as error:  # noqa: BLE001  # the command must not outlive its runner
            tree.kill(tree.members(os.getpid(), os.getpid()))
            record = _without_start(SetupError(f"the runner failed: {error!r}"))
            _tell_trace()
        self._ready.close()
        log = self._short_log()
        if log is not None:
            self._folder.write_exit(record, handed_over=True)
            if hand_over(self._pipe, self._manifest, record, log):
                return True
        self._signals.on_ask = self._hurry  # before anybody can know that it has ended
        self._folder.write_exit(record)
        self._finish(record)
        return False

    def rescue(self) -> None:
        tell("an earlier runner of this attempt was killed; what it left is brought home")
        record = self._folder.exit_record()
        if record is None:
            if self._folder.began():
                self._attend()
            else:
                self._courier.say("the runner that prepared it was killed")
            record = outlive(self._folder, self._manifest, self._signals)
            self._folder.write_exit(record)
        self._finish(record)

    def _prepare(self) -> None:
        """Fill the working directory. A signal meanwhile ends it at once."""
        self._signals.on_ask = _raise_canceled
        if self._signals.asked:
            raise CanceledError
        try:
            if self._manifest.get("snapshot"):  # a small one comes along
                unpack(iter((a2b_base64(self._manifest["snapshot"]),)), self._folder.work)
            elif self._manifest.get("snapshot_id") and self._shipper.enabled:
                self._fetch(str(self._manifest["snapshot_id"]))
            else:
                os.makedirs(self._folder.work, exist_ok=True)
            self._make_watched()
            if self._manifest.get("attempt", 1) > 1 and self._shipper.enabled:
                self._restore()
        except OSError as error:
            raise SetupError(f"the attempt's folder cannot be used: {error}") from None
        finally:
            self._signals.on_ask = None
        if in_container(self._manifest):
            self._prepare_box()
        elif to_be_made(self._manifest):
            self._make_ready()
        if self._ranks is not None:
            self._meet(self._ranks)

    def _restore(self) -> None:
        from .restoring import Restoring

        node = self._ranks.node if self._ranks is not None else 0
        shipper, run_id = self._file_shipper, str(self._manifest["run_id"])
        Restoring(shipper, run_id, node, self._folder.work).run(self._outputs, self._courier.say)

    def _make_ready(self) -> None:
        """The environment, found or made."""
        ready = make_ready(
            self._manifest, self._folder, self._courier.say, self._signals, self._fetch_wheel_here
        )
        if ready is None:
            raise CanceledError
        self._ready = ready

    def _prepare_box(self) -> None:
        """The image of the container that the command runs in, found or made."""
        from .container import Box, Fetching

        fetching = Fetching(self._fetch_context, self._fetch_wheel)
        self._box = Box(self._folder, self._manifest, self._courier.say, fetching, self._ranks)
        self._box.prepare(self._signals)

    def _meet(self, ranks: Ranks) -> None:
        """Every node goes on when all are ready; the user's own variables stay."""
        from .meeting import meet

        self._signals.on_ask = _raise_canceled
        try:
            meet(ranks, self._shipper, self._manifest, self._signals)
        finally:
            self._signals.on_ask = None
        self._manifest["env"] = {**ranks.variables(), **(self._manifest.get("env") or {})}

    def _make_watched(self) -> None:
        """The folders that are kept are there for the command, as Azure ML has them."""
        for name in MADE:
            with suppress(FileExistsError):  # whatever the snapshot has of that name
                os.mkdir(f"{self._folder.work}/{name}")

    def _fetch(self, snapshot_id: str) -> None:
        _fetch(
            self._shipper,
            snapshot_id,
            lambda pieces: unpack(self._beating(pieces), self._folder.work),
        )

    def _fetch_context(self, snapshot_id: str, folder: str) -> None:
        shipper = _shipper(self._manifest)  # the courier has the other one
        _fetch(shipper, snapshot_id, lambda pieces: unpack(pieces, folder))
        shipper.close()

    def _fetch_wheel_here(self, digest: str, path: str) -> None:
        """In the main thread, where a signal ends all waiting."""
        self._signals.on_ask = _raise_canceled
        try:
            self._fetch_wheel(digest, path)
        finally:
            self._signals.on_ask = None

    def _fetch_wheel(self, digest: str, path: str) -> None:
        from .wheels import WheelFetcher

        run_id = str(self._manifest["run_id"])
        WheelFetcher(lambda: _shipper(self._manifest), run_id, self._signals).fetch(digest, path)

    def _beating(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Signs of life during a fetch that takes its time."""
        beat_at = time.monotonic() + _NOTICED_S
        herald = _shipper(self._manifest, patience_s=0)
        for piece in pieces:
            yield piece
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + _HEARTBEAT_S
                self._herald(herald)
        herald.close()

    def _herald(self, herald: Shipper) -> None:
        try:
            reply = herald.report(str(self._manifest["attempt_id"]), stage="preparing")
        except (RejectedError, AwayError):
            return
        if reply.get("cancel"):
            raise CanceledError

    def _execute(self) -> Dict[str, Any]:
        """Start the command, watch it to its end, and make up its exit record."""
        manifest, signals = self._manifest, self._signals
        with confinement(self._folder.path, manifest.get("limits")) as limits:
            kills = MemoryKills(limits.kill_counters)
            command = self._start(limits)
        weigh = limits.watch(command, signals)
        started_at, began = time.time(), time.monotonic()
        if not command.ended_within(_SHORT_S, signals):
            self._attend()
        limit_s, grace_s = manifest.get("time_limit_s"), float(manifest.get("grace_s", 10.0))

        def look() -> None:
            kills.look()
            weigh()

        command.watch(signals, limit_s, grace_s, look)
        ended_at = started_at + time.monotonic() - began  # the clock may have been set meanwhile
        record = self._conclude(command, kills, limits.memory_bytes)
        return {**record, "started_at": started_at, "ended_at": ended_at}

    def _start(self, limits: Confinement) -> process.Command:
        if self._box is not None:
            return self._box.start(self._library, self._signals, limits)
        manifest, folder = self._manifest, self._folder
        inherited = {**os.environ, **self._ready.variables}
        env = command_environment(inherited, manifest, folder.path, self._library)
        argv = self._ready.argv(manifest)
        if self._ranks is not None:
            os.chdir(folder.work)
            argv = self._ranks.command(argv, env)
        self._folder.begin()
        with self._ready.shared():
            return process.start(
                argv,
                env,
                folder.work,
                folder.log,
                subreaper=become_subreaper(),
            )

    def _attend(self) -> None:
        """The command takes long enough for someone to watch it."""
        self._folder.reserve()
        self._courier.start()
        self._sweeper.start()

    def _conclude(
        self, command: process.Command, kills: MemoryKills, memory_bytes: int
    ) -> Dict[str, Any]:
        status = command.status or 0
        log = self._ranks.log_that_tells() if self._ranks is not None else self._folder.log
        return conclude(
            status,
            self._folder.end_of_log(READ_BACK, log) if status or command.timed_out else b"",
            self._folder.work,
            canceled=command.canceled,
            timed_out=command.timed_out,
            killed_by_us=command.killed and not command.out_of_memory,
            memory_kills=bool(status) and (command.out_of_memory or kills.lately()),
            memory_bytes=memory_bytes,
            detail=command.detail,
        )

    def _short_log(self) -> Optional[bytes]:
        """The whole log of a run that was short, quiet and left no files: all there is to send."""
        if self._pipe is None or self._courier.started or not self._shipper.enabled:
            return None
        if self._ranks is not None:
            return None
        if self._folder.spools() or not self._outputs.none():
            return None
        return self._folder.whole_log(select.PIPE_BUF)

    def _finish(self, record: Dict[str, Any]) -> None:
        """Send everything. The record is safe by now: who asks to end ends only waiting."""
        self._folder.keep_exit()
        self._signals.on_ask = self._hurry
        if not record.get("unstarted"):
            self._courier.finalizing()
        notices = self._box.notices if self._box is not None else self._ready.notices
        warnings = [*notices, *self._sweeper.finish()]
        self._courier.finish({**record, "warnings": warnings})
        while not self._courier.done:
            self._signals.wait(_HEARTBEAT_S)

    def _hurry(self) -> None:
        self._shipper.hurry()
        self._file_shipper.hurry()


def _fetch(shipper: Shipper, snapshot_id: str, take: Callable[[Iterator[bytes]], None]) -> None:
    try:
        shipper.fetch(f"/snapshots/{quote(snapshot_id)}/archive", take)
    except (RejectedError, AwayError) as error:
        raise SetupError(f"the snapshot cannot be fetched: {error}") from None


def _shipper(manifest: Dict[str, Any], **options: Any) -> Shipper:
    server_file = manifest.get("server_file") or None
    if not manifest["server"]:
        server_file = None  # no server is told to: nothing is reported
    return Shipper(
        manifest["server"],
        manifest.get("token") or "",
        server_file,
        server_id=manifest.get("server_id") or "",
        tunnel=bool(manifest.get("tunnel")),
        tell=tell,
        **options,
    )


_NO_ROOM = ("No space left on device", "Disk quota exceeded")


def _without_start(error: Exception) -> Dict[str, Any]:
    """The record of a command that never was."""
    canceled = isinstance(error, CanceledError)
    return {
        "exit_code": None,
        "signal": None,
        "canceled": canceled,
        "timed_out": False,
        "out_of_memory": False,
        "setup_error": None if canceled else str(error),
        "no_room": not canceled and any(words in str(error) for words in _NO_ROOM),
        "error": None if canceled else {"message": str(error)},
        "lost": False,
        "unstarted": False,
        "warnings": [],
        "started_at": None,
        "ended_at": time.time(),
    }


def _raise_canceled() -> None:
    raise CanceledError


def _tell_trace() -> None:
    import traceback

    tell(traceback.format_exc())
