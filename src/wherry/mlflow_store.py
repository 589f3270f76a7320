"""What MLflow loads in a script that Wherry runs: what is logged goes onto disk, never in the way.

MLflow's own store asks the server for each value and gives up after some minutes without one. Here
a value is a line in the run's spool, as those of ``run.log`` are: the runner sends it, however long
the server is away, and it is there also when the script is killed. Whatever else is asked goes to
the server as MLflow sends it; who reads sees what was logged before.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterable, Optional

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.store.tracking.rest_store import RestStore

from .core.errors import WherryError
from .sdk.connection import connect
from .sdk.console import say
from .sdk.recorder import SubmittedRecorder
from .sdk.settings import RunContext, run_context

_PATIENCE_S = 60.0
_NAME = "mlflow.runName"


def build(store_uri: str, artifact_uri: Optional[str] = None, **_: Any) -> RestStore:
    """For MLflow's list of stores: of every server but the run's own it is MLflow's."""
    credentials = partial(_finder_of_credentials(), store_uri)
    context = run_context()
    if context is None or not context.spool or store_uri.rstrip("/") != context.mlflow.rstrip("/"):
        return RestStore(credentials)
    return SpoolingStore(credentials, context)


def _finder_of_credentials() -> Callable[[str], Any]:
    """Which is somewhere else in MLflow 2."""
    try:
        from mlflow.utils.credentials import get_default_host_creds as find
    except ImportError:
        from mlflow.tracking._tracking_service.utils import _get_default_host_creds as find
    return find  # type: ignore[no-any-return]


class SpoolingStore(RestStore):  # type: ignore[misc]  # MLflow's is not typed
    """The store of a run's own server, from inside the run."""

    def __init__(self, credentials: Any, context: RunContext) -> None:
        super().__init__(credentials)
        self._own = context.run_id
        self._recorder = SubmittedRecorder(context.run_id, context.spool)
        self._params: Dict[Any, str] = {}
        self._told = False

    def log_metric(self, run_id: str, metric: Any) -> None:
        if getattr(metric, "model_id", None):
            super().log_metric(run_id, metric)
        else:
            self._metric(run_id, metric)

    def log_param(self, run_id: str, param: Any) -> None:
        self._param(run_id, param)

    def set_tag(self, run_id: str, tag: Any) -> None:
        self._line("tag", run_id, tag.key, str(tag.value))

    def log_batch(
        self, run_id: str, metrics: Iterable[Any], params: Iterable[Any], tags: Iterable[Any]
    ) -> None:
        for param in params:
            self._param(run_id, param)
        for tag in tags:
            self.set_tag(run_id, tag)
        of_models = []
        for metric in metrics:
            if getattr(metric, "model_id", None):
                of_models.append(metric)
            else:
                self._metric(run_id, metric)
        if of_models:
            super().log_batch(run_id, of_models, [], [])

    def update_run_info(self, run_id: str, run_status: Any, end_time: Any, run_name: Any) -> Any:
        """How the run itself ends is seen by its runner."""
        if run_id != self._own:
            self._flush()
            return super().update_run_info(run_id, run_status, end_time, run_name)
        if run_name:
            self._line("tag", run_id, _NAME, str(run_name))
        return None

    def get_run(self, run_id: str) -> Any:
        self._flush()
        return super().get_run(run_id)

    def delete_tag(self, run_id: str, key: str) -> Any:
        self._flush()
        return super().delete_tag(run_id, key)

    def get_metric_history(self, run_id: str, metric_key: str, *page: Any, **options: Any) -> Any:
        self._flush()
        return super().get_metric_history(run_id, metric_key, *page, **options)

    def _search_runs(self, *search: Any, **options: Any) -> Any:
        self._flush()
        return super()._search_runs(*search, **options)

    def _metric(self, run_id: str, metric: Any) -> None:
        at = metric.timestamp / 1000
        self._line("scalar", run_id, metric.key, float(metric.value), int(metric.step or 0), at)

    def _param(self, run_id: str, param: Any) -> None:
        value = str(param.value)
        known = self._params.setdefault((run_id, param.key), value)
        if known != value:
            raise MlflowException(
                f"Changing param values is not allowed. Param with key={param.key!r} was already "
                f"logged with value={known!r} for run ID={run_id!r}. Attempted logging new value "
                f"{value!r}.",
                INVALID_PARAMETER_VALUE,
            )
        self._line("param", run_id, param.key, value)

    def _line(
        self,
        kind: str,
        run_id: str,
        name: str,
        value: Any,
        step: Optional[int] = None,
        at: Optional[float] = None,
    ) -> None:
        whose = "" if run_id == self._own else run_id
        self._recorder.spool.append(kind, name, value, step, whose, at)

    def _flush(self) -> None:
        """Who reads is to see what was logged before, if the server can be reached."""
        if not self._recorder.spool.sizes():
            return
        try:
            self._recorder.flush(connect(), _PATIENCE_S)
        except WherryError as error:
            if not self._told:
                say(f"what is read may lack what was logged lately: {error.message}")
            self._told = True
