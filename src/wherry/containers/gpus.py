"""Which GPUs a container gets, as Docker's interface asks for them."""

from __future__ import annotations

import glob
from typing import Any, Dict, List, Sequence, Tuple

from .error import ContainerError

_CDI = ("/etc/cdi/nvidia*", "/var/run/cdi/nvidia*")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def parse_gpus(wanted: Any, placed: Sequence[str]) -> List[str]:
    """The devices' names, or ``all``: what the environment says, else those of the run's place."""
    if wanted is None or wanted is True:
        return list(placed)
    if wanted in (False, 0, "0", "none", ""):
        return []
    if wanted == "all" or isinstance(wanted, int):
        return ["all"] if wanted == "all" else [str(number) for number in range(wanted)]
    if isinstance(wanted, (list, tuple)):
        return [str(each) for each in wanted]
    text = str(wanted).strip('"')
    text = text[len("device=") :] if text.startswith("device=") else text
    if text.isdigit():
        return [str(number) for number in range(int(text))]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ContainerError(f"docker.gpus is {wanted!r}; write all, a number or device=0,1")
    return names


def request(devices: Sequence[str], *, cdi: bool) -> List[Dict[str, Any]]:
    """``DeviceRequests``: by the vendor's description of devices where there is one."""
    if not devices:
        return []
    if cdi:
        return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={name}" for name in devices]}]
    which: Dict[str, Any] = {"Count": -1} if "all" in devices else {"DeviceIDs": list(devices)}
    return [{"Driver": "", "Capabilities": [["gpu"]], **which}]


def has_cdi() -> bool:
    return any(glob.glob(pattern) for pattern in _CDI)


def visible(devices: Sequence[str]) -> Dict[str, str]:
    """What the command is told: in a container the devices it got are counted from 0."""
    if "all" in devices:
        return {}
    if all(name.isdigit() for name in devices):
        return {_VISIBLE: ",".join(str(number) for number in range(len(devices)))}
    return {_VISIBLE: ",".join(devices)}


def placed(variables: Dict[str, str]) -> Tuple[str, ...]:
    """The devices that the run was given."""
    return tuple(name for name in variables.get(_VISIBLE, "").split(",") if name)
