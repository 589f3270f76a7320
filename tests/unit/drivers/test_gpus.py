from __future__ import annotations

import os
from pathlib import Path

import pytest

from wherry.drivers import gpus
from wherry.drivers.gpus import Gpu, parse_smi, usable

H200 = "0, GPU-d5b74f82-3e02-5eb2-f917-71f1806e33a8, NVIDIA H200, 143771\n"
TWO = """\
0, GPU-11111111-aaaa-bbbb-cccc-000000000000, NVIDIA GeForce RTX 3090, 24576
1, GPU-22222222-aaaa-bbbb-cccc-000000000000, NVIDIA GeForce GTX 1080 Ti, 11264
"""


def test_what_nvidia_smi_says() -> None:
    assert parse_smi(H200) == [
        Gpu(0, "GPU-d5b74f82-3e02-5eb2-f917-71f1806e33a8", "NVIDIA H200", 150754820096)
    ]
    assert [gpu.name for gpu in parse_smi(TWO)] == [
        "NVIDIA GeForce RTX 3090",
        "NVIDIA GeForce GTX 1080 Ti",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "index, uuid, name, memory.total [MiB]\n",
    ],
)
def test_what_is_no_list_of_gpus(text: str) -> None:
    assert parse_smi(text) == []


def test_a_gpu_that_does_not_tell_its_memory() -> None:
    assert parse_smi("0, GPU-1, NVIDIA GB10, [N/A]\n") == [Gpu(0, "GPU-1", "NVIDIA GB10", 0)]


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["0", "1"]),
        ("", []),
        ("-1", []),
        ("1", ["1"]),
        ("1,0", ["1", "0"]),
        ("0,7,1", ["0"]),
        ("0,0", ["0"]),
        ("GPU-2222", ["GPU-2222"]),
        ("GPU-", []),
        ("GPU-9", []),
        ("MIG-GPU-1111/1/0", ["MIG-GPU-1111/1/0"]),
        ("NoDevFiles", []),
    ],
)
def test_what_may_be_handed_out(visible: str | None, names: list[str]) -> None:
    assert usable(parse_smi(TWO), visible) == names


def test_the_program_is_asked_where_the_library_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{H200.strip()}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "_LIBRARIES", ("libnosuchthing.so",))
    assert [gpu.name for gpu in gpus.find()] == ["NVIDIA H200"]
    program.write_text("#!/bin/sh\necho trouble; exit 9\n")
    assert gpus.find() == []


def test_no_driver_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpus, "_LIBRARIES", ("libnosuchthing.so",))
    assert gpus.find() == []
