"""A run's identity and what the server last said of it: what every part of ``Run`` stands on."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..core.errors import WherryError
from .client import Client, quote
from .connection import connect

TERMINAL = frozenset({"Completed", "Failed", "Canceled"})
EARLY = frozenset({"NotStarted", "Queued", "Provisioning", "Starting", "Preparing"})
STD_LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"


class RunHandle:
    """``id`` and the record; asks the server only when it must."""

    id: str

    def __init__(
        self,
        run_id: str,
        client: Optional[Client] = None,
        record: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.id = run_id
        self._given_client = client
        self._record: Dict[str, Any] = dict(record or {})

    @property
    def _client(self) -> Client:
        if self._given_client is None:
            self._given_client = connect()
        return self._given_client

    @property
    def _path(self) -> str:
        return f"/runs/{quote(self.id)}"

    def _known(self) -> Dict[str, Any]:
        """What does not change: the first record will do."""
        return self._record or self._refresh()

    def _current(self) -> Dict[str, Any]:
        """The record of now; a status that is the last one is not asked for again."""
        if self._record.get("status") in TERMINAL:
            return self._record
        return self._refresh()

    def _latest(self) -> Dict[str, Any]:
        """The record of now or, if the server is away, the last one. For showing."""
        try:
            return self._current()
        except WherryError:
            return self._record

    def _refresh(self) -> Dict[str, Any]:
        return self._take(self._client.get(self._path))

    def _change(self, **changes: Any) -> None:
        self._take(self._client.patch(self._path, changes))

    def _take(self, record: Mapping[str, Any]) -> Dict[str, Any]:
        self._record = {**self._record, **record}
        return self._record
