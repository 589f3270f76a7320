from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from wherry import Experiment, Run, RunDetails

from .fake_server import FakeServer


class Widget:
    value = ""


@pytest.fixture
def run(experiment: Experiment, fake: FakeServer) -> Run:
    record = fake.new_run("lab", {"experiment": "churn"}, status="Running", message="busy")
    fake.write_log(record["id"], b"<b>working</b>\n")
    run = experiment.workspace.get_run(record["id"])
    run.log("loss", 0.5)
    run.log("loss", 0.25)
    return run


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Widget:
    """Just enough of ipywidgets and IPython."""
    shown = Widget()
    interactive = types.ModuleType("IPython")
    interactive.get_ipython = object  # type: ignore[attr-defined]
    interactive.display = types.SimpleNamespace(display=lambda _: None)  # type: ignore[attr-defined]
    widgets = types.ModuleType("ipywidgets")
    widgets.HTML = lambda: shown  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    return shown


def test_text_where_there_is_no_notebook(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    RunDetails(run).show()
    shown = capsys.readouterr().out
    assert f"RunId: {run.id}\nStatus: Running\nMessage: busy\n" in shown
    assert "loss: 0.25 (last of 2)" in shown


def test_a_live_view_in_a_notebook(run: Run, fake: FakeServer, notebook: Widget) -> None:
    details = RunDetails(run)
    details.show()
    assert "Running" in notebook.value
    assert "&lt;b&gt;working&lt;/b&gt;" in notebook.value
    fake.finish(run.id)
    assert details._thread is not None
    details._thread.join(30)
    assert "Completed" in notebook.value


def test_showing_never_fails(
    run: Run,
    fake: FakeServer,
    notebook: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", (0.0,))
    monkeypatch.setattr("wherry.sdk.widgets._FAILURES", 1)
    monkeypatch.setattr("wherry.sdk.widgets._PAUSE_S", 0.0)
    run.flush()
    fake.close()
    details = RunDetails(run)
    details.show()
    assert details._thread is not None
    details._thread.join(30)
    assert not details._thread.is_alive()
    RunDetails(None).show()
    assert "cannot be shown" in capsys.readouterr().out


def test_the_view_survives_an_outage(
    run: Run, fake: FakeServer, notebook: Widget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", ())
    monkeypatch.setattr("wherry.sdk.widgets._PAUSE_S", 0.05)
    run.flush()
    fake.drop("GET .*/wait", "before", times=3)
    details = RunDetails(run)
    details.show()
    for _ in range(200):
        if not fake._drops:
            break
        threading.Event().wait(0.05)
    fake.finish(run.id)
    assert details._thread is not None
    details._thread.join(30)
    assert "Completed" in notebook.value


def test_the_data_of_the_view(run: Run) -> None:
    data = RunDetails(run).get_widget_data()
    assert data == {"status": "Running", "run_id": run.id, "metrics": {"loss": [0.5, 0.25]}}
