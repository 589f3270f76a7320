"""``ps``, ``logs``, ``compare``, ``open`` and ``job`` over a control plane in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Runs, Wherry
from wherry.cli import browser
from wherry.cli import ps as pages
from wherry.cli.logs import _last_lines
from wherry.cli.metrics import difference, flat, number, short, summary
from wherry.cli.run_view import interpreter_of
from wherry.sdk.snapshot import Snapshot

ERROR = {
    "message": "it broke",
    "exception": "ValueError: no rows",
    "file": "train.py",
    "line": 12,
    "source": 'raise ValueError("no rows")',
    "tail": ["one", "two"],
}


def test_ps_says_what_runs_wait_for_and_why_they_failed(wherry: Wherry, runs: Runs) -> None:
    queued = runs.queued(experiment="churn")
    failed = runs.ended("Failed", ERROR)
    head, *rows = wherry("ps").out.splitlines()
    titles = "ID EXPERIMENT STATUS SUBMITTED DURATION TARGET MESSAGE"
    assert head.split() == titles.split()
    assert [row.split()[0] for row in rows] == [failed["id"], queued["id"]]
    assert "Failed" in rows[0]
    assert "it broke" in rows[0]
    assert "  now  " in rows[0]
    assert "waiting for 1 CPU on target 'local'" in rows[1]


def test_ps_filters(wherry: Wherry, runs: Runs) -> None:
    queued = runs.queued(experiment="churn")["id"]
    failed = runs.ended("Failed", ERROR)["id"]
    hidden = runs.ended("Completed")["id"]
    wherry("job", "archive", hidden)
    child = runs.ended("Completed", parent_id=failed)["id"]

    def ids(*arguments: str) -> list[str]:
        return wherry("ps", *arguments, "--query", "[].id", "-o", "tsv").out.split()

    assert ids() == [failed, queued]
    assert ids("--status", "failed") == [failed]
    assert ids("--status", "Failed", "--status", "Queued") == [failed, queued]
    assert ids("--experiment", "churn") == [queued]
    assert ids("-a") == [child, hidden, failed, queued]
    assert ids("--limit", "1") == ids("-n", "1") == [failed]
    assert "--limit" not in wherry("ps", "--limit", "1").err
    assert ids("--status", "Running") == []


def test_ps_of_nothing(wherry: Wherry) -> None:
    assert wherry("ps") == (0, "", "wherry: no runs in workspace w\n")
    assert wherry("ps", "-o", "json").out == "[]\n"
    result = wherry("logs")
    assert result.code == 1
    assert "hint: start one with: wherry run train.py" in result.err


def test_an_empty_workspace_tells_of_the_others(wherry: Wherry, runs: Runs) -> None:
    wherry("workspace", "create", "churn")
    first, second = wherry("ps").err.splitlines()
    assert first == "wherry: no runs in workspace w"
    assert second == (
        "wherry: there is also churn: 'wherry ps -w churn' looks there, "
        "'wherry workspace use churn' makes it the one in use"
    )
    assert "; there is also churn: " in wherry("logs").err
    assert wherry("-q", "ps").err == ""
    for other in range(6):
        wherry("workspace", "create", f"other{other}")
    said = wherry("ps").err
    assert "there is also churn, other0, other1, other2, other3 and 2 more: " in said
    assert "'wherry ps -w NAME' looks there" in said
    runs.ended("Completed")
    assert wherry("ps", "--status", "Failed").err == "wherry: no such runs in workspace w\n"


@pytest.mark.parametrize("workspace", ["w", "nope"])
def test_a_whole_id_is_found_in_any_workspace(
    wherry: Wherry, runs: Runs, tmp_path: Path, workspace: str
) -> None:
    wherry("workspace", "create", "churn")
    body = {"experiment": "e", "tags": {"a": "b"}}
    made = [
        runs.client.post("/workspaces/churn/runs/interactive", json={**body, **more})["id"]
        for more in ({}, {}, {"display_name": "nick"})
    ]
    child = runs.client.post(
        "/workspaces/churn/runs/interactive", json={**body, "parent_id": made[0]}
    )["id"]
    for run_id in (made[0], made[1]):
        runs.client.post(f"/runs/{run_id}/end", json={"status": "Completed", "error": None})
    runs.client.put(f"/runs/{made[0]}/files/outputs/a.txt", data=b"a")
    for command in (
        ["logs", made[0]],
        ["open", made[0]],
        ["compare", made[0], made[1]],
        ["job", "show", made[0]],
        ["job", "archive", made[0]],
        ["job", "restore", made[0]],
        ["job", "cancel", made[0]],
        ["job", "download", made[0], "-p", str(tmp_path / "got")],
        ["job", "delete", "--yes", made[1]],
    ):
        result = wherry("-w", workspace, *command)
        assert result.code == 0, result.err
    listing = ["job", "list", "--parent", made[0], "--query", "[].id", "-o", "tsv"]
    assert wherry("-w", workspace, *listing).out.split() == [child]
    assert wherry("-w", workspace, "job", "show", made[0][:12]).code == 1
    assert wherry("-w", workspace, "job", "show", "nick").code == 1
    assert wherry("-w", "churn", "job", "show", "nick").code == 0


def test_all_pages_are_fetched(wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 3)
    made = [runs.ended("Completed")["id"] for _ in range(7)]
    printed = wherry("job", "list", "--limit", "0", "--query", "[].id", "-o", "tsv").out.split()
    assert printed == made[::-1]


def test_a_list_that_is_cut_says_so(wherry: Wherry, runs: Runs) -> None:
    made = [runs.ended("Completed")["id"] for _ in range(21)]
    result = wherry("ps", "--query", "[].id", "-o", "tsv")
    assert result.out.split() == made[:0:-1]
    assert result.err == "wherry: there are more; --limit shows them\n"
    assert "--limit" not in wherry("job", "list").err


def test_job_list_filters(wherry: Wherry, runs: Runs) -> None:
    first = runs.queued(tags={"data": "v1"})["id"]
    second = runs.queued(tags={"data": "v2", "best": ""})["id"]
    archived = runs.ended("Completed")["id"]
    wherry("job", "archive", archived)

    def ids(*arguments: str) -> list[str]:
        result = wherry("job", "list", *arguments, "--query", "[].id", "-o", "tsv")
        assert result.code == 0, result.err
        return result.out.split()

    assert ids("--tag", "data=v1") == [first]
    assert ids("--tag", "best") == [second]
    assert ids("--order-by", "submitted_at") == [first, second]
    assert ids("--archived") == [archived]
    assert ids("--target", "local") == [second, first]
    child = runs.ended("Completed", parent_id=first)["id"]
    assert ids("--parent", first) == [child]
    assert set(ids("--children")) == {first, second, child}
    refused = wherry("job", "list", "--order-by", "beauty")
    assert refused.code == 1
    assert "beauty" in refused.err


def test_job_show_tells_the_story(wherry: Wherry, runs: Runs) -> None:
    failed = runs.ended("Failed", ERROR, tags={"data": "v2"})
    runs.log(
        failed["id"],
        '{"t":1,"k":"scalar","n":"loss","v":0.5}',
        '{"t":2,"k":"scalar","n":"loss","v":0.25}',
    )
    shown = wherry("job", "show", failed["id"]).out
    for text in (
        f"id           {failed['id']}\n",
        "status       Failed\n",
        "message      it broke\n",
        "tags         data=v2\n",
        '    train.py:12: raise ValueError("no rows")\n',
        "last lines:\n    one\n    two\n",
        "metrics:\n  loss  0.25  (last of 2; min 0.25, max 0.5)\n",
    ):
        assert text in shown
    record = json.loads(wherry("job", "show", failed["id"], "-o", "json").out)
    assert record["error"]["line"] == 12


def test_job_show_is_of_bearable_length(wherry: Wherry, runs: Runs) -> None:
    run_id = runs.ended("Completed")["id"]
    runs.log(
        run_id,
        json.dumps({"t": 1, "k": "scalar", "n": "report", "v": "line\n" * 200_000}),
        json.dumps({"t": 1, "k": "list", "n": "loss", "v": [*range(200_000)]}),
    )
    shown = wherry("job", "show", run_id).out
    assert "\n  loss    199999  (last of 200,000; min 0, max 199999)\n" in shown
    assert "\n  report  line line line " in shown
    assert max(map(len, shown.splitlines())) < 100
    assert len(wherry("compare", run_id, run_id).out) < 2000


def test_job_show_of_a_submitted_run(wherry: Wherry, runs: Runs) -> None:
    runs.queued(
        arguments=["--name", "a b"],
        resources={"cpu": 2, "memory_bytes": 4_000_000_000},
        max_run_duration_s=90,
    )
    shown = wherry("job", "show").out
    assert "command      train.py --name 'a b'\n" in shown
    assert "resources    2 CPUs, 4.0 GB of memory\n" in shown
    assert "time limit   1m30s\n" in shown


def test_cancel_archive_restore_delete(wherry: Wherry, runs: Runs) -> None:
    queued = runs.queued()["id"]
    assert wherry("job", "delete", "--yes", queued).code == 1
    canceled = wherry("job", "cancel", queued)
    assert (canceled.code, canceled.out) == (0, "")
    assert canceled.err.startswith(f"wherry: run {queued}: cancel")
    ended = runs.ended("Completed")["id"]
    assert "had ended already: Completed" in wherry("job", "cancel", ended).err
    wherry("job", "archive", ended)
    assert ended not in wherry("ps").out
    record = json.loads(wherry("job", "restore", ended, "-o", "json").out)
    assert (record["id"], record["archived_at"]) == (ended, None)
    assert wherry("job", "delete", "--yes", ended).err == f"wherry: run {ended} deleted\n"
    assert wherry("job", "show", ended).code == 1


def test_nothing_is_deleted_unless_all_can_be_found(wherry: Wherry, runs: Runs) -> None:
    ended = runs.ended("Completed")["id"]
    assert wherry("job", "delete", "--yes", ended, "nothing").code == 1
    assert wherry("job", "show", ended).code == 0


def test_nothing_is_deleted_when_nobody_can_be_asked(
    wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = runs.ended("Completed")["id"]
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        result = wherry("job", "delete", ended)
    assert (result.code, "hint: --yes says so" in result.err) == (2, True)
    assert wherry("job", "show", ended).code == 0


def test_files_of_a_run(wherry: Wherry, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.ended("Completed")["id"]
    for name in ("outputs/a.txt", "outputs/b/c.txt", "outputs2/d.txt"):
        runs.client.put(f"/runs/{run_id}/files/{name}", data=name.encode())
    listed = wherry("job", "download", run_id, "--list", "--query", "[].path", "-o", "tsv").out
    assert listed.split() == ["outputs/a.txt", "outputs/b/c.txt", "outputs2/d.txt"]
    target = str(tmp_path / "got")
    fetched = wherry("job", "download", run_id, "outputs/", "-p", target)
    assert fetched.out.split() == [f"{target}/outputs/a.txt", f"{target}/outputs/b/c.txt"]
    assert (tmp_path / "got/outputs/b/c.txt").read_text() == "outputs/b/c.txt"
    assert not (tmp_path / "got/outputs2").exists()
    again = ["job", "download", run_id, "outputs/", "-p", target]
    assert wherry(*again).code == 0
    mine = Path(fetched.out.splitlines()[0])
    mine.write_text("mine")
    refused = wherry(*again)
    assert (refused.code, mine.read_text()) == (1, "mine")
    assert "is there already and differs from" in refused.err
    assert wherry(*again, "--overwrite").code == 0
    assert mine.read_text() != "mine"
    missing = wherry("job", "download", run_id, "outputs/a.tx")
    assert missing.code == 1
    assert "did you mean 'outputs/a.txt'" in missing.err


def test_downloads_are_no_part_of_the_next_snapshot(
    wherry: Wherry, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(project)
    run_id = runs.queued()["id"]
    runs.client.put(f"/runs/{run_id}/files/outputs/a.txt", data=b"a")
    fetched = wherry("job", "download", run_id)
    assert fetched.out == f"wherry-downloads/{run_id}/outputs/a.txt\n"
    assert fetched.err == f"wherry: 1 file, 1 B, in wherry-downloads/{run_id}\n"
    restored = wherry("job", "download", run_id, "--snapshot").out.strip()
    assert (project / restored / "train.py").exists()
    assert Snapshot.capture(project).files[0].path == "train.py"
    assert len(Snapshot.capture(project).files) == 1


def test_the_snapshot_of_a_run(wherry: Wherry, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.queued({"train.py": b"x = 1\n", "lib/a.py": b""})["id"]
    listing = ["job", "download", run_id, "--snapshot", "--list", "--query", "[].path"]
    assert sorted(wherry(*listing, "-o", "tsv").out.split()) == ["lib/a.py", "train.py"]
    target = tmp_path / "as-submitted"
    assert wherry("job", "download", run_id, "--snapshot", "-p", str(target)).code == 0
    assert (target / "train.py").read_text() == "x = 1\n"
    none = wherry("job", "download", runs.ended("Completed")["id"], "--snapshot")
    assert "was not submitted with a source folder" in none.err


def test_diff_between_runs(wherry: Wherry, runs: Runs) -> None:
    first = runs.queued({"train.py": b"a\nb\n", "old.py": b"x\n", "same.py": b"s\n", "d": b"\0"})[
        "id"
    ]
    second = runs.queued(
        {"train.py": b"a\nc\n", "new.py": b"y\n", "same.py": b"s\n", "d": b"\0\1"}
    )["id"]
    shown = wherry("job", "diff", first, second).out
    assert "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n" in shown
    assert "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+y\n" in shown
    assert "--- a/old.py\n+++ /dev/null\n" in shown
    assert "Binary files a/d and b/d differ\n" in shown
    assert "same.py" not in shown
    names = wherry("job", "diff", "--files", first, second, "-o", "table").out
    assert sorted(names.split()) == sorted(
        ["PATH", "A", "new.py", "D", "old.py", "M", "d", "M", "train.py"]
    )
    data = json.loads(wherry("job", "diff", first, second, "-o", "json").out)
    assert data == {"added": ["new.py"], "removed": ["old.py"], "changed": ["d", "train.py"]}
    assert wherry("job", "diff", first, first) == (0, "", "wherry: no file differs\n")


def test_diff_with_a_folder(wherry: Wherry, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.queued({"train.py": b"a\n"})["id"]
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("b\n")
    shown = wherry("job", "diff", run_id, "--source", str(folder)).out
    assert shown.endswith("@@ -1 +1 @@\n-a\n+b\n")


def test_metrics_in_a_line() -> None:
    assert [number(value) for value in (1, 0.123456789, True, "x", float("nan"))] == [
        "1",
        "0.123457",
        "True",
        "x",
        "nan",
    ]
    assert summary([]) == "none"
    assert summary([0.5]) == "0.5"
    assert summary({"x": [1, 2], "y": 3}) == "x=2  (last of 2), y=3"
    assert summary([2, float("nan"), 1.5]) == "1.5  (last of 3; min 1.5, max 2)"
    assert summary([float("nan"), float("nan")]) == "nan  (last of 2)"
    assert summary([1, "a"]) == "a  (last of 2)"
    assert summary([10**400, 1]).startswith("1  (last of 2; min 1, max 1.00000e+400)")
    assert (short("a\nb"), short("x" * 60), short("x" * 61)) == ("a b", "x" * 60, "x" * 59 + "…")
    assert len(short("y " * 10**6)) == 60
    assert flat({"a": [1, 2], "row": {"x": [3, 4]}, "b": 5}) == {"a": 2, "row.x": 4, "b": 5}
    assert (difference(1, 1.5), difference(1, 1), difference("a", 2)) == ("+0.5", "", "")
    odd = [(float("nan"), float("nan")), (True, False), (10**400, 10**401), (1.0, float("inf"))]
    assert [difference(*pair) for pair in odd] == ["", "", "", ""]
    assert (number(10**400), number(-(2**40))) == ("1.00000e+400", str(-(2**40)))


def test_the_last_lines_of_a_text() -> None:
    assert _last_lines(b"a\nb\nc\n", 2) == 2
    assert _last_lines(b"a\nb\nc", 1) == 4
    assert _last_lines(b"a\nb\n", 3) is None
    assert _last_lines(b"", 1) is None


def test_open_prints_an_address_without_the_token(
    wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = runs.queued()["id"]
    asked: list[str] = []

    def no_browser(address: str) -> bool:
        asked.append(address)
        return False

    monkeypatch.setattr(browser, "show", no_browser)
    result = wherry("open", made[-8:])
    page = f"http://testserver/view/#/runs/{made}"
    assert result.out.startswith(page)
    assert asked[0].startswith(page)
    assert asked[0].endswith("token=owner-token")
    assert "owner-token" not in result.out + result.err
    assert wherry("open", "--list").out == "http://testserver/view/#/?workspace=w\n"
    assert asked[1].endswith("?workspace=w&token=owner-token")


def test_logs_of_a_run_that_has_printed_nothing(wherry: Wherry, runs: Runs) -> None:
    made = runs.queued()["id"]
    assert wherry("logs") == (0, "", f"wherry: run {made} has printed nothing yet\n")
    assert wherry("logs", "--build").err == f"wherry: run {made} has built nothing yet\n"
    wherry("job", "cancel", made)
    assert wherry("logs").err == f"wherry: run {made} printed nothing\n"
    assert "built nothing: no environment had to be made" in wherry("logs", "--build").err


def test_the_log_of_a_process_that_is_not_there(wherry: Wherry, runs: Runs) -> None:
    made = runs.queued()["id"]
    assert wherry("logs", "--process", "1").err == f"wherry: run {made} has printed nothing yet\n"
    wherry("job", "cancel", made)
    result = wherry("logs", "--process", "1")
    assert result.code == 1
    assert f"run {made} has no process 1" in result.err
    assert "it is one process, without ranks" in result.err


@pytest.mark.parametrize(
    ("target", "implied", "shown"),
    [
        ("local", True, "/env/bin/python"),
        ("node1", False, "/env/bin/python"),
        ("node1", True, "/env/bin/python, or that of a node elsewhere"),
    ],
)
def test_the_interpreter_of_a_run(target: str, implied: bool, shown: str) -> None:
    wanted = {"interpreter_path": "/env/bin/python", "interpreter_implied": implied}
    assert interpreter_of({"target": target}, {"environment": wanted}) == shown
    assert interpreter_of({"target": target}, {}) == ""
