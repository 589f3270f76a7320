"""``python -m wherry.runner.built``: what was built on a node, in its cache and its engine."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timezone

from wherry.builds import default_root
from wherry.builds import prune as environments
from wherry.containers import pruning as images
from wherry.containers.engine import find
from wherry.containers.error import ContainerError, EngineError

from .light import TYPE_CHECKING
from .pruning import named

if TYPE_CHECKING:
    from typing import Any, Dict


def main() -> int:
    root = default_root()
    items = [_item("environment", each) for each in environments.entries(root)]
    trouble = ""
    try:
        engine = find(os.environ)
        locks = os.path.join(os.path.dirname(root), "images")
        items += [_item("image", each) for each in images.entries(engine, locks)]
    except (ContainerError, EngineError) as error:
        trouble = str(error) if named() else ""  # most nodes have none
    items.sort(key=lambda item: str(item["used_at"]), reverse=True)
    json.dump({"items": items, "trouble": trouble}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


def _item(kind: str, entry: Any) -> Dict[str, Any]:
    used_at = datetime.fromtimestamp(entry.used_at, timezone.utc)
    return {
        "kind": kind,
        "name": entry.name,
        "key": entry.key,
        "size": entry.size,
        "used_at": used_at.isoformat(),
    }


if __name__ == "__main__":
    sys.exit(main())
