"""``python -m benchmarks [name ...]``: the whole table, or the parts named."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

import wherry
from benchmarks import (
    clients,
    clusters,
    containers,
    environments,
    files,
    flat,
    instances,
    logs,
    metrics,
    proxy,
    runs,
    snapshots,
    ssh,
    startup,
)
from benchmarks.measure import Row, print_table

PARTS = {
    "runs": runs.rows,
    "startup": startup.rows,
    "snapshots": snapshots.rows,
    "metrics": metrics.rows,
    "logs": logs.rows,
    "files": files.rows,
    "flat": flat.rows,
    "clients": clients.rows,
    "containers": containers.rows,
    "environments": environments.rows,
    "clusters": clusters.rows,
    "ssh": ssh.rows,
    "proxy": proxy.rows,
    "instances": instances.rows,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(
            f"there is no benchmark {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr
        )
        return 2
    # As in an installed package, also where Python is told to write no bytecode.
    compileall.compile_dir(Path(wherry.__file__).parent, quiet=1)
    found: list[Row] = []
    for name in names or PARTS:
        print(f"measuring {name} ...", file=sys.stderr)
        found += PARTS[name]()
    print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
