"""Slots of this machine: cut once, counted, and gone without a trace."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.drivers import groups
from wherry.drivers.base import Launch
from wherry.drivers.site_local import LocalSite

TOTAL = Resources(4, 400 << 20, 2)


@pytest.fixture
def site(tmp_path: Path) -> LocalSite:
    return LocalSite(tmp_path / "nodes", TOTAL, ["0", "1"])


def size(site: LocalSite, name: str) -> object:
    return next(each for each in site.sizes() if each.name == name)


def test_a_slot_is_cut_once_and_its_room_comes_back(site: LocalSite, tmp_path: Path) -> None:
    half = size(site, "local-2")
    assert site.room(half) == 2  # type: ignore[arg-type]
    first = site.make("a", half)  # type: ignore[arg-type]
    assert site.make("a", half) == first  # type: ignore[arg-type]
    again = LocalSite(tmp_path / "nodes", TOTAL, ["0", "1"])
    assert set(again.machines()) == {"a"}
    assert again.room(half) == 1  # type: ignore[arg-type]
    again.make("b", half)  # type: ignore[arg-type]
    with pytest.raises(TargetUnavailableError, match="no room for another node"):
        again.make("c", half)  # type: ignore[arg-type]
    for node in ("a", "a", "b", "never"):
        site.remove(node)
    assert site.room(half) == 2  # type: ignore[arg-type]
    assert [path.name for path in (tmp_path / "nodes").iterdir()] == [".slots.lock"]


def test_promised_slots_of_any_size_count_as_what_they_take(site: LocalSite) -> None:
    one, half = size(site, "local-1"), size(site, "local-2")
    assert site.taken_by([half, half], one) == 4  # type: ignore[list-item, arg-type]
    assert site.taken_by([one], half) == 1  # type: ignore[list-item, arg-type]
    assert site.taken_by([], half) == 0  # type: ignore[arg-type]


def test_slots_share_no_gpu(site: LocalSite) -> None:
    one = size(site, "local-2-gpu1")
    held = [site.make(node, one).gpus for node in ("a", "b")]  # type: ignore[arg-type]
    assert held == [("0",), ("1",)]
    for node in ("a", "b"):
        site.remove(node)


def test_what_still_runs_on_a_slot_ends_with_it(site: LocalSite, tmp_path: Path) -> None:
    machine = site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    driver = site.driver("a", machine)
    driver.submit(Launch("attempt", ["/bin/sh", "-c", "echo $$ > {dir}/pid; exec sleep 600"]))
    pid = tmp_path / "nodes" / "a" / "attempt" / "pid"
    while not pid.exists() or not pid.read_text():
        os.sched_yield()
    number = int(pid.read_text())
    site.remove("a")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where control groups can be made, as far as files go."""
    parent = tmp_path / "groups"
    parent.mkdir()
    monkeypatch.setattr(groups, "_parents", lambda _root, _own: [(parent, "memory.max")])
    monkeypatch.setattr(groups, "_limit", lambda _folder, _file, _bytes: None)
    return parent


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Who makes a control group is killed right after; to be undone."""
    make = groups.make

    def die(*given: object) -> list[str]:
        make(*given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(groups, "make", die)
        yield patched


def test_a_slot_cut_by_one_who_was_killed_leaves_no_group(
    site: LocalSite, system: Path, dying: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    assert len(list(system.iterdir())) == 1
    site.remove("a")
    assert list(system.iterdir()) == []


def test_one_who_comes_after_finishes_the_slot(
    site: LocalSite, system: Path, tmp_path: Path, dying: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    dying.undo()
    site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    assert limits(tmp_path, "a")["groups"] == [str(each) for each in system.iterdir()]


def test_groups_go_when_the_server_stops_and_come_back(
    site: LocalSite, system: Path, tmp_path: Path
) -> None:
    machine = site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    [group] = system.iterdir()
    site.close()
    assert not group.exists()
    LocalSite(tmp_path / "nodes", TOTAL).driver("a", machine)
    assert group.is_dir()
    assert limits(tmp_path, "a")["memory_bytes"] == 100 << 20


def test_groups_that_a_deleted_home_left_go_when_it_is_there_again(
    site: LocalSite, system: Path, tmp_path: Path
) -> None:
    (system / "wherry-of-another").mkdir()
    site.make("a", size(site, "local-1"))  # type: ignore[arg-type]
    shutil.rmtree(tmp_path / "nodes")
    site.make("b", size(site, "local-1"))  # type: ignore[arg-type]
    left = sorted(each.name for each in system.iterdir())
    assert [name.rpartition("-")[2] for name in left] == ["b", "another"]


def limits(tmp_path: Path, node: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "nodes" / node / ".limits.json").read_text())
    return found


def test_groups_are_made_where_they_can_be(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("3:memory:/us\n0::/us\n")
    parent = tmp_path / "root" / "memory" / "us"
    parent.mkdir(parents=True)
    [made] = groups.make("node", 1000, tmp_path / "root", own)
    assert Path(made) == parent / "node"
    assert (parent / "node" / "memory.limit_in_bytes").read_text() == "1000"
    own.write_text("0::/us/session\n")
    below = tmp_path / "root" / "us"
    below.mkdir()
    (below / "cgroup.subtree_control").write_text("cpu memory\n")
    [made] = groups.make("node", 1000, tmp_path / "root", own)
    assert (Path(made) / "memory.max").read_text() == "1000"
    assert Path(made).parent == below
    (below / "cgroup.subtree_control").write_text("cpu\n")
    assert groups.make("other", 1000, tmp_path / "root", own) == []
    assert json.dumps(groups.make("none", 0)) == "[]"


def test_a_home_outlives_its_node_and_goes_when_it_is_forgotten(
    site: LocalSite, tmp_path: Path
) -> None:
    one = size(site, "local-1")
    first = site.make("a", one, "h")  # type: ignore[arg-type]
    home = Path(first.config["home"])
    (home / "notes").write_text("kept")
    site.remove("a")
    assert site.make("b", one, "h").config["home"] == str(home)  # type: ignore[arg-type]
    assert (home / "notes").read_text() == "kept"
    assert "home" not in site.make("c", one).config  # type: ignore[arg-type]
    site.remove("b")
    for _ in range(2):
        site.forget("h")
    assert list((tmp_path / "homes").iterdir()) == []
    with pytest.raises(ValueError, match="not the name of a home"):
        site.forget("../nodes")


def test_who_sits_before_a_notebook_takes_no_room_from_runs(site: LocalSite) -> None:
    half, gpu = size(site, "local-2"), size(site, "local-2-gpu1")
    site.make("a", half, "h")  # type: ignore[arg-type]
    assert site.room(half) == 2  # type: ignore[arg-type]
    site.make("b", half)  # type: ignore[arg-type]
    site.make("c", half)  # type: ignore[arg-type]
    site.make("d", gpu, "i")  # type: ignore[arg-type]
    site.make("e", gpu, "j")  # type: ignore[arg-type]
    with pytest.raises(TargetUnavailableError, match="no room"):
        site.make("f", gpu, "k")  # type: ignore[arg-type]
    for node in "abcde":
        site.remove(node)
