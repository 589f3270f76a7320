from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from wherry import (
    ActivityFailedException,
    ConflictError,
    Experiment,
    ExperimentExecutionException,
    NotFoundError,
    Run,
    ScriptRunConfig,
    UserErrorException,
    get_run,
)
from wherry.core import lifecycle
from wherry.sdk import handle, interactive

from .fake_server import FakeServer

ERROR = {
    "code": "ExitCode",
    "message": "exited with code 1: ValueError: no rows (train.py, line 12)",
    "exit_code": 1,
    "exception": "ValueError: no rows",
    "file": "train.py",
    "line": 12,
    "source": "    check(rows)",
    "tail": ["Traceback (most recent call last):", "ValueError: no rows"],
}


@pytest.fixture
def run(experiment: Experiment, tmp_path: Path) -> Run:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text("print('hello')\n")
    return experiment.submit(ScriptRunConfig(source, "train.py", ["--a", "1"]))


def fail(fake: FakeServer, run: Run, log: bytes = b"") -> None:
    fake.finish(run.id, log, status="Failed", error=dict(ERROR), message=ERROR["message"])


def test_the_terminal_statuses_are_those_of_the_lifecycle() -> None:
    assert {status.value for status in lifecycle.TERMINAL} == handle.TERMINAL


def test_get_by_id(experiment: Experiment, run: Run) -> None:
    found = get_run(experiment, run.id)
    assert found == run
    assert found.experiment.name == "churn"
    assert experiment.workspace.get_run(run.id) == run
    assert Run(experiment, run.id).number == run.number
    with pytest.raises(NotFoundError):
        Run.get(experiment.workspace, "none")
    with pytest.raises(UserErrorException, match="not a valid run id"):
        Run.get(experiment.workspace, "../secret")


def test_status_is_that_of_now(run: Run, fake: FakeServer) -> None:
    assert run.status == "Queued"
    fake.set_status(run.id, "Running", message="the script is running")
    assert run.get_status() == "Running"
    assert run.get_detailed_status() == {"status": "Running", "details": "the script is running"}
    fake.finish(run.id)
    assert run.status == "Completed"
    fake.requests.clear()
    assert run.status == "Completed"
    assert fake.requests == []


def test_details_have_azures_keys(run: Run, fake: FakeServer) -> None:
    fake.set_status(run.id, "Running", started_at="2026-01-01T00:00:01Z")
    fake.finish(run.id, b"log")
    details = run.get_details()
    assert details["runId"] == run.id
    assert details["target"] == "local"
    assert details["status"] == "Completed"
    assert details["startTimeUtc"] == "2026-01-01T00:00:01Z"
    assert details["endTimeUtc"] == "2026-01-01T00:00:02Z"
    assert details["runDefinition"]["script"] == "train.py"
    assert details["runDefinition"]["arguments"] == ["--a", "1"]
    assert details["runDefinition"]["environment"]["python"]["interpreterPath"]
    assert list(details["logFiles"]) == ["user_logs/std_log.txt"]
    assert details["submittedBy"] == "owner"
    assert "error" not in details
    json.dumps(details)


def test_a_failed_runs_details_say_why(run: Run, fake: FakeServer) -> None:
    fail(fake, run)
    error = run.get_details()["error"]
    assert error["exit_code"] == 1
    assert error["line"] == 12
    assert error["message"] == ERROR["message"]
    assert error["error"]["message"] == ERROR["message"]
    assert run.get_error() == error


def test_waiting_returns_the_details(run: Run, fake: FakeServer) -> None:
    threading.Timer(0.05, fake.finish, (run.id,)).start()
    assert run.wait_for_completion()["status"] == "Completed"


def test_waiting_for_a_failed_run_raises_with_the_reason(run: Run, fake: FakeServer) -> None:
    fail(fake, run)
    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion()
    text = str(caught.value)
    assert "exited with code 1: ValueError: no rows (train.py, line 12)" in text
    assert "check(rows)" in text
    assert "Traceback" in text
    assert f"wherry logs {run.id}" in text
    assert caught.value.error_details["exit_code"] == 1


def test_waiting_for_a_failed_run_without_raising(
    run: Run, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(fake, run, b"some output\n")
    details = run.wait_for_completion(show_output=True, raise_on_error=False)
    assert details["status"] == "Failed"
    assert '"exit_code": 1' in capsys.readouterr().out


def test_what_was_shown_is_not_repeated_in_the_error(run: Run, fake: FakeServer) -> None:
    fail(fake, run, b"some output\n")
    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion(show_output=True)
    assert "exited with code 1" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_canceled_run_does_not_raise(run: Run) -> None:
    run.cancel()
    assert run.wait_for_completion()["status"] == "Canceled"


def test_the_output_is_shown_as_it_comes(
    run: Run, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.set_status(run.id, "Running")
    seen = threading.Event()
    pieces = [b"one\n", b"\xe2\x82", b"\xac 10%\r", b"20%\xff\n", b"no end"]

    def write() -> None:
        for piece in pieces:
            fake.write_log(run.id, piece)
            seen.wait(0.02)
        fake.finish(run.id)

    threading.Thread(target=write).start()
    assert run.wait_for_completion(show_output=True)["status"] == "Completed"
    url = run.get_portal_url()
    assert capsys.readouterr().out == (
        f"RunId: {run.id}\nWeb View: {url}\n"
        "\nStreaming user_logs/std_log.txt\n===============================\n\n"
        "one\n€ 10%\r20%\N{REPLACEMENT CHARACTER}\nno end\n"
        f"\nExecution Summary\n=================\nRunId: {run.id}\nWeb View: {url}\n"
    )


def test_what_a_queued_run_waits_for_is_shown(
    run: Run, fake: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.set_status(run.id, "Queued", message="waiting for 4 CPUs on target 'local'")
    monkeypatch.setattr(
        run, "_await", lambda seen, timeout_s, real=run._await: real(seen, min(timeout_s, 0.05))
    )
    threading.Timer(0.3, fake.finish, (run.id,)).start()
    run.wait_for_completion(show_output=True)
    shown = capsys.readouterr().out
    assert shown.count("Queued: waiting for 4 CPUs on target 'local'") == 1


def test_an_interrupt_ends_the_watching_not_the_run(run: Run, fake: FakeServer) -> None:
    fake.set_status(run.id, "Running")
    fake.write_log(run.id, b"working\n")
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(ExperimentExecutionException) as caught:
        run.wait_for_completion(show_output=True)
    assert caught.value.message.startswith(
        "The output streaming for the run interrupted. But the run is still executing"
    )
    assert run.id in str(caught.value.hint)
    assert run.get_status() == "Running"


def test_an_interrupt_without_output_says_that_the_run_goes_on(
    run: Run, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.set_status(run.id, "Running")
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.wait_for_completion()
    assert f"run {run.id} goes on" in capsys.readouterr().err


def test_a_run_that_prints_nothing_can_be_watched(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.complete()
    assert run.wait_for_completion(show_output=True)["status"] == "Completed"
    assert "Execution Summary" in capsys.readouterr().out


def test_a_log_can_be_taken_up_at_an_offset(run: Run, fake: FakeServer) -> None:
    fake.finish(run.id, b"0123456789")
    received: list[bytes] = []
    assert run.stream_logs(received.append, offset=4, follow=False) == 10
    assert b"".join(received) == b"456789"


def test_following_goes_on_when_the_server_only_paused(run: Run, fake: FakeServer) -> None:
    """A server that is being stopped ends the stream in good order."""
    fake.set_status(run.id, "Running")
    fake.write_log(run.id, b"first ")
    real = run._client.stream
    calls = []

    def stream(path: str, *, offset: int, follow: bool) -> Any:
        calls.append((offset, follow))
        if len(calls) == 1:
            return iter([b"first "])
        if len(calls) == 2:
            fake.finish(run.id, b"second")
        return real(path, offset=offset, follow=follow)

    run._client.stream = stream  # type: ignore[method-assign,assignment]
    received: list[bytes] = []
    run.stream_logs(received.append)
    assert b"".join(received) == b"first second"
    assert calls == [(0, True), (6, True)]


def test_details_with_logs(run: Run, fake: FakeServer) -> None:
    fake.finish(run.id, b"all of it\xff")
    logs = run.get_details_with_logs()["logFiles"]
    assert logs == {"user_logs/std_log.txt": "all of it\N{REPLACEMENT CHARACTER}"}


def test_details_with_logs_that_are_files(run: Run, fake: FakeServer) -> None:
    fake.finish(run.id, b"all of it")
    fake.files[run.id] = {"logs/mine.txt": b"of the script"}
    logs = run.get_details_with_logs()["logFiles"]
    assert logs == {"user_logs/std_log.txt": "all of it", "logs/mine.txt": "of the script"}


def test_names_and_descriptions(run: Run, fake: FakeServer) -> None:
    assert run.display_name == run.id
    run.display_name = "better"
    run.description = "a try"
    assert (run.name, run.description) == ("better", "a try")
    assert fake.runs[run.id]["display_name"] == "better"


def test_tags_may_change_properties_may_not(run: Run) -> None:
    run.tag("a")
    run.set_tags({"b": 2})
    run.tag("b", "3")
    run.remove_tags("a")
    assert run.tags == {"b": "3"}
    run.add_properties({"p": 1})
    run.add_properties({"p": 1, "q": 2})
    with pytest.raises(ConflictError):
        run.add_properties({"p": 2})
    assert run.properties["p"] == "1"


def test_labels_are_given_as_a_dict(run: Run) -> None:
    with pytest.raises(UserErrorException, match="tags must be a dict, not list"):
        run.set_tags(["a"])  # type: ignore[arg-type]
    with pytest.raises(UserErrorException, match="properties must be a dict, not str"):
        run.add_properties("a")  # type: ignore[arg-type]


def test_children(run: Run, fake: FakeServer) -> None:
    child = run.child_run("fold")
    assert child.parent == run
    assert child.display_name == "fold"
    tagged = run.create_children(tag_key="fold", tag_values=[1, 2])
    assert [each.get_tags() for each in tagged] == [{"fold": "1"}, {"fold": "2"}]
    assert len(run.create_children(count=2)) == 2
    assert len(list(run.get_children())) == 5
    assert list(run.get_children(tags={"fold": "2"})) == [tagged[1]]
    child.complete()
    assert list(run.get_children(status="Completed")) == [child]
    assert list(run.get_children(status=["Completed", "Failed"])) == [child]
    assert run.parent is None
    for bad in (
        {},
        {"count": -1},
        {"tag_values": [1]},
        {"tag_key": "k", "tag_values": [1], "count": 2},
    ):
        with pytest.raises(UserErrorException):
            run.create_children(**bad)


def test_a_submitted_child(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    child = run.submit_child(ScriptRunConfig(tmp_path / "source", "train.py"), tags={"x": "y"})
    assert fake.runs[child.id]["parent_id"] == run.id
    assert child.tags == {"x": "y"}


def test_a_run_as_a_context(experiment: Experiment, fake: FakeServer) -> None:
    with experiment.start_logging(snapshot_directory=None) as run:
        run.log("a", 1)
    assert fake.runs[run.id]["status"] == "Completed"
    assert fake.logged(run.id) == [("scalar", "a", 1)]


def test_an_exception_fails_the_run_of_a_context(experiment: Experiment, fake: FakeServer) -> None:
    run = experiment.start_logging(snapshot_directory=None)

    def work() -> None:
        with run:
            run.log("b", 2)
            raise LookupError("boom")

    with pytest.raises(LookupError, match="boom"):
        work()
    assert fake.runs[run.id]["status"] == "Failed"
    assert fake.runs[run.id]["message"] == "LookupError: boom"
    assert fake.logged(run.id) == [("scalar", "b", 2)]


def test_the_error_of_a_context_is_not_hidden_by_ours(
    experiment: Experiment,
    fake: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", (0.0,))
    run = experiment.start_logging(snapshot_directory=None)
    fake.close()
    with pytest.raises(LookupError, match="boom"), run:
        raise LookupError("boom")
    assert f"run {run.id} could not be ended" in capsys.readouterr().err


@pytest.mark.parametrize("below", [False, True])
def test_a_lost_answer_makes_no_second_run(
    experiment: Experiment, fake: FakeServer, below: bool
) -> None:
    parent = experiment.start_logging(snapshot_directory=None)
    fake.drop("POST .*/runs/interactive", "after")
    run = parent.child_run() if below else experiment.start_logging(snapshot_directory=None)
    assert set(fake.runs) == {parent.id, run.id}
    assert run.parent == (parent if below else None)


def test_an_id_that_is_taken_is_refused(experiment: Experiment) -> None:
    experiment.start_logging(snapshot_directory=None, run_id="mine")
    with pytest.raises(UserErrorException, match="already"):
        experiment.start_logging(snapshot_directory=None, run_id="mine")


def test_fail_with_a_code(experiment: Experiment, fake: FakeServer) -> None:
    run = experiment.start_logging(snapshot_directory=None, run_id="mine", name="try")
    assert run.id == "mine"
    run.fail("no data", error_code="NoData")
    assert fake.runs["mine"]["error"] == {"message": "no data", "code": "NoData"}


def test_what_is_still_open_at_exit_is_ended(experiment: Experiment, fake: FakeServer) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    child = run.child_run()
    child.log("a", 1)
    interactive.finish_all(ValueError("bad"))
    assert fake.runs[child.id]["status"] == "Failed"
    assert fake.runs[run.id]["message"] == "ValueError: bad"
    assert fake.logged(child.id) == [("scalar", "a", 1)]


def test_cancel_archive_delete(run: Run, fake: FakeServer) -> None:
    run.cancel()
    assert run.status == "Canceled"
    run.archive()
    assert fake.runs[run.id]["archived_at"]
    run.unarchive()
    assert fake.runs[run.id]["archived_at"] is None
    assert run.get_events()[0]["to"] == "Canceled"
    run.delete()
    assert fake.runs == {}


def test_a_deleted_run_is_not_answered_for_from_memory(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.complete()
    assert run.get_status() == "Completed"
    run.delete()
    for ask in (run.get_status, run.get_details, lambda: run.number):
        with pytest.raises(NotFoundError):
            ask()
    assert "unknown" in repr(run)


def test_a_child_that_went_with_its_parent_needs_no_end(
    experiment: Experiment, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = experiment.start_logging(snapshot_directory=None)
    child = parent.child_run()
    child.log("a", 1)
    parent.complete()
    parent.delete()
    del fake.runs[child.id]
    interactive.finish_all()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (None, "Completed", ""),
        (0, "Completed", ""),
        (3, "Failed", "exited with code 3"),
        ("no data", "Failed", "exited with code 1: no data"),
    ],
)
def test_a_block_that_calls_exit_ends_its_run_as_the_program(
    experiment: Experiment, fake: FakeServer, code: object, status: str, message: str
) -> None:
    with pytest.raises(SystemExit), experiment.start_logging(snapshot_directory=None) as run:
        raise SystemExit(code)
    assert (fake.runs[run.id]["status"], fake.runs[run.id]["message"]) == (status, message)


@pytest.mark.parametrize("column", ["name", "description", "self", "step", "value", "kind"])
def test_a_column_may_have_any_name(experiment: Experiment, fake: FakeServer, column: str) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.log_row("row", **{column: 1})
    run.log_row("text", **{column: "a"})
    run.log_table("table", {column: [1]})
    run.log("dict", {column: 1})
    assert run.get_metrics() == {
        "row": {column: 1},
        "text": {column: "a"},
        "table": {column: [1]},
        "dict": {column: 1},
    }


def test_azures_keywords_still_name_the_row(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.log_row(name="row", description="of two columns", x=1, y=2)
    run.log_row("other", "of one column", x=1)
    assert run.get_metrics() == {"row": {"x": 1, "y": 2}, "other": {"x": 1}}
    run.log_row(x=1)
    run.log(["no", "name"], None)  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "it has no name" in said
    assert said.count("warning") == 2


def test_metrics_in_azures_shapes(experiment: Experiment) -> None:
    run = experiment.start_logging(snapshot_directory=None)
    run.log("once", 0.5)
    for value in (1, 2, 3):
        run.log("often", value, step=value)
    run.log_list("list", [1, 2])
    run.log_row("row", x=1, y="a")
    run.log_row("rows", x=1)
    run.log_row("rows", x=2)
    run.log_table("table", {"c": [1, 2], "d": [3, 4]})
    assert run.get_metrics() == {
        "once": 0.5,
        "often": [1, 2, 3],
        "list": [1, 2],
        "row": {"x": 1, "y": "a"},
        "rows": {"x": [1, 2]},
        "table": {"c": [1, 2], "d": [3, 4]},
    }
    assert run.get_metrics(name="once") == {"once": 0.5}
    assert [point["step"] for point in run.get_metric_history("often")] == [1, 2, 3]
    child = run.child_run()
    child.log("c", 1)
    assert run.get_metrics(recursive=True)[child.id] == {"c": 1}
    run.complete()


def test_logging_to_a_submitted_run_from_outside(run: Run, fake: FakeServer) -> None:
    fake.finish(run.id)
    run.log("verdict", "good")
    run.flush()
    assert fake.logged(run.id) == [("scalar", "verdict", "good")]
    assert run.get_status() == "Completed"


def test_the_snapshot_comes_back(run: Run, tmp_path: Path) -> None:
    folder = run.restore_snapshot(path=tmp_path / "back")
    assert (Path(folder) / "train.py").read_text() == "print('hello')\n"


def test_take_snapshot(experiment: Experiment, tmp_path: Path, fake: FakeServer) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x").write_text("x")
    run = experiment.start_logging(snapshot_directory=None)
    snapshot_id = run.take_snapshot(tmp_path / "more")
    assert snapshot_id in fake.snapshots
    assert run.properties["ContentSnapshotId"] == snapshot_id
    with pytest.raises(UserErrorException, match="has no snapshot"):
        run.restore_snapshot()
    run.complete()


def test_the_environment_of_a_run(run: Run) -> None:
    environment = run.get_environment()
    assert environment.python.interpreter_path.endswith("python")


def test_forms(run: Run, fake: FakeServer) -> None:
    assert str(run) == (
        f"Run(Experiment: churn,\nId: {run.id},\nType: azureml.scriptrun,\nStatus: Queued)"
    )
    assert {run} == {Run.get(run.experiment.workspace, run.id)}
    fake.runs[run.id]["experiment"] = "<script>"
    html = run._repr_html_()
    assert "&lt;script&gt;" in html
    assert "Details Page" in html


def test_the_form_does_not_need_the_server(
    run: Run, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", (0.0,))
    fake.close()
    assert "Status: Queued" in str(run)
    assert "Queued" in run._repr_html_()
