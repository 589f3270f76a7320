"""``python -m wherry.builds SPEC.json --root DIR``: build ahead, lock, list, prune."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import signal
import sys
from typing import Any, Dict, List, Optional

from wherry.builds.cache import default_root
from wherry.builds.error import BuildCanceled, BuildError
from wherry.builds.prepare import prepare
from wherry.builds.prepared import Prepared
from wherry.builds.prune import entries, prune

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def main(words: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words and not words[0].startswith("-") and words[0] not in _ACTS:
        words = ["build", *words]
    options = parser().parse_args(words)
    try:
        answer = _ACTS[options.act](options)
    except BuildCanceled as error:
        sys.stderr.write(f"error: {error}\n")
        return 130
    except BuildError as error:
        sys.stderr.write(f"error: {error.text()}\n")
        return 1
    json.dump(answer, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="wherry.builds", description=__doc__)
    acts = made.add_subparsers(dest="act", required=True)
    for act in _ACTS:
        each = acts.add_parser(act)
        each.add_argument(
            "--root", default=default_root(), help="the folder in which environments live"
        )
        if act in ("build", "lock"):
            each.add_argument("spec", help="a file that holds the specification, or - for stdin")
            each.add_argument("--uv", help="the program uv, where it is not to be looked for")
            each.add_argument("--folder", help="where files named in the pip section are")
            each.add_argument("--limit", type=_size, help="what the cache may hold, e.g. 20GB")
        if act == "prune":
            each.add_argument("--older-than", type=_age, help="not used for so long, e.g. 30d")
            each.add_argument("--limit", type=_size, help="remove until it holds this, e.g. 20GB")
            each.add_argument("--all", action="store_true", help="everything that nothing uses")
    return made


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 500MB or 20GB")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age: write 12h or 30d")
    return float(found[1]) * _SECONDS[found[2]]


def _build(options: argparse.Namespace) -> Dict[str, Any]:
    return _prepare(options).to_json()


def _lock(options: argparse.Namespace) -> Any:
    return _prepare(options).lock


def _prepare(options: argparse.Namespace) -> Prepared:
    ended: List[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, frame: ended.append(got))
    return prepare(
        _read(options.spec),
        options.root,
        log=_to_stderr,
        canceled=lambda: bool(ended),
        uv=options.uv,
        folder=options.folder,
        limit=options.limit,
    )


def _read(path: str) -> Dict[str, Any]:
    try:
        if path == "-":
            found = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
    except OSError as error:
        raise BuildError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BuildError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BuildError(f"{path} does not hold an object")
    return found


def _to_stderr(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.flush()


def _list(options: argparse.Namespace) -> Any:
    return [dataclasses.asdict(each) for each in entries(options.root)]


def _prune(options: argparse.Namespace) -> Any:
    return dataclasses.asdict(prune(options.root, options.older_than, options.limit, options.all))


_ACTS = {"build": _build, "lock": _lock, "list": _list, "prune": _prune}

if __name__ == "__main__":
    sys.exit(main())
