"""A run's files: sent, listed and fetched; none ever leaves the folder it is fetched into."""

from __future__ import annotations

import os
import posixpath
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..core.errors import NotFoundError, UserErrorException
from ..core.snapshots import check_path, folders_of
from .client import quote
from .fetching import Wanted, batches, fetch, fetch_batch
from .handle import RunHandle
from .recorder import Recorder, scratch, walk
from .sending import put_file, put_files

_LOG_FOLDERS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/")
_CHUNK = 1 << 16


class RunFiles(RunHandle):
    """The files of a run, by name; folders are written with ``/``."""

    _recorder: Optional[Recorder] = None

    def upload_file(
        self, name: str, path_or_stream: Any, datastore_name: Optional[str] = None
    ) -> None:
        """Keep a file, or what a stream yields, under ``name``.

        >>> run.upload_file("outputs/model.pkl", "model.pkl")
        """
        name = _file_name(name)
        if hasattr(path_or_stream, "read"):
            with scratch() as folder:
                saved = os.path.join(folder, "stream")
                _save(path_or_stream, saved)
                self._store(name, saved)
            return
        self._store(name, _source(name, path_or_stream))

    def upload_files(
        self,
        names: Sequence[str],
        paths: Sequence[Any],
        return_artifacts: bool = False,
        timeout_seconds: Optional[float] = None,
        datastore_name: Optional[str] = None,
    ) -> None:
        """Keep several files, each under its name.

        >>> run.upload_files(["a.txt", "b.txt"], ["out/a.txt", "out/b.txt"])
        """
        if isinstance(names, str) or isinstance(paths, str):
            raise UserErrorException("names and paths are lists; upload_file takes one file")
        if len(names) != len(paths):
            raise UserErrorException(f"{len(names)} names were given for {len(paths)} paths")
        streams = [hasattr(path, "read") for path in paths]
        self._store_many(
            [
                (_file_name(name), _source(name, path))
                for name, path, stream in zip(names, paths, streams)
                if not stream
            ]
        )
        for name, path, stream in zip(names, paths, streams):
            if stream:
                self.upload_file(name, path)

    def upload_folder(self, name: str, path: Any, datastore_name: Optional[str] = None) -> None:
        """Keep every file below the folder ``path`` under ``name``.

        >>> run.upload_folder("outputs/plots", "plots")
        """
        root = os.fspath(path)
        if not os.path.isdir(root):
            raise UserErrorException(f"there is no folder {str(root)!r} to upload as {name!r}")
        self._store_many(
            [
                (_file_name(posixpath.join(os.fspath(name), relative)), source)
                for source, relative in walk(root)
            ]
        )

    def get_file_names(self) -> List[str]:
        """The names of all files, logs among them.

        >>> run.get_file_names()
        ['outputs/model.pkl', 'user_logs/std_log.txt']
        """
        return [str(item["path"]) for item in self._records()]

    def list_files(self) -> List[Dict[str, Any]]:
        """Every file with ``path``, ``size``, ``digest`` and ``modified_at``."""
        items: List[Dict[str, Any]] = self._client.get(f"{self._path}/files")["items"]
        return items

    def download_file(
        self,
        name: str,
        output_file_path: Any = None,
        _validate_checksum: bool = False,
    ) -> None:
        """Fetch a file. The path may be a folder; left out, it is the file's own name here.

        >>> run.download_file("outputs/model.pkl", "model.pkl")
        """
        base = os.path.basename(name)
        path = os.fspath(output_file_path) if output_file_path is not None else base
        if os.path.isdir(path) or path.endswith(os.sep):
            path = os.path.join(path, base)
        self._fetch(name, path)

    def download_files(
        self,
        prefix: Optional[str] = None,
        output_directory: Any = None,
        output_paths: Optional[Sequence[Any]] = None,
        batch_size: int = 100,
        append_prefix: bool = True,
        timeout_seconds: Optional[float] = None,
    ) -> None:
        """Fetch every file whose name starts with ``prefix``.

        ``append_prefix=False`` leaves the prefix out of the paths below ``output_directory``.

        >>> run.download_files(prefix="outputs/", output_directory="results")
        """
        records = [item for item in self._records() if item["path"].startswith(prefix or "")]
        names = [str(item["path"]) for item in records]
        root = os.fspath(output_directory) if output_directory is not None else os.curdir
        if output_paths is not None:
            if len(output_paths) != len(names):
                raise UserErrorException(
                    f"{len(output_paths)} output_paths were given for {len(names)} files"
                )
            targets = [os.path.join(root, os.fspath(path)) for path in output_paths]
        else:
            check_together(names)
            shown = [name if append_prefix else _without(name, prefix or "") for name in names]
            targets = [place_below(root, name) for name in shown]
        for _ in self.fetch_all(records, targets):
            pass

    def fetch_all(self, records: Sequence[Dict[str, Any]], targets: Sequence[str]) -> Iterator[int]:
        """Fetch each of ``list_files()`` to its path; small ones travel together.

        Yields, step by step, how many bytes have come with it.
        """
        pending = set(self._pending())
        wanted = [
            Wanted(str(each["path"]), int(each["size"]), str(each["digest"]), target)
            for each, target in zip(records, targets)
        ]
        for folder in dict.fromkeys(os.path.dirname(target) for target in targets):
            os.makedirs(folder or os.curdir, exist_ok=True)
        small = [each for each in wanted if each.small and each.name not in pending]
        for batch in batches(small):
            fetch_batch(self._client, self._path, batch)
            yield sum(each.size for each in batch)
        together = set(small)
        for each in wanted:
            if each not in together:
                self._fetch(each.name, each.target)
                yield each.size

    def get_all_logs(self, destination: Any = None) -> List[str]:
        """Fetch all logs into a folder; their paths there.

        >>> run.get_all_logs("logs")
        """
        root = os.fspath(destination) if destination is not None else os.curdir
        paths = []
        for name in self.get_file_names():
            if name.startswith(_LOG_FOLDERS):
                path = place_below(root, name)
                self._fetch(name, path)
                paths.append(path)
        return paths

    def _records(self) -> List[Dict[str, Any]]:
        """What ``list_files`` tells, and what this process has uploaded and nobody yet sent."""
        there = self.list_files()
        names = {item["path"] for item in there}
        more = [name for name in self._pending() if name not in names]
        there += [{"path": name, "size": 0, "digest": ""} for name in more]
        return sorted(there, key=lambda item: str(item["path"]))

    def _pending(self) -> List[str]:
        return self._recorder.pending_files(self.id) if self._recorder is not None else []

    def _store_many(self, files: Iterable[Tuple[str, str]]) -> None:
        if self._recorder is not None:
            self._recorder.put_files(self.id, files)
        else:
            put_files(self._client, self.id, files)

    def _store(self, name: str, source: str) -> None:
        if self._recorder is not None:
            self._recorder.put_file(self.id, name, source)
        else:
            put_file(self._client, self.id, name, source)

    def _fetch(self, name: str, path: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        try:
            if not self._copy_pending(name, path):
                fetch(self._client, f"{self._path}/files/{quote(name, safe='/')}", path)
        except NotFoundError as error:
            names = ", ".join(self.get_file_names()[:5]) or "none"
            raise NotFoundError(
                f"run {self.id} has no file {name!r}", hint=f"it has: {names}"
            ) from error

    def _copy_pending(self, name: str, path: str) -> bool:
        """Take a file that this process has just uploaded and the runner has not yet sent."""
        found = self._recorder.pending_file(self.id, name) if self._recorder is not None else None
        if found is None:
            return False
        part = os.path.join(os.path.dirname(path), f".wherry-{os.getpid()}-{time.monotonic_ns()}")
        try:
            with open(found, "rb") as source:
                _save(source, part)
            os.replace(part, path)
        except FileNotFoundError:  # it was sent a moment ago
            return False
        finally:
            if os.path.exists(part):
                os.unlink(part)
        return True


def check_together(names: Sequence[str]) -> None:
    """A run may have both a file and a folder of one name; a disk cannot."""
    for name in sorted(folders_of(names) & set(names)):
        raise UserErrorException(
            f"the run has a file {name!r} and a folder {name!r}, which cannot lie together",
            hint="fetch one of them, or each into a place of its own",
        )


def place_below(root: str, name: str) -> str:
    """The path of ``name`` below ``root``, or an error where it would lie elsewhere."""
    path = os.path.join(root, *check_path(name).split("/"))
    real_root = os.path.realpath(root)
    if os.path.commonpath([real_root, os.path.realpath(os.path.dirname(path))]) != real_root:
        raise UserErrorException(
            f"{name!r} would be written outside {root!r}",
            hint="a link in that folder leads out of it",
        )
    return path


def _file_name(name: Any) -> str:
    text = os.fspath(name)
    while text.startswith("./"):
        text = text[2:]
    return check_path(text)


def _source(name: Any, path: Any) -> str:
    if not os.path.isfile(os.fspath(path)):
        raise UserErrorException(f"there is no file {str(path)!r} to upload as {name!r}")
    return str(os.fspath(path))


def _without(name: str, prefix: str) -> str:
    rest = name[len(prefix) :].lstrip("/")
    return rest or os.path.basename(name)


def _save(stream: Any, path: str) -> None:
    with open(path, "wb") as file:
        for chunk in iter(lambda: stream.read(_CHUNK), None):
            if not chunk:
                return
            file.write(chunk.encode() if isinstance(chunk, str) else chunk)
