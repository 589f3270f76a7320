"""Run by the Python of rattler's own environment, not imported: ``rattling.py REQUEST ANSWER``.

The request says what to do, ``solve`` or ``install``; the answer holds records, or why not.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
from typing import Any, Dict, List

_KEPT = ("depends", "constrains", "noarch", "size", "python_site_packages_path")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    act = {"solve": _solve, "install": _install}[request["act"]]
    try:
        answer = asyncio.run(act(request))
    except Exception as error:  # noqa: BLE001 - whatever rattler says is for the user
        answer = {"kind": type(error).__name__, "error": str(error)}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer, file)


async def _solve(request: Dict[str, Any]) -> Dict[str, Any]:
    import rattler

    _say("resolving")
    when = request.get("as_of")
    records = await rattler.solve(
        sources=[rattler.Channel(url) for url in request["channels"]],
        specs=request["specs"],
        gateway=rattler.Gateway(cache_dir=request["repodata"]),
        virtual_packages=rattler.VirtualPackage.detect(),
        exclude_newer=datetime.datetime.fromisoformat(when[:-1] + "+00:00") if when else None,
        timeout=datetime.timedelta(seconds=request["timeout_s"]),
    )
    return {"records": [_to_json(record) for record in records]}


async def _install(request: Dict[str, Any]) -> Dict[str, Any]:
    import rattler

    records = [_from_json(each) for each in request["records"]]
    await rattler.install(
        records=records,
        target_prefix=request["prefix"],
        cache_dir=request["packages"],
        reporter=_Reporter(len(records)),
        execute_link_scripts=True,  # as conda does
    )
    return {}


def _to_json(record: Any) -> Dict[str, Any]:
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "build_number": record.build_number,
        "subdir": str(record.subdir),
        "file": record.file_name,
        "url": record.url,
        "channel": record.channel,
        "sha256": record.sha256.hex() if record.sha256 else None,
        "md5": record.md5.hex() if record.md5 else None,
        "depends": list(record.depends),
        "constrains": list(record.constrains),
        "noarch": _noarch(record),
        "size": record.size,
        "python_site_packages_path": record.python_site_packages_path,
    }


def _noarch(record: Any) -> Any:
    if record.noarch.python:
        return "python"
    return "generic" if record.noarch.generic else None


def _from_json(each: Dict[str, Any]) -> Any:
    import rattler

    record = rattler.PackageRecord(
        name=each["name"],
        version=each["version"],
        build=rattler.BuildString(each["build"]),
        build_number=each["build_number"],
        subdir=each["subdir"],
        sha256=bytes.fromhex(each["sha256"]) if each.get("sha256") else None,
        md5=bytes.fromhex(each["md5"]) if each.get("md5") else None,
        **{name: each.get(name) for name in _KEPT},
    )
    return rattler.RepoDataRecord(record, each["file"], each["url"], each["channel"])


class _Reporter:
    """Tells how far it is, one line each time something is done."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._fetched: List[int] = []
        self._linked: List[int] = []
        self._scripts: List[str] = []

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        return operation

    def on_populate_cache_complete(self, cache_entry: int) -> None:
        self._fetched.append(cache_entry)
        _say(f"downloading {len(self._fetched)} of {self._total}")

    def on_link_start(self, operation: int, package_name: str) -> int:
        return operation

    def on_link_complete(self, index: int) -> None:
        self._linked.append(index)
        _say(f"linking {len(self._linked)} of {self._total}")

    def on_post_link_start(self, package_name: str, script_path: str) -> int:
        self._scripts.append(f"{script_path} of {package_name}")
        return len(self._scripts) - 1

    def on_post_link_complete(self, index: int, success: bool) -> None:
        if not success:
            sys.stdout.write(f"warning: the link script {self._scripts[index]} failed\n")

    def __getattr__(self, name: str) -> Any:
        """Of the rest nothing is told."""
        return lambda *arguments, **named: 0


def _say(sentence: str) -> None:
    sys.stdout.write(f"== {sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
