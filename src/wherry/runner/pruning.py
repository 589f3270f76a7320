"""``python -m wherry.runner.pruning --all``: makes room on a node, in its cache and its engine."""

from __future__ import annotations

import dataclasses
import json
import os
import sys

from wherry.builds.__main__ import parser
from wherry.builds.prune import prune
from wherry.containers.contexts import chosen
from wherry.containers.engine import find
from wherry.containers.error import ContainerError, EngineError
from wherry.containers.pruning import entries, prune_images

from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, List


def main(words: List[str]) -> int:
    options = parser().parse_args(["prune", *words])
    asked = (options.older_than, options.limit, options.all)
    answer: Dict[str, Any] = {**dataclasses.asdict(prune(options.root, *asked)), "trouble": ""}
    locks = os.path.join(os.path.dirname(options.root), "images")
    try:
        engine = find(os.environ)
        removed = prune_images(engine, locks, *asked)
        answer["removed"] += [dataclasses.asdict(each) for each in removed]
        answer["freed"] += sum(each.size for each in removed)
        answer["size"] += sum(each.size for each in entries(engine, locks))
    except (ContainerError, EngineError) as error:
        answer["trouble"] = str(error) if named() else ""  # most nodes have none
    json.dump(answer, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


def named() -> bool:
    try:
        return bool(chosen(os.environ))
    except ContainerError:
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
