"""Scripts that know MLflow and nothing of Wherry, submitted as they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.homes import Home
from wherry import Environment, Run, Workspace

from .clients import interpreter, quiet

pytestmark = pytest.mark.mlflow

_SKLEARN = """
import mlflow
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
mlflow.autolog()
X, y = load_iris(return_X_y=True)
LogisticRegression(max_iter=300, C=0.5).fit(X, y)
"""
_LIGHTGBM = """
import lightgbm, mlflow
from sklearn.datasets import load_iris
mlflow.lightgbm.autolog()
X, y = load_iris(return_X_y=True)
data = lightgbm.Dataset(X, y)
settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_leaves": 7}
lightgbm.train(settings, data, num_boost_round=5, valid_sets=[data], valid_names=["train"])
"""
_PYTORCH = """
import lightning, mlflow, torch
from torch.utils.data import DataLoader, TensorDataset
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
mlflow.pytorch.autolog(log_models=False)
x = torch.rand(64, 2)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 16)
no = dict.fromkeys(("progress_bar", "model_summary", "checkpointing"), False)
no = {f"enable_{name}": value for name, value in no.items()}
lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, **no).fit(Model(), data)
"""


def submit(home: Home, python: str, text: str) -> Run:
    environment = Environment("with-mlflow")
    environment.python.interpreter_path = python
    environment.environment_variables = dict(quiet())
    run = home.submit(text, environment=environment)
    run.wait_for_completion(raise_on_error=False)
    return run


def completed(home: Home, python: str, text: str) -> Run:
    run = submit(home, python, text)
    assert run.get_status() == "Completed", run.get_details_with_logs()
    return run


def test_start_run_is_the_run_itself(shared_home: Home, python: str) -> None:
    run = completed(
        shared_home,
        python,
        """
import mlflow
mlflow.set_experiment("of another name")
with mlflow.start_run(run_name="mine"):
    mlflow.log_param("lr", 0.1)
    mlflow.log_metric("loss", 0.5, step=3)
    mlflow.log_text("hello", "notes/a.txt")
""",
    )
    assert run.experiment.name == "e"
    assert run.get_metrics() == {"loss": 0.5}
    assert "notes/a.txt" in run.get_file_names()
    assert list(run.get_children()) == []
    assert "of another name" not in Workspace.get("w").experiments


def test_without_start_run(shared_home: Home, python: str) -> None:
    run = completed(shared_home, python, "import mlflow\nmlflow.log_metric('a', 1)\n")
    assert run.get_metrics() == {"a": 1}


def test_each_further_start_run_is_a_child(shared_home: Home, python: str) -> None:
    run = completed(
        shared_home,
        python,
        """
import mlflow
for number in range(3):
    with mlflow.start_run(run_name=f"fold {number}"):
        mlflow.log_metric("fold", number)
""",
    )
    assert run.get_metrics() == {"fold": 0}
    children = sorted(child.get_metrics()["fold"] for child in run.get_children())
    assert children == [1, 2]
    assert {child.get_status() for child in run.get_children()} == {"Completed"}


def test_an_exception_fails_the_run(shared_home: Home, python: str) -> None:
    run = submit(
        shared_home,
        python,
        """
import mlflow
with mlflow.start_run():
    mlflow.log_metric("before", 1)
    with mlflow.start_run(nested=True):
        raise ValueError("no rows")
""",
    )
    assert run.get_status() == "Failed"
    assert run.get_metrics() == {"before": 1}
    assert [child.get_status() for child in run.get_children()] == ["Failed"]


def test_another_tracking_server_is_left_alone(shared_home: Home, newest: str) -> None:
    text = "import mlflow\nassert mlflow.get_tracking_uri() == 'file:///tmp/elsewhere'\n"
    environment = Environment("elsewhere")
    environment.python.interpreter_path = newest
    environment.environment_variables = {
        **quiet(),
        "MLFLOW_TRACKING_URI": "file:///tmp/elsewhere",
    }
    run = shared_home.submit(text, environment=environment)
    assert run.wait_for_completion()["status"] == "Completed"


@pytest.mark.parametrize(
    ("text", "metric", "param"),
    [
        (_SKLEARN, "training_accuracy_score", ("C", "0.5")),
        (_LIGHTGBM, "train-multi_logloss", ("num_leaves", "7")),
        (_PYTORCH, "loss", ("epochs", "3")),
    ],
    ids=["scikit-learn", "lightgbm", "pytorch"],
)
def test_autolog(shared_home: Home, text: str, metric: str, param: tuple[str, str]) -> None:
    run = completed(shared_home, interpreter("training"), text)
    found: Any = run.get_metrics()
    assert metric in found, found
    params = Workspace.get("w")._client.get(f"/runs/{run.id}")["params"]
    assert params[param[0]] == param[1]
