"""The only place of the client that deals with the environment and reads the settings file."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ..core import private_files
from ..core.errors import AuthenticationException, UserErrorException
from ..core.settings import FILE_NAME, Settings, home_of, resolve


class RunContext(NamedTuple):
    """What a runner tells the command that it executes."""

    run_id: str
    server: str
    server_file: str
    token: str
    spool: str
    workspace: str
    experiment: str
    mlflow: str = ""


def load(env: Optional[Mapping[str, str]] = None, **flags: Any) -> Settings:
    """The settings that hold here and now, each with its origin.

    >>> load(workspace="churn").origin("workspace")
    'flag'
    """
    env = os.environ if env is None else env
    path = os.path.join(home_of(flags, env), FILE_NAME)
    text = _file_text(path)
    try:
        if text:
            private_files.check_settings(path, text)
        return resolve(flags, env, text)
    except AuthenticationException:
        raise
    except UserErrorException as error:
        told = error.message.replace("the settings file", f"the settings file {path}", 1)
        raise UserErrorException(told, hint=error.hint) from None


def home() -> str:
    """The home folder, also where its settings file cannot be understood."""
    return home_of({}, os.environ)


def run_context(env: Optional[Mapping[str, str]] = None) -> Optional[RunContext]:
    """The run that this process is a part of, if it is part of one."""
    env = os.environ if env is None else env
    run_id = env.get("WHERRY_RUN_ID") or env.get("AZUREML_RUN_ID")
    if not run_id or not env.get("WHERRY_RUN_TOKEN"):
        return None
    return RunContext(
        run_id=run_id,
        server=env.get("WHERRY_SERVER", ""),
        server_file=env.get("WHERRY_SERVER_FILE", ""),
        token=env["WHERRY_RUN_TOKEN"],
        spool=env.get("WHERRY_SPOOL", ""),
        workspace=env.get("WHERRY_WORKSPACE") or env.get("AZUREML_ARM_WORKSPACE_NAME", ""),
        experiment=env.get("WHERRY_EXPERIMENT") or env.get("AZUREML_ARM_PROJECT_NAME", ""),
        mlflow=env.get("MLFLOW_TRACKING_URI", ""),
    )


def server_environment(home: str) -> Dict[str, str]:
    """The environment of a server that this process starts."""
    env = {name: value for name, value in os.environ.items() if name not in _OF_A_RUN}
    env["WHERRY_HOME"] = home
    if env.get("PYTHONPATH"):  # the server runs in another folder
        paths = env["PYTHONPATH"].split(os.pathsep)
        env["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
    return env


def server_file() -> str:
    """Where the server that ``WHERRY_SERVER`` names writes its address when it moves."""
    return os.environ.get("WHERRY_SERVER_FILE", "") if os.environ.get("WHERRY_SERVER") else ""


def variable(name: str) -> Optional[str]:
    """One of this process's own environment variables."""
    return os.environ.get(name)


def give_to_mlflow(token: str) -> None:
    """MLflow's client sends a name and a password instead, where both are set."""
    os.environ["MLFLOW_TRACKING_TOKEN"] = token
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        os.environ.pop(name, None)


_OF_A_RUN = frozenset({"WHERRY_SERVER", "WHERRY_TOKEN", "WHERRY_RUN_ID", "WHERRY_RUN_TOKEN"})


def _file_text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        reason = "it is not a text file in UTF-8"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    raise UserErrorException(
        f"the settings file {path} cannot be read: {reason}",
        hint="move it away, or write one 'name = value' on each line",
    )
