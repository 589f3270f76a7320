"""Models that are logged, registered and loaded again by MLflow's own client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.homes import Home

from .clients import Clients, interpreter

pytestmark = pytest.mark.mlflow


def test_a_model_is_logged_registered_and_loaded(shared_home: Home, tmp_path: Path) -> None:
    clients = Clients(interpreter("training"), tmp_path)
    told = clients.ask("""
import numpy
from sklearn.linear_model import LinearRegression
model = LinearRegression().fit(numpy.array([[0.0], [1.0]]), [0.0, 2.0])
with mlflow.start_run() as run:
    logged = mlflow.sklearn.log_model(model, name="line", registered_model_name="line")
client.set_registered_model_alias("line", "champion", 1)
def predicted(uri):
    return round(float(mlflow.sklearn.load_model(uri).predict([[3.0]])[0]), 6)
uris = [logged.model_uri, f"runs:/{run.info.run_id}/line"]
uris += ["models:/line/1", "models:/line@champion"]
tell([predicted(uri) for uri in uris])
""")
    assert told == [6.0] * 4
