from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from wherry import Experiment, Run, RunEnvironmentException
from wherry.sdk import interactive, settings
from wherry.sdk import spool as spool_module
from wherry.sdk.spool import Spool
from wherry.sdk.values import lines, plain, scalar

from .fake_server import FakeServer

SOURCE = Path(__file__).resolve().parents[3] / "src"


class Array:
    """What numpy's arrays and scalars have in common."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


class Tensor:
    def numpy(self) -> Array:
        return Array([[1.5]])


class Item:
    def item(self) -> int:
        return 4


class Colour(IntEnum):
    RED = 2


@pytest.fixture
def context(fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The process of a submitted run; nothing ships its spool but ``ship``."""
    run = fake.new_run("lab", {"experiment": "churn", "run_id": "churn_1"}, target="local")
    fake.set_status(run["id"], "Running")
    spool = tmp_path / "attempt"
    (spool / "spool").mkdir(parents=True)
    for name, value in {
        "WHERRY_RUN_ID": run["id"],
        "WHERRY_RUN_TOKEN": f"run:{run['id']}",
        "WHERRY_SPOOL": str(spool),
        "WHERRY_WORKSPACE": "lab",
        "WHERRY_EXPERIMENT": "churn",
    }.items():
        monkeypatch.setenv(name, value)
    return spool


def entries(spool: Path) -> list[dict[str, Any]]:
    files = sorted((spool / "spool").iterdir())
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def ship(spool: Path) -> None:
    """What the runner does."""
    client = Run.get_context()._client
    for file in (spool / "spool").iterdir():
        client.post(
            f"/runs/churn_1/spool/{file.stem}", data=file.read_bytes(), params={"offset": 0}
        )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (0.5, 0.5),
        ("text", "text"),
        (True, True),
        (None, None),
        (Array(0.25), 0.25),
        (Array([1, 2]), [1, 2]),
        (Tensor(), [[1.5]]),
        (Item(), 4),
        (Decimal("1.5"), 1.5),
        (Colour.RED, 2),
        ((1, Array(2)), [1, 2]),
        (range(3), [0, 1, 2]),
        ({1: Array(3)}, {"1": 3}),
        (Path("/x"), "/x"),
    ],
)
def test_values_of_all_kinds_become_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_an_array_of_one_is_its_element() -> None:
    assert scalar(Array([[3.5]])) == 3.5
    assert scalar(Array([1, 2])) == [1, 2]


@pytest.mark.parametrize("kind", ["list", "table"])
def test_large_values_are_split_into_lines_that_join_again(kind: str) -> None:
    column = [float(number) for number in range(300_000)]
    value: Any = column if kind == "list" else {"a": column, "b": column[:7]}
    parts = list(lines({"k": kind, "n": "x", "v": value}))
    assert len(parts) > 1
    assert max(map(len, parts)) <= 2**20
    values = [json.loads(part)["v"] for part in parts]
    if kind == "list":
        assert [item for each in values for item in each] == column
    else:
        assert [item for each in values for item in each.get("a", [])] == column
        assert [item for each in values for item in each.get("b", [])] == column[:7]


def test_a_value_that_cannot_be_split_is_refused() -> None:
    assert len(list(lines({"k": "scalar", "n": "x", "v": "y" * 2_000_000}))) == 1
    with pytest.raises(ValueError, match="too large"):
        list(lines({"k": "scalar", "n": "x", "v": "y" * 5_000_000}))


def test_get_context_is_the_submitted_run(context: Path, fake: FakeServer) -> None:
    fake.requests.clear()
    run = Run.get_context()
    assert run.id == "churn_1"
    assert Run.get_context() is run
    assert Run.get_submitted_run() is run
    run.log("a", 1)
    assert fake.requests == []
    assert run.experiment.name == "churn"
    assert run.experiment.workspace.name == "lab"
    assert run.number == 1


def test_azure_names_alone_will_do(context: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WHERRY_RUN_ID", "WHERRY_WORKSPACE", "WHERRY_EXPERIMENT"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZUREML_RUN_ID", "churn_1")
    monkeypatch.setenv("AZUREML_ARM_WORKSPACE_NAME", "lab")
    monkeypatch.setenv("AZUREML_ARM_PROJECT_NAME", "churn")
    found = settings.run_context()
    assert found is not None
    assert (found.run_id, found.workspace, found.experiment) == ("churn_1", "lab", "churn")


def test_each_call_is_a_line_on_disk(context: Path) -> None:
    run = Run.get_context()
    run.log("loss", 0.5)
    run.log("loss", Array(0.25), step=Array(3).tolist())
    run.log("name", "text")
    run.log_list("list", (1, 2.5))
    run.log_row("row", x=1, y=Array(2))
    run.log_table("table", {"c": Array([1, 2])})
    found = entries(context)
    assert [(each["k"], each["n"], each["v"]) for each in found] == [
        ("scalar", "loss", 0.5),
        ("scalar", "loss", 0.25),
        ("scalar", "name", "text"),
        ("list", "list", [1, 2.5]),
        ("row", "row", {"x": 1, "y": 2}),
        ("table", "table", {"c": [1, 2]}),
    ]
    assert found[1]["s"] == 3
    assert all(each["t"] > 1.7e9 for each in found)


def test_odd_numbers_and_names(context: Path) -> None:
    run = Run.get_context()
    run.log("nan", math.nan)
    run.log("inf", -math.inf)
    run.log("größe \ud800", 2**70)
    values = {each["n"]: each["v"] for each in entries(context)}
    assert math.isnan(values["nan"])
    assert values["inf"] == -math.inf
    assert values["größe \ud800"] == 2**70


def test_log_takes_lists_and_dicts_as_what_they_are(context: Path) -> None:
    run = Run.get_context()
    run.log("a", [1, 2])
    run.log("b", {"x": 1})
    run.log_list("c", 5)
    assert [(each["k"], each["v"]) for each in entries(context)] == [
        ("list", [1, 2]),
        ("row", {"x": 1}),
        ("list", [5]),
    ]


def test_a_data_frame_is_a_table(context: Path) -> None:
    class Frame:
        def to_dict(self, orient: str) -> dict[str, list[int]]:
            assert orient == "list"
            return {"a": [1, 2]}

    Run.get_context().log_table("frame", Frame())
    assert entries(context)[0]["v"] == {"a": [1, 2]}


class Bad:
    def tolist(self) -> None:
        raise RuntimeError("not on this device")


@pytest.mark.parametrize("value", [Bad(), None])
def test_logging_never_raises_and_tells_once(
    context: Path, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.get_context()
    for _ in range(3):
        run.log("m", value)
    run.log("", 1)
    run.log_table("t", [1])
    run.log("fine", 1)
    said = capsys.readouterr().err
    assert [line.split(" is not")[0] for line in said.splitlines()] == [
        "wherry: warning: metric 'm'",
        "wherry: warning: metric ''",
        "wherry: warning: metric 't'",
    ]
    assert [each["n"] for each in entries(context)] == ["fine"]


def test_there_is_an_end_to_all_complaints(
    context: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(100):
        Run.get_context().log(f"{number}" * 200, None)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 21
    assert said[-1].endswith("(more of the kind is not told)")
    assert max(map(len, said)) < 250


def test_a_circle_is_no_reason_to_stop(context: Path, capsys: pytest.CaptureFixture[str]) -> None:
    circle: list[Any] = []
    circle.append(circle)
    Run.get_context().log_list("circle", circle)
    assert "not recorded" in capsys.readouterr().err


def test_an_unwritable_spool_is_no_reason_to_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(str(tmp_path / "file" / "spool"))
    spool.append("scalar", "a", 1)
    assert "metric 'a' is not recorded" in capsys.readouterr().err


def test_a_disk_that_is_full_for_a_while_costs_no_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.append("scalar", "a", 1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    spool.append("scalar", "b", 2)
    spool.append("scalar", "c", 3)
    (file,) = (tmp_path / "spool").iterdir()
    assert file.read_text().count("\n") == 1, "no half lines"
    monkeypatch.setattr(os, "write", real)
    spool.append("scalar", "d", 4)
    spool.close()
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == list("abcd")
    assert capsys.readouterr().err.count("the disk is full") == 1


def test_the_end_of_a_process_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(str(tmp_path / "spool"))
    real, tries = os.write, iter(range(3))

    def full(descriptor: int, data: bytes) -> int:
        if next(tries, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    spool.append("scalar", "a", 1)
    spool.close()
    (file,) = (tmp_path / "spool").iterdir()
    assert json.loads(file.read_text())["n"] == "a"


def test_a_disk_that_stays_full_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spool_module, "_PATIENCE_S", 0.0)
    spool = Spool(str(tmp_path / "spool"))

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        spool.append("scalar", "a", 1)
        spool.close()
    assert "1 metrics are not recorded" in capsys.readouterr().err


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))

    def work(name: str) -> None:
        for number in range(500):
            spool.append("scalar", name, number)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.close()
    (file,) = (tmp_path / "spool").iterdir()
    found = [json.loads(line) for line in file.read_text().splitlines()]
    for n in range(8):
        assert [each["v"] for each in found if each["n"] == f"t{n}"] == list(range(500))


def test_a_forked_child_writes_to_a_file_of_its_own(context: Path, fake: FakeServer) -> None:
    code = """
        import os
        from wherry import Run
        run = Run.get_context()
        run.log("parent", 1)
        pid = os.fork()
        if pid == 0:
            Run.get_context().log("child", 2)
            os._exit(0)
        os.waitpid(pid, 0)
        run.log("parent", 3)
    """
    run_python(code)
    names = [file.name for file in (context / "spool").iterdir()]
    assert len(names) == 2
    assert sorted((each["n"], each["v"]) for each in entries(context)) == [
        ("child", 2),
        ("parent", 1),
        ("parent", 3),
    ]


def test_a_killed_process_loses_nothing(context: Path, fake: FakeServer) -> None:
    code = """
        import os, signal
        from wherry import Run
        run = Run.get_context()
        for number in range(1000):
            run.log("a", number)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run_python(code, expected=-signal.SIGKILL)
    assert [each["v"] for each in entries(context)] == list(range(1000))


def test_tags_go_the_same_way_and_can_be_read_back(context: Path, fake: FakeServer) -> None:
    run = Run.get_context()
    run.tag("quality", "good")
    assert run.get_tags() == {"quality": "good"}
    assert fake.runs["churn_1"]["tags"] == {}
    ship(context)
    assert fake.runs["churn_1"]["tags"] == {"quality": "good"}
    run.remove_tags(["quality"])
    assert run.get_tags() == {}


def test_flush_waits_for_the_server_to_have_it_all(context: Path, fake: FakeServer) -> None:
    run = Run.get_context()
    run.log("a", 1)
    with pytest.raises(Exception, match="have not all arrived within"):
        run.flush(timeout_seconds=0.1)
    timer = threading.Timer(0.1, ship, (context,))
    timer.start()
    run.flush()
    assert fake.logged("churn_1") == [("scalar", "a", 1)]
    assert run.get_metrics() == {"a": 1}
    timer.join()


def test_uploads_are_left_for_the_runner(context: Path, tmp_path: Path, fake: FakeServer) -> None:
    (tmp_path / "model.pkl").write_bytes(b"model")
    fake.requests.clear()
    Run.get_context().upload_file("outputs/deep/model.pkl", tmp_path / "model.pkl")
    assert (context / "files" / "outputs" / "deep" / "model.pkl").read_bytes() == b"model"
    assert fake.requests == []
    assert [path.name for path in context.iterdir() if path.name.startswith(".")] == []


def test_an_upload_is_listed_before_the_runner_has_sent_it(context: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    run = Run.get_context()
    run.upload_file("outputs/a", tmp_path / "a")
    assert run.get_file_names() == ["outputs/a"]


def test_an_upload_can_be_fetched_before_the_runner_has_sent_it(
    context: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    run = Run.get_context()
    run.upload_file("outputs/model.bin", tmp_path / "model.bin")
    run.download_file("outputs/model.bin", tmp_path / "copy.bin")
    assert (tmp_path / "copy.bin").read_bytes() == b"weights"


def test_a_childs_upload_is_not_left_for_the_runner(
    context: Path, tmp_path: Path, fake: FakeServer
) -> None:
    (tmp_path / "a").write_text("a")
    child = Run.get_context().child_run()
    child.upload_file("outputs/a", tmp_path / "a")
    assert fake.files[child.id] == {"outputs/a": b"a"}
    assert Run.get_context().get_file_names() == []


def test_an_image_is_a_file_and_a_metric(
    context: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Plot:
        def savefig(self, path: str, **_: Any) -> None:
            Path(path).write_bytes(b"PNG")

    run = Run.get_context()
    run.log_image("ROC", plot=Plot())
    run.log_image("ROC", plot=Plot())
    (tmp_path / "cat.jpg").write_bytes(b"JPG")
    run.log_image("a/cat", path=str(tmp_path / "cat.jpg"))
    files = sorted(path.name for path in (context / "files").iterdir())
    assert len(files) == 3
    assert files[0].startswith("ROC_")
    assert files[2].startswith("a_cat_")
    assert files[2].endswith(".jpg")
    logged = entries(context)
    assert {each["k"] for each in logged} == {"image"}
    assert logged[0]["v"] == f"aml://artifactId/ExperimentRun/dcid.churn_1/{files[0]}"
    run.log_image("nothing")
    run.log_image("gone", path="gone.png")
    said = capsys.readouterr().err
    assert "'nothing' is not recorded: an image needs either path= or plot=" in said
    assert "'gone' is not recorded: there is no file 'gone.png'" in said


def test_azures_documents_are_kept_as_files(context: Path) -> None:
    run = Run.get_context()
    run.log_confusion_matrix("cm", {"schema_type": "confusion_matrix", "data": {}})
    run.log_residuals("r", '{"schema_type": "residuals"}')
    run.log_accuracy_table("a", {})
    run.log_predictions("p", {})
    assert len(list((context / "files").iterdir())) == 4
    assert json.loads(next((context / "files").glob("cm_*.json")).read_text())["data"] == {}


def test_a_child_of_a_submitted_run_logs_into_its_spool(context: Path, fake: FakeServer) -> None:
    run = Run.get_context()
    with run.child_run("fold 1") as child:
        child.log("accuracy", 0.9)
        child.tag("a", "b")
    assert fake.runs[child.id]["status"] == "Completed"
    ship(context)
    assert fake.logged(child.id) == [("scalar", "accuracy", 0.9)]
    assert fake.runs[child.id]["tags"] == {"a": "b"}
    assert fake.logged("churn_1") == []


def test_a_script_reads_what_its_children_logged(context: Path, fake: FakeServer) -> None:
    run = Run.get_context()
    with run.child_run() as made:
        made.log("score", 3)
    (child,) = run.get_children()
    timer = threading.Timer(0.1, ship, (context,))
    timer.start()
    assert child.get_metrics() == {"score": 3}
    timer.join()
    parent = child.parent
    assert parent is not None
    parent.log("best", 3)
    parent.complete()
    assert [(each["n"], each.get("r")) for each in entries(context)] == [
        ("score", made.id),
        ("best", None),
    ]


def test_the_end_of_a_submitted_run_is_its_exit_code(
    context: Path, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.get_context()
    run.complete()
    run.fail("bad")
    assert fake.runs["churn_1"]["status"] == "Running"
    assert "fails by its exit code" in capsys.readouterr().err


def test_outside_a_run_there_may_be_none() -> None:
    said = (
        "Could not load a submitted run, if outside of an execution context, "
        "use experiment.start_logging to initialize an azureml.core.Run."
    )
    with pytest.raises(RunEnvironmentException) as caught:
        Run.get_context(allow_offline=False)
    assert caught.value.message == said


def test_a_background_thread_ships_while_the_run_goes_on(
    experiment: Experiment, fake: FakeServer
) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.log("a", 1)
    deadline = threading.Event()
    for _ in range(100):
        if fake.logged(run.id):
            break
        deadline.wait(0.1)
    assert fake.logged(run.id) == [("scalar", "a", 1)]
    run.complete()


def test_runs_that_this_process_drives_are_kept_alive(
    experiment: Experiment, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactive, "HEARTBEAT_S", 0.05)
    run = experiment.start_logging(snapshot_directory=None)
    child = run.child_run()
    ended = run.child_run()
    ended.complete()
    pause = threading.Event()
    for _ in range(100):
        if all(fake.runs[each.id].get("heartbeat") for each in (run, child)):
            break
        pause.wait(0.1)
    assert fake.runs[run.id]["heartbeat"]
    assert fake.runs[child.id]["heartbeat"]
    assert fake.count(f"POST .*{ended.id}/heartbeat") == 0
    run.complete()


def test_a_hundred_thousand_values_arrive_in_order(
    experiment: Experiment, fake: FakeServer
) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    for number in range(100_000):
        run.log("n", number)
    assert run.get_metrics()["n"] == list(range(100_000))
    run.complete()


def test_a_lost_answer_counts_no_line_twice(experiment: Experiment, fake: FakeServer) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    fake.drop("spool", "after", 2)
    fake.drop("spool", "before", 1)
    for number in range(100):
        run.log("n", number)
    run.flush()
    assert [value for _, _, value in fake.logged(run.id)] == list(range(100))
    run.complete()


def test_what_cannot_be_sent_is_kept_and_told(
    experiment: Experiment, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    del fake.runs[run.id]
    run.log("a", 1)
    with pytest.raises(Exception, match="were not sent"):
        run.flush(timeout_seconds=20)
    assert run._recorder is not None
    folder = Path(run._recorder.spool.folder)
    run._recorder.close()
    assert f"kept in {folder}" in capsys.readouterr().err
    assert len(list(folder.iterdir())) == 1
    fake.new_run("lab", {"experiment": "churn", "run_id": run.id}, status="Running")


SCRIPT = """
    import sys
    from wherry import Experiment, Workspace
    run = Experiment(Workspace.get("lab"), "churn").start_logging(snapshot_directory=None)
    print(run.id, flush=True)
    run.log("a", 1)
"""


@pytest.mark.parametrize(
    ("ending", "code", "status"),
    [
        ("", 0, "Completed"),
        ("raise ValueError('bad')", 1, "Failed"),
        ("sys.exit(3)", 3, "Completed"),
        ("import os, time\nos.kill(os.getpid(), 15)\ntime.sleep(60)", -15, "Failed"),
        ("import os, time\nos.kill(os.getpid(), 1)\ntime.sleep(60)", -1, "Failed"),
        ("run.complete()", 0, "Completed"),
        ("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)", 0, "Completed"),
    ],
)
def test_the_rest_is_sent_at_exit(
    experiment: Experiment, fake: FakeServer, ending: str, code: int, status: str
) -> None:
    experiment.refresh()
    done = run_python(textwrap.dedent(SCRIPT) + ending, expected=code)
    run_id = done.stdout.split()[0]
    assert fake.logged(run_id) == [("scalar", "a", 1)]
    assert fake.runs[run_id]["status"] == status
    assert fake.count(f"POST .*{run_id}/end") == 1


def test_a_signal_that_the_script_handles_is_left_to_it(experiment: Experiment) -> None:
    ours = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        experiment.start_logging(snapshot_directory=None)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, ours)


def test_a_submitted_script_ends_on_a_signal_at_once(context: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        Run.get_context().child_run().complete()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_forked_child_ends_on_a_signal_at_once(experiment: Experiment) -> None:
    experiment.start_logging(snapshot_directory=None)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    pid = os.fork()
    if not pid:
        os._exit(0 if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_an_end_without_a_server_waits_once(
    experiment: Experiment,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", (0.0,))
    monkeypatch.setattr(interactive, "EXIT_PATIENCE_S", 2)
    run = experiment.start_logging(snapshot_directory=None)
    children = run.create_children(count=20)
    for child in children:
        child.log("a", 1)
    fake.close()
    began = time.monotonic()
    interactive.finish_all()
    assert time.monotonic() - began < 2 * 21
    said = capsys.readouterr().err
    assert said.count("could not be ended: the server did not answer") == 21
    assert said.count("they are kept in") == 1


def test_forked_children_are_shipped_by_their_parent(
    experiment: Experiment, fake: FakeServer
) -> None:
    ending = """
        import multiprocessing

        def work(number):
            run.log("child", number)

        with multiprocessing.get_context("fork").Pool(3) as pool:
            pool.map(work, range(30))
        run.complete()
    """
    done = run_python(textwrap.dedent(SCRIPT) + textwrap.dedent(ending))
    run_id = done.stdout.split()[0]
    values = [value for _, name, value in fake.logged(run_id) if name == "child"]
    assert sorted(values) == list(range(30))


def run_python(code: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == expected, done.stderr
    return done
