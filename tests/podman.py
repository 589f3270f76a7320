"""A podman of the tests' own: its storage, its settings, its socket, and a small image to run in.

No registry is asked: the image holds this machine's own Python and shell. It is made once and kept
in the user's cache, with podman's storage around it.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import sshd

BASE = "localhost/wherry-test-base:latest"

_PROGRAMS = (
    *("sh", "cat", "ls", "sleep", "env", "mkdir", "id", "touch", "true", "false", "df"),
    *("rm", "chmod"),
)
_USERS = b"root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n"
_LEFT_OUT = {
    "__pycache__", "site-packages", "dist-packages", "test", "idlelib", "lib2to3", "tkinter",
    "turtledemo", "pydoc_data", "config-3.11-x86_64-linux-gnu",
}  # fmt: skip
_RUNTIME = ("libgcc_s", "librt", "libpthread", "libdl", "libstdc++")
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
events_logger = "file"
cgroup_manager = "cgroupfs"
"""
_PATIENCE_S = 60


def missing() -> str:
    """What keeps podman from being used here; empty if nothing does."""
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return "" if os.getuid() == 0 else "the tests' podman is run by root alone"


class Podman:
    """``store`` holds the base image, shared and never changed; ``run`` is for this one alone."""

    def __init__(self, store: Path, run: Path) -> None:
        self._store = store
        self._run = run
        self.socket = run / "podman.sock"
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(run / "containers.conf"),
            "TMPDIR": str(run),
        }
        (run / "containers.conf").write_text(_SETTINGS)
        self._service: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """As ``DOCKER_HOST`` has it."""
        return f"unix://{self.socket}"

    def argv(self, *words: str) -> list[str]:
        images = ["--storage-opt", f"additionalimagestore={self._store}"]
        return [*_podman(self._run / "root", self._run), *images, *words]

    def __call__(self, *words: str, data: bytes | None = None) -> str:
        return _output(self.argv(*words), self.environment, data)

    def bridged(self) -> str:
        """What keeps containers from having a network of their own here; empty if nothing does."""
        argv = self.argv("run", "--rm", "--network", "bridge", BASE, "true")
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True)
        return done.stderr.strip() if done.returncode else ""

    def left_after(self, seconds: float) -> str:
        """The containers that do not go away by themselves; removed, so that no other test meets
        them.
        """
        give_up_at = time.monotonic() + seconds
        while left := self("ps", "--all", "--format", "{{.Names}} {{.Status}} {{.Labels}}"):
            if time.monotonic() >= give_up_at:
                self("rm", "--all", "--force")
                break
            time.sleep(0.05)
        return left

    def serve(self) -> subprocess.Popen[bytes]:
        argv = self.argv("system", "service", "--time=0", self.host)
        # There, since what watches a container leaves a file "oom" where it was started.
        process = subprocess.Popen(
            argv, env=self.environment, stderr=subprocess.DEVNULL, cwd=self._run
        )
        give_up_at = time.monotonic() + _PATIENCE_S
        while not self.socket.exists():
            assert process.poll() is None, "podman's service has ended"
            assert time.monotonic() < give_up_at, "podman's service did not come up"
            time.sleep(0.02)
        self._service = process
        return process

    def kill(self) -> None:
        """The service alone; containers go on."""
        assert self._service is not None
        self._service.kill()
        self._service.wait()
        self.socket.unlink()

    def clear_away(self) -> None:
        for words in (("rm", "--all", "--force", "--time", "0"), ("umount", "--all")):
            subprocess.run(self.argv(*words), env=self.environment, capture_output=True)
        if self._service is not None:
            self._service.terminate()
            self._service.wait()


@contextmanager
def serving() -> Iterator[Podman]:
    """A podman that answers on its socket and has the base image; nothing of it is left behind."""
    run = Path(tempfile.mkdtemp(prefix="wherry-podman-"))
    podman = Podman(_store(), run)
    try:
        _ensure_base(podman, run)
        podman.serve()
        yield podman
    finally:
        podman.clear_away()
        shutil.rmtree(run, ignore_errors=True)


class SmallDisk:
    """Where a podman of its own keeps all that it makes."""

    def __init__(self, podman: Podman, folder: Path) -> None:
        self.podman = podman
        self.folder = folder

    def fill(self) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            for block in (bytes(1 << 20), bytes(1 << 12)):
                with suppress(OSError):
                    while True:
                        file.write(block)

    def make_room(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)

    def grow(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)


@contextmanager
def on_a_small_disk(size: str) -> Iterator[SmallDisk | None]:
    """None where nothing can be mounted."""
    run = Path(tempfile.mkdtemp(prefix="wherry-podman-"))
    disk = run / "root"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        shutil.rmtree(run)
        yield None
        return
    small = Podman(_store(), run)
    try:
        small.serve()
        yield SmallDisk(small, disk)
    finally:
        small.clear_away()
        subprocess.run(["umount", "-l", str(disk)], check=True)
        shutil.rmtree(run)


def _store() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    wanted = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()[:16]
    return cache / "wherry-tests" / f"images-{wanted}"


def _ensure_base(podman: Podman, run: Path) -> None:
    """Made once, whoever else wants it at the same time."""
    store = _store()
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (store / "ready").exists():
            change = ["--change", "ENV PATH=/usr/bin"]
            argv = [*_podman(store, run), "import", *change, "-", BASE]
            _output(argv, podman.environment, _image())
            (store / "ready").touch()


def _podman(root: Path, run: Path) -> list[str]:
    places = ["--root", str(root), "--runroot", str(run / "runroot")]
    return ["podman", *places, "--storage-driver", "overlay"]


def _output(argv: list[str], environment: dict[str, str], data: bytes | None) -> str:
    done = subprocess.run(argv, env=environment, input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def _image() -> bytes:
    """This interpreter, its standard library, a shell and what they are linked with, as a tar."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    found = {str(python): python, "/usr/bin/python3": python, "/usr/bin/python": python}
    for name in _PROGRAMS:
        found[f"/usr/bin/{name}"] = Path(shutil.which(name) or f"/bin/{name}").resolve()
    if sshd.program():
        found["/usr/sbin/sshd"] = Path(str(sshd.program())).resolve()
    for path in library.rglob("*"):
        if path.is_file() and not _LEFT_OUT & set(path.parts) and not path.match("_tkinter*"):
            found[str(path)] = path
    linked = [path for path in found.values() if path.suffix == ".so" or os.access(path, os.X_OK)]
    others = {library for path in linked for library in _libraries(path)}
    # What programs that are brought along are linked with.
    beside = Path(next(name for name in others if "libc.so" in name)).parent
    others |= {str(path) for each in _RUNTIME for path in beside.glob(f"{each}.so.?")}
    for name in (*others, "/etc/ssl/certs/ca-certificates.crt"):
        if Path(name).exists():
            found[name] = Path(name).resolve()
    return _tar(found)


def _libraries(path: Path) -> list[str]:
    done = subprocess.run(["ldd", str(path)], capture_output=True, text=True)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def _tar(found: dict[str, Path]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        for folder in ("bin", "lib", "lib64", "sbin"):
            link = tarfile.TarInfo(folder)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{folder}"
            tar.addfile(link)
        for folder in ("tmp", "var/tmp"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(made)
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size = len(_USERS)
        tar.addfile(passwd, io.BytesIO(_USERS))
        for name, path in sorted(found.items()):
            at = re.sub(r"^/(bin|lib|lib64)/", r"/usr/\1/", name)
            tar.add(path, at.lstrip("/"), recursive=False)
    return archive.getvalue()
