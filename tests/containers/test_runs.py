"""Commands in real containers, started by the real runner on this machine; and images for them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.builds.channel import CondaChannel
from tests.builds.index import Index, serve
from tests.podman import BASE, Podman
from wherry.containers.images import key_of
from wherry.control import bundle
from wherry.core.lifecycle import ExitRecord, Phase
from wherry.core.manifest import Manifest
from wherry.drivers.base import Handle, Launch
from wherry.drivers.local import LocalDriver
from wherry.runner import built, pruning

_PATIENCE_S = 90


class Node:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.driver = LocalDriver(root)

    def start(
        self, code: str, *, program: str = "python3", python: Any = None, **docker: Any
    ) -> tuple[Handle, Path]:
        return self.submit(
            _launch([program, "-c", code], {"enabled": True, **docker}, python=python)
        )

    def submit(self, launch: Launch) -> tuple[Handle, Path]:
        return self.driver.submit(launch), self._root / launch.attempt_id

    def run(self, code: str = "", **docker: Any) -> tuple[ExitRecord, Path]:
        handle, folder = self.start(code, **docker)
        return self.end_of(handle), folder

    def limit(self, **limits: Any) -> None:
        self._root.mkdir(exist_ok=True)
        (self._root / ".limits.json").write_text(json.dumps(limits))

    def end_of(self, handle: Handle) -> ExitRecord:
        until(lambda: self.driver.observe([handle])[handle].phase is Phase.EXITED)
        record = self.driver.observe([handle])[handle].exit
        assert record is not None
        return record


def _launch(argv: list[str], docker: dict[str, Any], **environment: Any) -> Launch:
    attempt_id = str(uuid4())
    manifest = Manifest(
        run_id=f"run_of_{attempt_id}",
        attempt_id=attempt_id,
        server="",
        argv=argv,
        environment={"name": "boxed", "docker": docker, **environment},
        grace_s=5.0,
    )
    return Launch(
        attempt_id=attempt_id,
        argv=bundle.command(sys.executable),
        files={"manifest.json": json.dumps(manifest.to_dict()).encode()},
        program=bundle.files(),
    )


def until(holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.02)


def said(folder: Path) -> str:
    return (folder / "std_log.txt").read_text()


def build_log(folder: Path) -> str:
    (path,) = folder.glob("build_log*")
    return path.read_text()


@pytest.fixture
def node(podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setenv("DOCKER_HOST", podman.host)
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    yield Node(tmp_path / "nodes")
    left = podman.left_after(_PATIENCE_S)
    assert left == "", f"a container is left: {left}"


def test_a_command_in_a_given_image(node: Node) -> None:
    code = (
        "import os; open('outputs/x', 'w').write('1'); print(os.getcwd(), os.path.exists('/srv'), "
        "os.environ['WHERRY_RUN_ID'], os.statvfs('/dev/shm').f_blocks, flush=True); "
        "import wherry; raise SystemExit(3)"
    )
    record, folder = node.run(code, image=BASE, shm_size="32m")
    assert (record.exit_code, record.signal, record.canceled) == (3, None, False)
    assert said(folder) == f"{folder}/work False run_of_{folder.name} {(32 << 20) // 4096}\n"
    assert (folder / "work" / "outputs" / "x").stat().st_uid == os.getuid()
    assert os.path.exists("/srv"), "the test tells inside from outside by this folder"


GREEDY = """\
import os, time
print(sorted(os.sched_getaffinity(0)), flush=True)
held = []
while True:
    held.append(bytearray(10 << 20))
    time.sleep(0.02)
"""


def test_a_container_is_held_to_what_its_node_has(node: Node) -> None:
    one = min(os.sched_getaffinity(0))
    node.limit(cpus=[one], memory_bytes=150 << 20)
    record, folder = node.run(GREEDY, image=BASE)
    assert record.out_of_memory
    assert said(folder).splitlines()[0] == f"[{one}]"


def test_a_container_that_the_engine_cannot_hold_is_held_by_the_runner(node: Node) -> None:
    node.limit(cpus=[100_000], memory_bytes=150 << 20)
    record, folder = node.run(GREEDY, image=BASE)
    assert record.out_of_memory
    assert "cannot be held" in (folder / "runner.log").read_text()


def test_a_killed_runner_costs_nothing(node: Node) -> None:
    launch = _launch(
        ["sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 4"],
        {"enabled": True, "image": BASE},
    )
    handle = node.driver.submit(launch)
    folder = node._root / launch.attempt_id
    until(lambda: (folder / "std_log.txt").exists() and said(folder) == "begun\n")
    os.kill(json.loads((folder / "started").read_text())["pid"], signal.SIGKILL)
    until(lambda: "runner is gone" in node.driver.observe([handle])[handle].detail)
    (folder / "work" / "go").touch()
    assert node.driver.rescue(launch)
    record = node.end_of(handle)
    assert (record.exit_code, record.lost) == (4, False)
    assert said(folder) == "begun\ndone\n"


def test_cancel_asks_and_release_removes(node: Node) -> None:
    handle, folder = node.start(
        "import signal, time, sys; signal.signal(15, lambda *_: sys.exit('asked'));"
        "print('up', flush=True); time.sleep(600)",
        image=BASE,
    )
    until(lambda: (folder / "std_log.txt").exists() and said(folder) == "up\n")
    node.driver.cancel(handle)
    assert node.end_of(handle).canceled
    assert said(folder) == "up\nasked\n"
    other, place = node.start("import time; print('up', flush=True); time.sleep(600)", image=BASE)
    until(lambda: (place / "std_log.txt").exists() and said(place) == "up\n")
    node.driver.release(other)


def test_too_little_memory(node: Node) -> None:
    record, _ = node.run("x = bytearray(1 << 30)", image=BASE, arguments=["--memory=64m"])
    assert record.out_of_memory
    assert record.signal == signal.SIGKILL


def test_an_image_from_a_dockerfile_is_built_once(node: Node, podman: Podman) -> None:
    text = f"FROM {BASE}\nRUN echo {uuid4()} > /made\nENV MADE=yes PYTHONPATH=/made-too\n"
    show = (
        "import os, sys; print(open('/made').read(), os.environ['MADE'], '/made-too' in sys.path)"
    )
    record, folder = node.run(show, dockerfile=text)
    assert record.exit_code == 0, record
    assert said(folder).endswith("yes True\n")
    assert "STEP" in build_log(folder)
    _, again = node.run(show, dockerfile=text)
    assert said(again) == said(folder)
    assert not list(again.glob("build_log*"))


def secrets_in(image: str, podman: Podman) -> str:
    """The files in it, and whatever is known of it, that hold the password."""
    code = (
        "import os; [print(path) for folder, _, names in os.walk('/opt') for name in names "
        "for path in [os.path.join(folder, name)] "
        "if os.path.isfile(path) and b'pass-of-the-index' in open(path, 'rb').read()]"
    )
    told = podman("image", "inspect", image) + podman("history", "--no-trunc", image)
    assert "pass-of-the-index" not in told
    words = ("--rm", "--network=host", "--entrypoint", "python3", image, "-c", code)
    return podman("run", *words)


def test_packages_on_top_of_an_image(
    node: Node, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(__file__).resolve().parents[2] / ".tools" / "bin"
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    with serve(Index(login="me:pass-of-the-index")) as index:
        index.add("only_here", "1.5", source="WORD = 'from the index'")
        address = index.url.replace("://", f"://{index.login}@")

        def asked(*pip: str) -> dict[str, Any]:
            lines = [f"--index-url {address}/simple", *pip]
            return {"conda": {"dependencies": [{"pip": lines}]}, "user_managed": False}

        index.add("direct", "1.0")
        file = f"direct @ {address}/files/direct-1.0-py3-none-any.whl?sig=pass-of-the-index"
        show = "import direct, only_here, sys; print(only_here.WORD, sys.prefix)"
        record, folder = node.run(show, image=BASE, python=asked("only_here==1.5", file))
        assert record.exit_code == 0, record
        assert said(folder).startswith("from the index /opt/wherry/environments/")
        lock = json.loads((folder / "files" / "environment" / "lock.json").read_text())
        assert "only_here" in json.dumps(lock).replace("-", "_")
        assert "pass-of-the-index" not in json.dumps(lock) + build_log(folder)
        assert secrets_in(built_image(folder), podman) == ""
        _, again = node.run(show, image=BASE, python=asked("only_here==1.5", file))
        assert said(again) == said(folder)
        assert not list(again.glob("build_log*"))
        failed, _ = node.run(show, image=BASE, python=asked("only_here==9"))
        assert "only_here==9" in str(failed.setup_error)


def test_a_conda_file_on_top_of_an_image(
    node: Node, podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solved and linked by rattler in the image, with a Python that only the channel has."""
    own = Path(__file__).resolve().parents[2] / ".tools" / "bin"
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    channel = CondaChannel(tmp_path / "channel")
    version = channel.add_python()
    channel.add_module("wherry-nowhere", "1.2", "VALUE = 12\n")
    conda = {
        "channels": [channel.url],
        "dependencies": [f"python={version}", "wherry-nowhere=1", {"pip": ["six==1.16.0"]}],
    }
    show = (
        "import os, six, sys, wherry_nowhere as w; print(w.VALUE, six.__version__, sys.base_prefix "
        "== os.environ['CONDA_PREFIX'], os.listdir('/opt/wherry/environments/environments'))"
    )
    python = {"conda": conda, "user_managed": False, "resolver": "rattler"}
    record, folder = node.run(show, image=BASE, python=python)
    assert record.exit_code == 0, (record, build_log(folder))
    value, six, its_own, *environments = said(folder).split()
    assert (value, six, its_own, len(environments)) == ("12", "1.16.0", "True", 1)
    lock = json.loads((folder / "files" / "environment" / "lock.json").read_text())
    assert {each["name"] for each in lock["conda"]} == {"python", "wherry-nowhere"}
    assert channel.url not in podman("history", "--no-trunc", built_image(folder))


def built_image(folder: Path) -> str:
    return build_log(folder).split("keeping the image ")[1].split()[0]


def test_images_are_pruned_unless_something_uses_them(
    node: Node, podman: Podman, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"FROM {BASE}\nRUN echo {uuid4()} > /made\n"
    first, _ = node.run("print(1)", dockerfile=text)
    assert first.exit_code == 0
    key = key_of(text, None, None)[:32]

    def pruned(*words: str) -> list[str]:
        assert pruning.main([*words, "--root", f"{os.environ['WHERRY_CACHE']}/environments"]) == 0
        return [each["key"] for each in json.loads(capsys.readouterr().out)["removed"]]

    assert key not in pruned("--older-than", "1d")
    assert built.main() == 0
    (image,) = [
        each for each in json.loads(capsys.readouterr().out)["items"] if each["kind"] == "image"
    ]
    assert (image["key"], image["size"] > 0) == (key, True)
    waits = "import os, time; print(1, flush=True)\nwhile not os.path.exists('go'): time.sleep(0.1)"
    handle, folder = node.start(waits, dockerfile=text)
    until(lambda: (folder / "std_log.txt").exists() and said(folder) == "1\n")
    assert key not in pruned("--all")
    (folder / "work" / "go").touch()
    assert node.end_of(handle).exit_code == 0
    until(lambda: key in pruned("--all"))
    assert key not in podman("images")


def test_caches_that_share_an_engine_leave_each_others_images(
    node: Node, podman: Podman, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = f"FROM {BASE}\nRUN echo {uuid4()} > /made\n"
    key = key_of(text, None, None)[:32]
    mine, other = os.environ["WHERRY_CACHE"], str(tmp_path / "other")

    def prune(cache: str) -> int:
        root = f"{cache}/environments"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            pruning.main(["--all", "--root", root])
        return sum(each["key"] == key for each in json.loads(printed.getvalue())["removed"])

    assert node.run("print(1)", dockerfile=text)[0].exit_code == 0
    assert prune(other) == 0
    assert podman("images").count(key) == 1
    monkeypatch.setenv("WHERRY_CACHE", other)
    _, folder = node.run("print(1)", dockerfile=text)
    assert not [*folder.glob("build_log*")]  # found, and given a second name
    assert podman("images").count(key) == 2
    until(lambda: prune(mine) == 1)
    assert podman("images").count(key) == 1
    _, folder = node.run("print(1)", dockerfile=text)
    assert (said(folder), [*folder.glob("build_log*")]) == ("1\n", [])
    until(lambda: prune(other) == 1)
    assert key not in podman("images")


def test_images_beyond_the_limit_go_with_the_next_build(node: Node, podman: Podman) -> None:
    texts = [f"FROM {BASE}\nRUN echo {uuid4()} > /made\n" for _ in range(2)]
    keys = [key_of(text, None, None)[:32] for text in texts]
    for text in texts:
        docker = {"enabled": True, "dockerfile": text}
        handle, folder = node.submit(_launch(["cat", "/made"], docker, limit=0))
        assert node.end_of(handle).exit_code == 0
    assert f"removed wherry-environment:{keys[0]}" in build_log(folder)
    listed = podman("images")
    assert keys[0] not in listed
    assert keys[1] in listed
    handle, folder = node.submit(_launch(["cat", "/made"], docker, limit=0))
    assert node.end_of(handle).exit_code == 0
    assert not list(folder.glob("build_log*"))  # what is there already makes no room


def test_what_goes_wrong_is_one_sentence_and_the_next_run_works(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**docker: Any) -> str:
        record, _ = node.run("print(1)", **docker)
        assert record.exit_code is None
        return str(record.setup_error)

    missing = refused(image="localhost/not-there:1")
    assert "the image 'localhost/not-there:1' of environment 'boxed' is not on" in missing
    failed = refused(dockerfile=f"FROM {BASE}\nRUN echo so far; exit 7\n")
    assert "the image of environment 'boxed' cannot be built" in failed
    assert "RUN echo so far; exit 7" in failed
    assert "'--pid=host', which is not taken" in refused(image=BASE, arguments=["--pid=host"])
    program = refused(image=BASE, program="no-such-program")
    assert "there is no program 'no-such-program' in the image" in program
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        assert "engine at unix:///nowhere.sock" in refused(image=BASE)
    record, folder = node.run("print(1)", image=BASE)
    assert (record.exit_code, said(folder)) == (0, "1\n")


def test_several_processes_share_a_container(node: Node) -> None:
    code = (
        "import os, sys, time\n"
        "rank = os.environ['RANK']; print(rank, flush=True)\n"
        "if rank == '0': open('said', 'w').close(); sys.exit()\n"
        "while not os.path.exists('said'): time.sleep(0.01)\n"
        "sys.exit(1)"
    )
    launch = _launch(["python3", "-c", code], {"enabled": True, "image": BASE})
    manifest = json.loads(launch.files["manifest.json"])
    manifest["ranks"] = {
        "node": 0,
        "type": "pytorch",
        "hosts": ["127.0.0.1"],
        "names": ["here"],
        "roles": [["worker", "worker"]],
    }
    files = {**launch.files, "manifest.json": json.dumps(manifest).encode()}
    handle, folder = node.submit(dataclasses.replace(launch, files=files))
    record = node.end_of(handle)
    assert record.exit_code == 1
    assert said(folder) == "0\n"
    assert (folder / "std_log_process_1.txt").read_text() == "1\n"
