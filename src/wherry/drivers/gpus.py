"""The NVIDIA GPUs of this machine: from the driver's own library, else from ``nvidia-smi``."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_QUERY = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
_TIMEOUT_S = 20
_TEXT = 96


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    name: str
    memory_bytes: int


def find() -> list[Gpu]:
    """Every GPU that the driver shows; none where there is no driver."""
    found = _from_library()
    return _from_program() if found is None else found


def usable(gpus: Sequence[Gpu], visible: str | None) -> list[str]:
    """What may be handed out by ``CUDA_VISIBLE_DEVICES``, given that variable's own value here.

    As CUDA reads it: a list of indices or UUIDs (or their beginnings), up to the first that names
    nothing; MIG devices go by UUID only.
    """
    if visible is None:
        return [str(gpu.index) for gpu in gpus]
    found: list[str] = []
    for name in (part.strip() for part in visible.split(",")):
        if not _names_one(name, gpus) or name in found:
            break
        found.append(name)
    return found


def parse_smi(text: str) -> list[Gpu]:
    """The answer of ``nvidia-smi`` to the query above; lines that are none of it are skipped."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 4 and fields[0].isdigit():
            mebibytes = int(fields[3]) if fields[3].isdigit() else 0
            found.append(Gpu(int(fields[0]), fields[1], fields[2], mebibytes << 20))
    return found


def _names_one(name: str, gpus: Sequence[Gpu]) -> bool:
    if name.isdigit():
        return any(gpu.index == int(name) for gpu in gpus)
    if name.startswith("MIG-"):
        return bool(gpus)
    return name.startswith("GPU-") and sum(gpu.uuid.startswith(name) for gpu in gpus) == 1


def _from_program() -> list[Gpu]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_smi(done.stdout) if done.returncode == 0 else []


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def _from_library() -> list[Gpu] | None:
    """None where the library is missing or will not start."""
    library = _load()
    if library is None or library.nvmlInit_v2() != 0:
        return None
    try:
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return None
        found = (_describe(library, index) for index in range(count.value))
        return [gpu for gpu in found if gpu is not None]
    finally:
        library.nvmlShutdown()


def _load() -> ctypes.CDLL | None:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _describe(library: ctypes.CDLL, index: int) -> Gpu | None:
    """None for a GPU that has fallen off the bus."""
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
        return None
    uuid, name = ctypes.create_string_buffer(_TEXT), ctypes.create_string_buffer(_TEXT)
    memory = _Memory()
    failed = (
        library.nvmlDeviceGetUUID(handle, uuid, _TEXT)
        or library.nvmlDeviceGetName(handle, name, _TEXT)
        or library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    )
    if failed:
        return None
    return Gpu(index, uuid.value.decode(), name.value.decode(), int(memory.total))
