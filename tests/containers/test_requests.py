"""What an engine is asked for, without one."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from wherry.containers import gpus
from wherry.containers.arguments import parse_arguments
from wherry.containers.container import Container, status_of
from wherry.containers.context import Context
from wherry.containers.engine import Engine, find
from wherry.containers.error import ContainerError, EngineError
from wherry.containers.images import progress_line, with_address
from wherry.containers.request import Request
from wherry.containers.sizes import parse_size


def body(docker: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "attempt_id": "a1",
        "image": "sha256:1",
        "argv": ["python3", "train.py"],
        "env": {"PYTHONPATH": "/lib"},
        "docker": docker or {},
        "work": "/a/work",
        "log": "/a/log",
        "end": "/a/end",
        "user": "1000:100",
        "writable": ["/a"],
        "readable": ["/lib"],
    }
    return Request(**{**given, **others}).body()


def test_a_context_is_sent_as_it_is_and_links_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "context"
    folder.mkdir()
    (tmp_path / "secret").write_text("outside")
    (folder / "link").symlink_to(tmp_path / "secret")
    for name in (".Dockerfile", "Dockerfile", ".dockerignore"):
        (folder / name).write_text("as it is")
    context = Context(str(folder), {"Dockerfile": b"FROM base"}, str(tmp_path))
    with context.archive() as pieces:
        data = io.BytesIO(b"".join(pieces))
    with tarfile.open(fileobj=data) as tar:
        kept = {os.path.normpath(each.name): each for each in tar.getmembers()}
    assert set(kept) == {".", ".Dockerfile", "Dockerfile", ".dockerignore", "link"}
    assert kept["link"].issym()
    assert kept["Dockerfile"].size == len(b"FROM base")


def test_nobody_gets_more_than_the_node_has() -> None:
    host = body(cpus=[0, 3], memory_bytes=1 << 30)["HostConfig"]
    assert (host["CpusetCpus"], host["Memory"], host["MemorySwap"]) == ("0,3", 1 << 30, 1 << 30)
    greedy = {"arguments": ["--memory=8g", "--memory-swap=16g", "--cpuset-cpus=0-7"]}
    assert body(greedy, cpus=[0, 3], memory_bytes=1 << 30)["HostConfig"] == host
    modest = body({"arguments": ["--memory=64m"]}, memory_bytes=1 << 30)["HostConfig"]
    assert modest["Memory"] == modest["MemorySwap"] == 64 << 20
    assert "Memory" not in body()["HostConfig"]


def test_the_command_has_its_folder_its_user_and_its_label() -> None:
    asked = body()
    assert asked["Cmd"] == ["/a/log", "/a/end", "python3", "train.py"]
    assert (asked["User"], asked["WorkingDir"]) == ("1000:100", "/a/work")
    assert asked["Labels"]["wherry.attempt"] == "a1"
    mounts = asked["HostConfig"]["Mounts"]
    assert [(each["Source"], each["ReadOnly"]) for each in mounts] == [
        ("/a", False),
        ("/lib", True),
    ]
    assert asked["HostConfig"]["NetworkMode"] == "host"


def test_modules_of_the_image_come_behind_those_of_the_run() -> None:
    assert "PYTHONPATH=/lib:/app" in body(own=["PATH=/bin", "PYTHONPATH=/app"])["Env"]


def test_arguments_are_laid_over() -> None:
    words = ["-v", "/data:/data:ro", "--cpus=2", "--memory 2g", "--ipc", "host", "-e", "A=1"]
    asked = body({"shm_size": "2g", "arguments": words})
    host = asked["HostConfig"]
    assert host["ShmSize"] == 2 << 30
    assert host["Mounts"][-1] == {
        "Type": "bind", "Source": "/data", "Target": "/data", "ReadOnly": True,
    }  # fmt: skip
    assert (host["NanoCpus"], host["Memory"], host["IpcMode"]) == (2_000_000_000, 2 << 30, "host")
    assert "A=1" in asked["Env"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pid=host"], "'--pid=host', which is not taken"),
        (["--memory"], "its value is missing"),
        (["--memory=much"], "'much', which is no size"),
        (["--cpus=two"], "'two' where a number belongs"),
        (["-v", "data:/data"], "like /data:/data"),
        (["--ulimit", "nofile"], "like nofile=65536:65536"),
    ],
)
def test_arguments_that_cannot_be_used(words: list[str], said: str) -> None:
    with pytest.raises(ContainerError, match=said):
        parse_arguments(words)


@pytest.mark.parametrize(
    ("text", "size"), [("2g", 2 << 30), ("512m", 512 << 20), ("1.5GB", 3 << 29), ("100", 100)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "shm_size") == size


def test_the_gpus_of_the_place_are_counted_from_0_inside() -> None:
    asked = body(env={"CUDA_VISIBLE_DEVICES": "2,3"})
    assert asked["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", "Capabilities": [["gpu"]], "DeviceIDs": ["2", "3"]}
    ]
    assert "CUDA_VISIBLE_DEVICES=0,1" in asked["Env"]
    described = body(env={"CUDA_VISIBLE_DEVICES": "2"}, cdi=True)["HostConfig"]["DeviceRequests"]
    assert described == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=2"]}]
    assert "DeviceRequests" not in body(env={"CUDA_VISIBLE_DEVICES": ""})["HostConfig"]


@pytest.mark.parametrize(
    ("wanted", "devices"),
    [
        (None, ["7"]), (True, ["7"]), (False, []), ("all", ["all"]), (2, ["0", "1"]),
        ("2", ["0", "1"]), ("device=1,3", ["1", "3"]), (["GPU-a"], ["GPU-a"]),
    ],
)  # fmt: skip
def test_gpus_as_people_ask_for_them(wanted: Any, devices: list[str]) -> None:
    assert gpus.parse_gpus(wanted, ["7"]) == devices


def test_an_exit_code_may_tell_of_a_signal() -> None:
    assert os.WTERMSIG(status_of(137)) == 9
    assert os.WEXITSTATUS(status_of(255)) == 255
    assert os.WEXITSTATUS(status_of(1)) == 1


def test_a_registry_has_its_address_apart() -> None:
    private = {"address": "https://reg.example.com/"}
    assert with_address("team/train:1", private) == "reg.example.com/team/train:1"
    assert with_address("reg.example.com/train:1", private) == "reg.example.com/train:1"
    assert with_address("train:1", {}) == "train:1"


def test_a_context_is_a_folder_with_files_laid_over_it(tmp_path: Path) -> None:
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM nothing")
    (folder / "data").write_text("1")
    context = Context(str(folder), {"Dockerfile": b"FROM base"}, str(tmp_path))
    with context.archive() as pieces:
        data = io.BytesIO(b"".join(pieces))
    with tarfile.open(fileobj=data) as tar:
        assert sorted(name.lstrip("./") for name in tar.getnames()) == ["", "Dockerfile", "data"]
        found = tar.extractfile("Dockerfile")
        assert found is not None
        assert found.read() == b"FROM base"
    assert not Context("", {}, str(tmp_path)).has_dockerfile()


def test_progress_is_what_a_reader_wants() -> None:
    assert progress_line({"stream": "STEP 1/2: FROM base\n"}) == "STEP 1/2: FROM base"
    assert progress_line({"status": "Downloading", "id": "1", "progressDetail": {"total": 1}}) == ""
    assert progress_line({"status": "Pull complete", "id": "1"}) == "1: Pull complete"


def test_no_engine_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="cannot be used here; it begins with unix"):
        find({"DOCKER_HOST": "ssh://elsewhere"})
    gone = find({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    with pytest.raises(ContainerError, match=r"none\.sock on .* does not answer .* start Docker"):
        gone.call("GET", "/version")
    assert gone.name() == "the container engine"
    assert not Engine("tcp://127.0.0.1:2375").rootless


class Removing:
    """An engine that says, one after the other, what becomes of a container."""

    def __init__(self, *states: dict[str, Any] | None) -> None:
        self._states = list(states)

    def call(self, method: str, path: str, **_options: Any) -> dict[str, Any]:
        if method == "POST":
            return {"StatusCode": 0}
        state = self._states.pop(0)
        if state is None:
            raise EngineError(404, "no such container")
        return {"State": state}


def test_a_container_that_is_removed_has_not_ended_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherry.containers.container._AGAIN_S", 0.0)

    def code(*states: dict[str, Any] | None) -> int | None:
        engine: Any = Removing(*states)
        return Container(engine, "a1").wait()

    assert code({"Status": "exited", "ExitCode": 0}) == 0
    assert code({"Status": "exited", "ExitCode": 137}) == 137
    assert code({"Status": "removing", "ExitCode": 0}, None) is None
    assert code(None) is None
