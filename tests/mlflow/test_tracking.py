"""What people do with MLflow every day, by its own clients."""

from __future__ import annotations

import math
import subprocess

import pytest

from tests.homes import Home
from wherry import Workspace

from .clients import ROOT, Clients

pytestmark = pytest.mark.mlflow


def test_a_run_is_logged_and_found_with_all_that_it_has(clients: Clients) -> None:
    told = clients.ask("""
mlflow.set_experiment(f"daily {os.getpid()}")
with mlflow.start_run(run_name="first", description="a note", tags={"team": "x"}) as run:
    mlflow.log_param("lr", 0.1)
    mlflow.log_params({"depth": 3, "name": "ünï"})
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"nan": math.nan, "inf": math.inf, "auc": 0.9})
    mlflow.set_tag("seen", "yes")
ident = run.info.run_id
found = client.get_run(ident)
data = found.data
tell({
    "status": found.info.status, "name": found.info.run_name,
    "times": [found.info.start_time, found.info.end_time],
    "params": data.params, "tags": data.tags,
    "metrics": {name: repr(value) for name, value in data.metrics.items()},
    "history": [[each.step, each.value] for each in client.get_metric_history(ident, "loss")],
    "id": ident,
})
""")
    assert told["status"] == "FINISHED"
    assert told["name"] == "first"
    assert told["times"][0] <= told["times"][1]
    assert told["params"] == {"lr": "0.1", "depth": "3", "name": "ünï"}
    assert told["tags"]["team"] == "x"
    assert told["tags"]["seen"] == "yes"
    assert told["tags"]["mlflow.note.content"] == "a note"
    assert told["metrics"] == {"loss": "0.2", "nan": "nan", "inf": "inf", "auc": "0.9"}
    assert told["history"] == [[step, 1 / (step + 1)] for step in range(5)]
    ours = Workspace.get("default").get_run(told["id"])
    assert ours.get_status() == "Completed"
    assert ours.display_name == "first"
    assert ours.get_metrics()["loss"] == [1 / (step + 1) for step in range(5)]
    assert math.isnan(ours.get_metrics()["nan"])


def test_runs_are_searched_in_pages_and_orders(clients: Clients) -> None:
    told = clients.ask("""
experiment = client.create_experiment(f"search {os.getpid()}")
for number in range(12):
    run = client.create_run(experiment, tags={"even": str(number % 2 == 0)}, run_name=f"r{number}")
    client.log_batch(run.info.run_id, metrics=[mlflow.entities.Metric("auc", number / 10, 1, 0)],
        params=[mlflow.entities.Param("number", str(number))])
    client.set_terminated(run.info.run_id, "FAILED" if number == 11 else "FINISHED")
def names(*args, **options):
    found, token = [], None
    while True:
        page = client.search_runs([experiment], *args, max_results=4, page_token=token, **options)
        found += [each.info.run_name for each in page]
        token = page.token
        if not token:
            return found
client.delete_run(run.info.run_id)
tell([
    names("metrics.auc > 0.4 and tags.even = 'True'", order_by=["metrics.auc DESC"]),
    names("params.number IN ('1', '3')", order_by=["attributes.run_name ASC"]),
    names("attributes.status = 'FAILED'"),
    names("attributes.status = 'FAILED'", run_view_type=2),
    len(names("", order_by=["start_time ASC"])),
])
""")
    assert told == [["r10", "r8", "r6"], ["r1", "r3"], [], ["r11"], 11]


def test_experiments_come_and_go(clients: Clients) -> None:
    told = clients.ask("""
name = f"life {os.getpid()}"
made = client.create_experiment(name, tags={"a": "b"})
try:
    client.create_experiment(name)
except Exception as error:
    again = error.error_code
client.set_experiment_tag(made, "c", "d")
client.rename_experiment(made, name + " renamed")
client.delete_experiment(made)
gone = [each.name for each in client.search_experiments(filter_string=f"name LIKE '{name}%'")]
client.restore_experiment(made)
back = client.get_experiment_by_name(name + " renamed")
nothing = client.get_experiment_by_name("nowhere")
tell([again, gone, back.experiment_id == made, back.tags["a"], back.tags["c"], nothing])
""")
    assert told == ["RESOURCE_ALREADY_EXISTS", [], True, "b", "d", None]


def test_nested_runs_are_children(clients: Clients) -> None:
    told = clients.ask("""
with mlflow.start_run() as parent:
    with mlflow.start_run(nested=True, run_name="kid") as kid:
        mlflow.log_metric("auc", 0.5)
ident = parent.info.run_id
below = f"tags.mlflow.parentRunId = '{ident}'"
found = client.search_runs([parent.info.experiment_id], below)
tell([ident, kid.info.run_id, [each.info.run_id for each in found]])
""")
    parent, kid, found = told
    assert found == [kid]
    ours = Workspace.get("default").get_run(parent)
    assert [child.id for child in ours.get_children()] == [kid]


def test_an_exception_inside_a_run_fails_it(clients: Clients) -> None:
    told = clients.ask("""
try:
    with mlflow.start_run() as run:
        mlflow.log_metric("before", 1)
        raise ValueError("no rows")
except ValueError:
    pass
with mlflow.start_run(run_id=run.info.run_id):
    open_again = client.get_run(run.info.run_id).info.status
tell([run.info.run_id, open_again, client.get_run(run.info.run_id).info.status])
""")
    assert told[1:] == ["RUNNING", "FINISHED"]
    assert Workspace.get("default").get_run(told[0]).get_metrics() == {"before": 1}


def test_batches_at_their_limits(clients: Clients) -> None:
    told = clients.ask("""
from mlflow.entities import Metric, Param, RunTag
run = client.create_run("0")
ident = run.info.run_id
client.log_batch(ident,
    metrics=[Metric(f"m{n % 50}", n, 1000 + n, n) for n in range(800)],
    params=[Param(f"p{n}", str(n)) for n in range(100)],
    tags=[RunTag(f"t{n}", str(n)) for n in range(100)])
found = client.get_run(ident).data
points = len(client.get_metric_history(ident, "m0"))
tell([len(found.metrics), found.metrics["m49"], len(found.params), found.tags["t99"], points])
""")
    assert told == [50, 799, 100, "99", 16]


def test_a_parameter_is_set_once(clients: Clients) -> None:
    told = clients.ask("""
run = client.create_run("0").info.run_id
client.log_param(run, "lr", 1)
client.log_param(run, "lr", 1)
try:
    client.log_param(run, "lr", 2)
except Exception as error:
    code = error.error_code
tell([code, client.get_run(run).data.params])
""")
    assert told == ["INVALID_PARAMETER_VALUE", {"lr": "1"}]


def test_artifacts_go_up_and_down(clients: Clients) -> None:
    (clients.folder / "deep").mkdir()
    (clients.folder / "deep" / "große datei.bin").write_bytes(bytes(range(256)) * 5000)
    (clients.folder / "empty").write_bytes(b"")
    told = clients.ask("""
with mlflow.start_run() as run:
    mlflow.log_artifact("empty")
    mlflow.log_artifacts("deep", "data")
    mlflow.log_text("hello", "notes/a.txt")
    mlflow.log_dict({"x": 1}, "d.json")
ident = run.info.run_id
down = mlflow.artifacts.download_artifacts(run_id=ident, dst_path="down")
found = [os.path.join(at, each) for at, _, files in os.walk(down) for each in files]
found = sorted(os.path.relpath(each, down) for each in found)
listed = [[each.path, each.is_dir, each.file_size] for each in client.list_artifacts(ident)]
tell([found, listed, mlflow.artifacts.load_text(run.info.artifact_uri + "/notes/a.txt"), ident])
""")
    found, listed, text, ident = told
    assert found == ["d.json", "data/große datei.bin", "empty", "notes/a.txt"]
    assert listed == [
        ["d.json", False, listed[0][2]],
        ["data", True, None],
        ["empty", False, 0],
        ["notes", True, None],
    ]
    assert text == "hello"
    down = clients.folder / "down" / "data" / "große datei.bin"
    assert down.read_bytes() == bytes(range(256)) * 5000
    assert set(found) <= set(Workspace.get("default").get_run(ident).get_file_names())


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"MLFLOW_TRACKING_TOKEN": "wrong"}, "UNAUTHENTICATED"),
        ({"MLFLOW_TRACKING_TOKEN": ""}, "UNAUTHENTICATED"),
        ({"WORKSPACE": "nowhere"}, "RESOURCE_DOES_NOT_EXIST"),
    ],
)
def test_who_may_not_is_told_at_once(
    clients: Clients, variables: dict[str, str], code: str
) -> None:
    if "WORKSPACE" in variables:
        address = clients.variables()["MLFLOW_TRACKING_URI"].replace("/default", "/nowhere")
        variables = {"MLFLOW_TRACKING_URI": address}
    told = clients.ask(
        """
try:
    client.create_run("0")
except Exception as error:
    tell([error.error_code, str(error)])
""",
        **variables,
    )
    assert told[0] == code


def test_the_token_may_be_a_password(clients: Clients) -> None:
    token = clients.variables()["MLFLOW_TRACKING_TOKEN"]
    told = clients.ask(
        'tell(client.get_run(client.create_run("0").info.run_id).info.status)',
        MLFLOW_TRACKING_TOKEN="",
        MLFLOW_TRACKING_USERNAME="anyone",
        MLFLOW_TRACKING_PASSWORD=token,
    )
    assert told == "RUNNING"


def test_a_client_hears_no_complaint(clients: Clients) -> None:
    """Neither a warning nor an answer that it has to work around."""
    process = clients.start("""
with mlflow.start_run():
    mlflow.log_metric("a", 1)
    mlflow.log_text("x", "x.txt")
""")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if "View" not in line] == []


def test_a_notebook_needs_the_address_alone(shared_home: Home, newest: str) -> None:
    """The SDK runs in any interpreter; the token comes with the address."""
    program = """
import mlflow, os
from wherry import Workspace
assert "MLFLOW_TRACKING_TOKEN" not in os.environ
mlflow.set_tracking_uri(Workspace.get("default").get_mlflow_tracking_uri())
with mlflow.start_run() as run:
    mlflow.log_metric("a", 1)
print(run.info.run_id)
"""
    clients = Clients(newest, shared_home.folder)
    env = {name: value for name, value in clients.variables().items() if "TRACKING" not in name}
    done = subprocess.run(
        [newest, "-c", program],
        env={**env, "WHERRY_HOME": str(shared_home.home), "PYTHONPATH": str(ROOT / "src")},
        cwd=shared_home.folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.split()[-1]
    assert Workspace.get("default").get_run(run_id).get_metrics() == {"a": 1}
