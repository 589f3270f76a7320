"""The run of a script that was not submitted: it says what it would have logged."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ..core.ids import new_uuid
from .console import echo
from .tracking import name_of_row


class _OfflineRun:
    """What ``Run.get_context()`` returns outside a run. Has no experiment: there is none.

    >>> run = Run.get_context()
    >>> run.log("a", 1)
    Attempted to log scalar metric a:
    1
    """

    def __init__(self, parent: Optional[_OfflineRun] = None) -> None:
        self.id = f"OfflineRun_{new_uuid()}"
        self.parent = parent
        self.type = "OfflineRun"
        self.number = 0
        self.display_name = self.id
        self.description = ""
        self._status = "Running"
        self._tags: Dict[str, str] = {}
        self._properties: Dict[str, str] = {}
        self._children: List[_OfflineRun] = []
        self._files: List[str] = []
        self.input_datasets: Dict[str, Any] = {}
        self.output_datasets: Dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self.display_name

    @property
    def status(self) -> str:
        return self._status

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._tags)

    @property
    def properties(self) -> Dict[str, str]:
        return dict(self._properties)

    def log(self, name: str, value: Any, description: str = "", step: Optional[int] = None) -> None:
        echo(f"Attempted to log scalar metric {name}:\n{value}\n")

    def log_list(
        self, name: str, value: Any, description: str = "", step: Optional[int] = None
    ) -> None:
        echo(f"Attempted to log list metric {name}:\n{value}\n")

    def log_row(
        self, name: Optional[str] = None, description: Optional[str] = None, /, **columns: Any
    ) -> None:
        name = name_of_row(columns) if name is None else name
        echo(f"Attempted to log row metric {name}:\n{columns}\n")

    def log_table(self, name: str, value: Any, description: str = "") -> None:
        echo(f"Attempted to log table metric {name}:\n{value}\n")

    def log_image(
        self, name: str, path: Optional[str] = None, plot: Any = None, description: str = ""
    ) -> None:
        echo(f"Attempted to log image metric {name}:\n{path or plot}\n")

    def log_confusion_matrix(self, name: str, value: Any, description: str = "") -> None:
        echo(f"Attempted to log confusion matrix metric {name}:\n{value}\n")

    def log_accuracy_table(self, name: str, value: Any, description: str = "") -> None:
        echo(f"Attempted to log accuracy table metric {name}:\n{value}\n")

    def log_residuals(self, name: str, value: Any, description: str = "") -> None:
        echo(f"Attempted to log residuals metric {name}:\n{value}\n")

    def log_predictions(self, name: str, value: Any, description: str = "") -> None:
        echo(f"Attempted to log predictions metric {name}:\n{value}\n")

    def upload_file(
        self, name: str, path_or_stream: Any, datastore_name: Optional[str] = None
    ) -> None:
        self._files.append(name)

    def upload_files(self, names: Sequence[str], paths: Sequence[Any], **_: Any) -> None:
        self._files.extend(names)

    def upload_folder(self, name: str, path: Any, datastore_name: Optional[str] = None) -> None:
        self._files.append(name)

    def get_file_names(self) -> List[str]:
        return list(self._files)

    def download_file(self, name: str, output_file_path: Any = None, **_: Any) -> None:
        echo(f"Attempted to download file {name}\n")

    def download_files(self, *_: Any, **__: Any) -> None:
        echo("Attempted to download files\n")

    def tag(self, key: str, value: Optional[str] = None) -> None:
        self._tags[key] = "" if value is None else str(value)

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        for key, value in tags.items():
            self.tag(key, value)

    def get_tags(self) -> Dict[str, str]:
        return self.tags

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        for key in [tags] if isinstance(tags, str) else tags:
            self._tags.pop(key, None)

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        self._properties.update({key: str(value) for key, value in properties.items()})

    def get_properties(self) -> Dict[str, str]:
        return self.properties

    def get_metrics(self, *_: Any, **__: Any) -> Dict[str, Any]:
        return {}

    def get_status(self) -> str:
        return self._status

    def get_details(self) -> Dict[str, Any]:
        return {"runId": self.id, "status": self._status, "properties": self.properties}

    def get_children(self, *_: Any, **__: Any) -> Iterator[_OfflineRun]:
        return iter(list(self._children))

    def child_run(
        self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None
    ) -> _OfflineRun:
        child = _OfflineRun(parent=self)
        child.display_name = name or child.id
        self._children.append(child)
        return child

    def create_children(
        self,
        count: Optional[int] = None,
        tag_key: Optional[str] = None,
        tag_values: Optional[Sequence[Any]] = None,
    ) -> List[_OfflineRun]:
        children = []
        for value in tag_values or [None] * (count or 0):
            child = self.child_run()
            if tag_key:
                child.tag(tag_key, value)
            children.append(child)
        return children

    def wait_for_completion(self, *_: Any, **__: Any) -> Dict[str, Any]:
        return self.get_details()

    def start(self) -> None:
        self._status = "Running"

    def complete(self, _set_status: bool = True) -> None:
        self._status = "Completed"

    def fail(self, error_details: Any = None, error_code: Any = None, **_: Any) -> None:
        self._status = "Failed"

    def cancel(self) -> None:
        self._status = "Canceled"

    def flush(self, timeout_seconds: float = 300) -> None:
        """Nothing is waiting to be sent."""

    def clean(self) -> List[str]:
        return []

    def __enter__(self) -> _OfflineRun:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.complete()
        else:
            self.fail(str(error))

    def __repr__(self) -> str:
        return f"Run(OfflineRun,\nId: {self.id},\nStatus: {self._status})"


OfflineRun = _OfflineRun
