"""The table of mistakes: how it is read, and the places in which its commands are given."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.homes import Home, wait_until
from wherry.core.version import VERSION
from wherry.sdk.client import Client
from wherry.sdk.server import HomeServer

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "mistakes.md"
SCRIPTS = {
    "train.py": (
        "import os\nos.makedirs('outputs', exist_ok=True)\n"
        "open('outputs/model.txt', 'w').write('m')\n"
    ),
    "fail.py": "raise ValueError('no rows')\n",
    "endless.py": "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)\n",
    "noisy.py": "for number in range(60000):\n    print('a line of text, number', number)\n",
}
JOBS = {
    "job.yml": "command: python train.py\ncode: .\n",
    "broken.yml": "command: [python\n",
    "list.yml": "- command: python train.py\n",
    "twice.yml": "command: python train.py\ncommand: python fail.py\n",
    "typo.yml": "comand: python train.py\n",
    "empty.yml": "code: .\n",
    "input.yml": "command: python train.py --lr ${{inputs.lr}}\n",
    "nocode.yml": "command: python train.py\ncode: scr\n",
    "pipeline.yml": "type: pipeline\njobs: {}\n",
    "cluster.yml": "command: python train.py\ncompute: azureml:cpu-cluster\n",
    "cpus.yml": "command: python train.py\nresources: {cpus: 4}\n",
    "many.yml": "command: python train.py\nresources: {cpu: many}\n",
    "soon.yml": "command: python train.py\nlimits: {timeout: soon}\n",
    "curated.yml": "command: python train.py\nenvironment: azureml:sklearn-1.5@latest\n",
    "packages.yml": "command: python train.py\nenvironment: {conda_file: conda.yml}\n",
    "services.yml": "command: python train.py\nservices: {ssh: {type: ssh}}\n",
    "horovod.yml": "command: python train.py\ndistribution: {type: horovod}\n",
    "urgent.yml": "command: python train.py\nqueue_settings: {priority: urgent}\n",
    "half.yml": "command: python train.py\nresources: {instance_count: 0.5}\n",
    "tags.yml": "command: python train.py\ntags: {data: [1, 2]}\n",
}
ENVIRONMENTS = {
    "pins.yml": "name: train\nconda_file:\n  dependencies:\n  - pip:\n    - pandas=2\n",
    "image.yml": "name: train\nimage: [python]\n",
    "nothing.yml": "name: train\n",
    "field.yml": "name: train\ncondafile: conda.yml\n",
    "missing.yml": "name: train\nconda_file: conda.yml\n",
    "build.yml": "name: train\nbuild: {path: other}\n",
}
COMPUTES = {
    "aks.yml": "name: cluster\ntype: aks\n",
    "nodes.yml": "name: cluster\nmax_nodes: 4\n",
}
_WILD = {"N": r"\d+", "PID": r"\d+", "RUN": r"\S+", "PATH_TO_PYTHON": r"\S+"}
_WAITING = ("wherry: starting the Wherry server", "wherry: waiting for the Wherry server")
_AS_OTHERS = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
_WORD = re.compile(r"\b[A-Z][A-Z0-9_]*\b")


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    section: str
    situation: str
    command: str
    code: int
    error: str
    hint: str

    def __str__(self) -> str:
        return f"{self.situation}: {self.command}"

    @property
    def is_no_error(self) -> bool:
        return self.section.startswith("No error")

    @property
    def said(self) -> str:
        """What goes to stderr."""
        if self.is_no_error:
            return self.error
        return f"error: {self.error}" + (f" hint: {self.hint}" if self.hint else "")

    @property
    def printed(self) -> str:
        """What goes to stdout."""
        return self.hint if self.is_no_error else ""

    @property
    def arguments(self) -> list[str]:
        """What follows ``wherry``, as far as it says which command is meant."""
        return self.command.partition("wherry ")[2].split()


@dataclass(frozen=True)
class Place:
    """Where a command is given. ``facts`` stand in the table as words in capitals."""

    folder: Path
    env: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    act: Callable[[subprocess.Popen[str]], None] | None = None
    restricted: bool = False

    def with_env(self, **env: str) -> Place:
        return replace(self, env={**self.env, **env})

    def fill(self, text: str) -> str:
        return _WORD.sub(lambda word: self.facts.get(word.group(), word.group()), text)

    def pattern(self, text: str) -> str:
        """The sentence as a pattern: facts as they are here, and what is different every time."""
        parts = re.split(r"(\b[A-Z][A-Z0-9_]*\b|\.\.\.)", text)
        return "".join(map(self._part, parts))

    def _part(self, text: str) -> str:
        if text == "...":
            return ".*"
        return _WILD.get(text) or re.escape(self.facts.get(text, text))

    def give(self, command: str) -> tuple[int, str, str]:
        """The exit code, what was said and what was printed, each on one line."""
        words = ["bash", "-o", "pipefail", "-c", self.fill(command)]
        if self.restricted and os.getuid() == 0:
            words = [*_AS_OTHERS, *words]
        process = subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        if self.act is not None:
            self.act(process)
        out, err = process.communicate(timeout=120)
        said = [line for line in err.splitlines() if not line.startswith(_WAITING)]
        return process.returncode, _one_line("\n".join(said)), _one_line(out)


def rows() -> list[Row]:
    found, section = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[2].isdecimal():
            situation, command, code, error, hint = (
                cell.replace("\\|", "|").strip("`") for cell in cells
            )
            found.append(Row(section, situation, command, int(code), error, hint))
    return found


class Here:
    """A home with a server and a few runs, and every other place that the table speaks of."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.folder = folder
        self.project = folder / "churn"
        self.project.mkdir()
        for name, text in {**SCRIPTS, **JOBS, **ENVIRONMENTS, **COMPUTES}.items():
            (self.project / name).write_text(text)
        (self.project / "other").mkdir()
        (self.project / "notes.txt").write_text("mine\n")
        (self.project / "prepare.sh").write_text("true\n")
        (self.project / "kept" / "outputs").mkdir(parents=True)
        (self.project / "kept" / "outputs" / "model.txt").write_text("mine")
        self.server = HomeServer(str(self.home.home))
        self.place = Place(self.project, self._env())
        self._prepare()

    def _env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")}
        for name in ("NO_COLOR", "VIRTUAL_ENV", "COLUMNS", "DISPLAY", "BROWSER"):
            env.pop(name, None)
        return {
            **env,
            "HOME": str(self.folder),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
            "WHERRY_HOME": str(self.home.home),
            "WHERRY_CACHE": str(self.folder / "cache"),
            "WHERRY_LOCAL_CPUS": "4",
            "WHERRY_LOCAL_MEMORY": "8GB",
            "WHERRY_LOCAL_GPUS": "0",
        }

    def _prepare(self) -> None:
        for command in (
            "server start",
            "workspace create churn",
            "run --detach --name baseline train.py",
            "run --detach --name broken fail.py",
            "run --detach --name noisy noisy.py",
            "run --detach --experiment twice train.py",
            "run --detach --experiment twice train.py",
            "run --detach --name endless endless.py",
        ):
            code, said, _ = self.place.give(f"wherry {command} -q")
            assert code == 0, said
        address = self.server.find()
        assert address is not None
        self.client = Client(address)
        wait_until(lambda: [run["status"] for run in self.runs()].count("Completed") == 4)
        wait_until(lambda: [run["status"] for run in self.runs()].count("Failed") == 1)
        wait_until(lambda: self.named("endless")["status"] == "Running")
        twice = [run["id"] for run in self.runs() if run["experiment"] == "twice"]
        self.place.facts.update(
            {
                "HOME": str(self.home.home),
                "PROJECT": str(self.project),
                "USER_HOME": str(self.folder),
                "URL": address.url,
                "VERSION": VERSION,
                "BASELINE": self.named("baseline")["id"],
                "ENDLESS": self.named("endless")["id"],
                "BROKEN": self.named("broken")["id"],
                "TWICE_1": twice[1],
                "TWICE_2": twice[0],
            }
        )

    def runs(self, workspace: str = "default") -> list[dict[str, Any]]:
        path = f"/workspaces/{workspace}/runs"
        return list(self.client.get(path, {"archived": "all", "limit": 200})["items"])

    def named(self, name: str) -> dict[str, Any]:
        return next(run for run in self.runs() if run["display_name"] == name)

    def state(self) -> object:
        """Everything that a mistake must leave as it is."""
        workspaces = self.client.get("/workspaces")["items"]
        held = {each["name"]: self.runs(each["name"]) for each in workspaces}
        runs = {
            (name, run["id"], run["status"], run["display_name"])
            for name, each in held.items()
            for run in each
        }
        files = {
            str(path): (path.stat().st_mtime_ns, path.stat().st_mode)
            for path in [*self.project.rglob("*"), self.home.home / "config"]
            if path.exists() and "__pycache__" not in str(path)
        }
        return set(held), runs, files

    def close(self) -> None:
        self.place.give("wherry job cancel --wait endless")
        self.client.close()
        self.server.stop()
        try:
            wait_until(lambda: not self.home.processes())
        finally:
            for process in self.home.processes():
                process.kill()

    @contextmanager
    def situation(self, name: str) -> Iterator[Place]:
        """The place that the table calls so; what has no name there is the home with a server."""
        with ExitStack() as stack:
            make = SITUATIONS.get(name)
            yield stack.enter_context(make(self)) if make else self.place


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fresh(here: Here, name: str) -> Place:
    home = here.folder / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    facts = {**here.place.facts, "HOME": str(home)}
    return replace(here.place, facts=facts).with_env(WHERRY_HOME=str(home))


@contextmanager
def _no_server(here: Here) -> Iterator[Place]:
    yield _fresh(here, "fresh")


@contextmanager
def _nobody_listens(here: Here) -> Iterator[Place]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    place = replace(here.place, facts={**here.place.facts, "URL": url})
    yield place.with_env(WHERRY_SERVER=url)


def _answering(api: str, body: bytes = b"{}") -> Callable[[Here], Any]:
    """A server that is none of ours, or one of another version."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if api else 404)
            if api:
                self.send_header("Wherry-Api", api)
                self.send_header("Wherry-Version", "9.0.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    @contextmanager
    def make(here: Here) -> Iterator[Place]:
        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            place = replace(here.place, facts={**here.place.facts, "URL": url})
            yield place.with_env(WHERRY_SERVER=url)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    return make


def _remote(**env: str) -> Callable[[Here], Any]:
    @contextmanager
    def make(here: Here) -> Iterator[Place]:
        yield here.place.with_env(WHERRY_SERVER=here.place.facts["URL"], **env)

    return make


def _home_file(name: str, content: bytes | None, mode: int = 0o600) -> Callable[[Here], Any]:
    """A file of the home with a server, changed for a while; without content it is gone."""

    @contextmanager
    def make(here: Here) -> Iterator[Place]:
        path = here.home.home / name
        before = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(before or b"" if content == b"same" else content)
            path.chmod(mode)
        try:
            yield here.place
        finally:
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before)
                path.chmod(0o600)

    return make


@contextmanager
def _home_is_a_file(here: Here) -> Iterator[Place]:
    place = _fresh(here, "file")
    Path(place.env["WHERRY_HOME"]).rmdir()
    Path(place.env["WHERRY_HOME"]).touch()
    yield place
    Path(place.env["WHERRY_HOME"]).unlink()


@contextmanager
def _home_not_writable(here: Here) -> Iterator[Place]:
    place = _restricted(_fresh(here, "locked"))
    home = Path(place.env["WHERRY_HOME"])
    home.chmod(0o500)
    yield place
    home.chmod(0o700)


@contextmanager
def _home_of_all(here: Here) -> Iterator[Place]:
    place = _fresh(here, "open")
    Path(place.env["WHERRY_HOME"]).chmod(0o777)
    yield place


def _restricted(place: Place) -> Place:
    """Modes count for root, too."""
    if os.getuid() == 0 and subprocess.run([*_AS_OTHERS, "true"], check=False).returncode:
        pytest.skip("root may read and write everything here")
    return replace(place, restricted=True)


@contextmanager
def _full_disk(here: Here) -> Iterator[Place]:
    place = _fresh(here, "full")
    home = place.env["WHERRY_HOME"]
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "wherry-full", home]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        with (Path(home) / "fill").open("wb", buffering=0) as fill:
            while True:
                try:
                    fill.write(b"\0" * 4096)
                except OSError:
                    break
        yield place
    finally:
        subprocess.run(["umount", "-l", home], check=True)


@contextmanager
def _port_taken(here: Here) -> Iterator[Place]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        place = _fresh(here, "port").with_env(WHERRY_PORT=port)
        yield replace(place, facts={**place.facts, "PORT": port})


def _database(content: bytes | None = None) -> Callable[[Here], Any]:
    """A home whose database no server of this version can use."""

    @contextmanager
    def make(here: Here) -> Iterator[Place]:
        place = _fresh(here, "database")
        path = Path(place.env["WHERRY_HOME"]) / "wherry.db"
        if content is not None:
            path.write_bytes(content)
        else:
            with sqlite3.connect(path) as newer:
                newer.execute("create table alembic_version (version_num varchar)")
                newer.execute("insert into alembic_version values ('9999')")
            newer.close()
        path.chmod(0o600)
        yield place

    return make


@contextmanager
def _database_locked(here: Here) -> Iterator[Place]:
    place = _fresh(here, "held").with_env(WHERRY_START_TIMEOUT_S="2")
    holder = sqlite3.connect(Path(place.env["WHERRY_HOME"]) / "wherry.db", isolation_level=None)
    holder.execute("create table held (x)")
    holder.execute("begin exclusive")
    try:
        yield place
    finally:
        holder.execute("rollback")
        holder.close()
        server = HomeServer(place.env["WHERRY_HOME"])
        wait_until(lambda: server.status().running)
        server.stop()


@contextmanager
def _no_server_packages(here: Here) -> Iterator[Place]:
    """As where the client alone is installed, or where Python is too old for the server."""
    place = _fresh(here, "client")
    folder = here.folder / "without"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['fastapi'] = None\n")
    yield place.with_env(PYTHONPATH=str(folder))


@contextmanager
def _server_stopped_answering(here: Here) -> Iterator[Place]:
    place = _fresh(here, "silent")
    home = Path(place.env["WHERRY_HOME"])
    with (home / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def _modes(name: str) -> Callable[[Here], Any]:
    """A file or folder of the project that cannot be read or written."""

    @contextmanager
    def make(here: Here) -> Iterator[Place]:
        path = here.project / name
        mode = path.stat().st_mode
        before = path.stat()
        path.chmod(0o500 if path.is_dir() else 0)
        try:
            yield _restricted(here.place)
        finally:
            path.chmod(mode)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return make


@contextmanager
def _in_home_folder(here: Here) -> Iterator[Place]:
    yield replace(here.place, folder=here.folder)


@contextmanager
def _nowhere(here: Here) -> Iterator[Place]:
    """A folder that is removed before the command begins."""
    gone = here.folder / "gone"
    gone.mkdir()
    yield replace(here.place, folder=gone, facts={**here.place.facts, "FOLDER": str(gone)})


@contextmanager
def _ctrl_c(here: Here) -> Iterator[Place]:
    def act(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)

    yield replace(here.place, act=act)


SITUATIONS: dict[str, Callable[[Here], Any]] = {
    "no server, and only the client is installed": _no_server_packages,
    "nobody listens at the address": _nobody_listens,
    "the server is of another version": _answering("99"),
    "something else answers at the address": _answering(""),
    "the server lets nobody in without a token": _remote(),
    "the token is wrong": _remote(WHERRY_TOKEN="wrong"),
    "the token file can be read by others": _home_file("token", b"same", 0o644),
    "the token file is gone": _home_file("token", None),
    "the token file holds another token": _home_file("token", b"0" * 64),
    "the server is stopped": _no_server,
    "stopping a server that is not there": _no_server,
    "asking for a server that is not there": _no_server,
    "asking for a server that cannot be reached": _nobody_listens,
    "the home is a file": _home_is_a_file,
    "the home cannot be written to": _home_not_writable,
    "others can write to the home": _home_of_all,
    "the disk is full": _full_disk,
    "the port is taken": _port_taken,
    "the database is of a newer Wherry": _database(),
    "the database is damaged": _database(b"not a database, certainly not" * 200),
    "the database is locked": _database_locked,
    "another server holds the home and does not answer": _server_stopped_answering,
    "the settings file has an unknown name": _home_file("config", b"prot = 8700\n"),
    "the settings file has a line that is none": _home_file("config", b"port 8700\n"),
    "the settings file has a bad value": _home_file("config", b"port = many\n"),
    "the settings file is no text": _home_file("config", b"\xff\xfe\x00"),
    "the script cannot be read": _modes("train.py"),
    "the job file cannot be read": _modes("job.yml"),
    "the folder cannot be written to": _modes("other"),
    "in the home folder of the user": _in_home_folder,
    "in a folder that is gone": _nowhere,
    "Ctrl-C while following": _ctrl_c,
}
