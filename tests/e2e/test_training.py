"""One training in the three kinds of environments that Azure ML's documents show.

The configurations are written as those documents write them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY
from tests.homes import Home
from tests.podman import BASE, Podman
from wherry import CondaDependencies, Experiment, RunConfiguration, ScriptRunConfig, Workspace

TRAIN = """\
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

from wherry import Run

run = Run.get_context()
X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
for alpha in (0.0, 0.25, 0.5, 0.75):
    model = Ridge(alpha=alpha).fit(X_train, y_train)
    run.log("alpha", alpha)
    run.log("mse", mean_squared_error(y_test, model.predict(X_test)))
"""
SMALL = """\
from packaging.version import Version

from wherry import Run

run = Run.get_context()
points = [(1.0, 2.1), (2.0, 3.9), (3.0, 6.2)]
for alpha in map(float, sorted(["0.50", "0.0", "0.75", "0.25"], key=Version)):
    slope = sum(x * y for x, y in points) / (sum(x * x for x, _ in points) + alpha)
    run.log("alpha", alpha)
    run.log("mse", sum((y - slope * x) ** 2 for x, y in points) / len(points))
"""


def user_managed(python: str) -> RunConfiguration:
    run_config_user_managed = RunConfiguration()
    run_config_user_managed.environment.python.user_managed_dependencies = True
    run_config_user_managed.environment.python.interpreter_path = python
    return run_config_user_managed


def system_managed(package: str) -> RunConfiguration:
    run_config_system_managed = RunConfiguration()
    run_config_system_managed.environment.python.user_managed_dependencies = False
    run_config_system_managed.auto_prepare_environment = True
    run_config_system_managed.environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=[package]
    )
    return run_config_system_managed


def in_a_container(image: str, package: str) -> RunConfiguration:
    run_config = RunConfiguration(framework="python")
    run_config.target = "local"
    run_config.environment.docker.enabled = True
    run_config.environment.docker.base_image = image
    run_config.environment.python.user_managed_dependencies = False
    run_config.prepare_environment = True
    run_config.environment.python.conda_dependencies = CondaDependencies.create(
        conda_packages=[package]
    )
    return run_config


@pytest.fixture
def image(boxes: Home, podman: Podman) -> str:
    """Which trusts whom this machine trusts: its package index may be a mirror."""
    tag = "localhost/wherry-test-training:latest"
    text = f"FROM {BASE}\nENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n"
    podman("build", "--tag", tag, "--file", "-", str(boxes.source), data=text.encode())
    return tag


def trained(boxes: Home, text: str, run_config: RunConfiguration) -> dict[str, Any]:
    """The metrics."""
    boxes.script(text)
    ws = Workspace.create("w", exist_ok=True)
    exp = Experiment(ws, "train")
    src = ScriptRunConfig(
        source_directory=str(boxes.source), script="train.py", run_config=run_config
    )
    run = exp.submit(src)
    details = run.wait_for_completion(show_output=True)
    assert details["status"] == "Completed"
    return run.get_metrics()


def test_a_small_package_in_all_three(boxes: Home, image: str) -> None:
    check_all_three(boxes, image, "packaging", SMALL)


@pytest.mark.installs
def test_scikit_learn_in_all_three(boxes: Home, image: str) -> None:
    check_all_three(boxes, image, "scikit-learn", TRAIN)


def check_all_three(boxes: Home, image: str, package: str, text: str) -> None:
    """The user's interpreter has the package, a conda file asks for it, an image gets it on top."""
    first = trained(boxes, text, user_managed(str(REPOSITORY / ".venv" / "bin" / "python")))
    assert first["alpha"] == [0.0, 0.25, 0.5, 0.75]
    assert len(first["mse"]) == 4
    for config in (system_managed(package), in_a_container(image, package)):
        metrics = trained(boxes, text, config)
        assert metrics["alpha"] == first["alpha"]
        assert metrics["mse"] == pytest.approx(first["mse"], rel=1e-9)
