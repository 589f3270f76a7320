"""The one table of settings: what may be set, where, and what holds otherwise."""

from __future__ import annotations

import os.path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .errors import UserErrorException
from .nearest import suggest
from .sizes import parse_bytes
from .text import without_password

FLAG, ENV, FILE, DEFAULT = "flag", "environment", "file", "default"
FILE_NAME = "config"


class Setting(NamedTuple):
    """One thing that may be set; ``env`` is its environment variable."""

    name: str
    env: str
    kind: str
    default: Any
    doc: str


SETTINGS: Tuple[Setting, ...] = (
    Setting("home", "WHERRY_HOME", "path", "~/.wherry", "folder of the embedded server"),
    Setting("cache", "WHERRY_CACHE", "path", "~/.cache/wherry", "folder of what can be made again"),
    Setting("server", "WHERRY_SERVER", "url", "", "address of the server; empty: the one of home"),
    Setting("token", "WHERRY_TOKEN", "text", "", "token for that server; empty: the one of home"),
    Setting("workspace", "WHERRY_WORKSPACE", "text", "default", "workspace of the command line"),
    Setting("output", "WHERRY_OUTPUT", "output", "table", "form of data: table, json, yaml, tsv"),
    Setting("start_timeout_s", "WHERRY_START_TIMEOUT_S", "seconds", 30.0, "wait for a new server"),
    Setting("request_timeout_s", "WHERRY_REQUEST_TIMEOUT_S", "seconds", 60.0, "wait for an answer"),
    Setting("host", "WHERRY_HOST", "text", "127.0.0.1", "address that the server listens on"),
    Setting("port", "WHERRY_PORT", "port", 0, "its port; 0: the last one, or any that is free"),
    Setting("allowed_hosts", "WHERRY_ALLOWED_HOSTS", "text", "", "more names of it, with commas"),
    Setting(
        "instances_host",
        "WHERRY_INSTANCES_HOST",
        "text",
        "",
        "its name for notebooks alone, with the port, where it is reached over the network",
    ),
    Setting(
        "database_url", "WHERRY_DATABASE_URL", "text", "", "PostgreSQL; empty: SQLite in the home"
    ),
    Setting(
        "blobs",
        "WHERRY_BLOBS",
        "bucket",
        "",
        "s3://bucket/prefix, gs:// or az:// for files and snapshots; empty: a folder in the home",
    ),
    Setting("log_level", "WHERRY_LOG_LEVEL", "level", "info", "how much the server writes"),
    Setting("local_cpus", "WHERRY_LOCAL_CPUS", "count", None, "CPUs of target local; empty: all"),
    Setting(
        "local_memory", "WHERRY_LOCAL_MEMORY", "size", "", "memory of target local; empty: all"
    ),
    Setting("local_gpus", "WHERRY_LOCAL_GPUS", "whole", None, "GPUs of target local; empty: all"),
    Setting(
        "container_image",
        "WHERRY_CONTAINER_IMAGE",
        "text",
        "python:3.12-slim",
        "image of container instances whose environment names none",
    ),
    Setting("cancel_grace_s", "WHERRY_CANCEL_GRACE_S", "seconds", 10.0, "from SIGTERM to SIGKILL"),
    Setting(
        "conda.resolver",
        "WHERRY_CONDA_RESOLVER",
        "resolver",
        "auto",
        "who finds conda packages: rattler, pypi, or auto: rattler if a channel answers",
    ),
    Setting(
        "environments_limit",
        "WHERRY_ENVIRONMENTS_LIMIT",
        "size",
        "50GB",
        "what environments may take on a node; images that were built, as much again",
    ),
    Setting("max_body_bytes", "WHERRY_MAX_BODY_BYTES", "whole", 64 * 2**20, "largest JSON request"),
    Setting("max_file_bytes", "WHERRY_MAX_FILE_BYTES", "whole", 2**40, "largest file of a run"),
)


class Settings:
    """Every setting's value, as an attribute, and where it came from."""

    home: str
    cache: str
    server: str
    token: str
    workspace: str
    output: str
    start_timeout_s: float
    request_timeout_s: float
    host: str
    port: int
    allowed_hosts: str
    instances_host: str
    database_url: str
    blobs: str
    log_level: str
    local_cpus: Optional[float]
    local_memory: str
    local_gpus: Optional[int]
    container_image: str
    cancel_grace_s: float
    conda_resolver: str
    environments_limit: str
    max_body_bytes: int
    max_file_bytes: int

    def __init__(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        self.__dict__.update({_attribute(name): value for name, value in values.items()})
        self._origins = dict(origins)

    def origin(self, name: str) -> str:
        """``flag``, ``environment``, ``file`` or ``default``."""
        return self._origins[name]

    def rows(self) -> List[Dict[str, Any]]:
        """The whole table for people; a token is not shown."""
        return [
            {
                "name": setting.name,
                "value": shown(setting.name, getattr(self, _attribute(setting.name))),
                "origin": self.origin(setting.name),
                "env": setting.env,
                "doc": setting.doc,
            }
            for setting in SETTINGS
        ]


def _attribute(name: str) -> str:
    """``conda.resolver`` as ``conda_resolver``."""
    return name.replace(".", "_")


def resolve(
    flags: Mapping[str, Any], env: Mapping[str, str], file_text: Optional[str] = None
) -> Settings:
    """Every setting: a flag wins over the environment, that over the file, that over the default.

    >>> resolve({"port": 80}, {"WHERRY_OUTPUT": "json"}).output
    'json'
    """
    unknown = set(flags) - {setting.name for setting in SETTINGS}
    if unknown:
        raise TypeError(f"there is no setting {sorted(unknown)[0]!r}")
    written = read_file(file_text) if file_text else {}
    values, origins = {}, {}
    for setting in SETTINGS:
        origin, raw = _first(setting, flags, env, written)
        values[setting.name] = _parsed(setting, origin, raw)
        origins[setting.name] = origin
    return Settings(values, origins)


def home_of(flags: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """The home, which must be known before its file can be read."""
    setting = SETTINGS[0]
    origin, raw = _first(setting, flags, env, {})
    return str(_parsed(setting, origin, raw))


def read_file(text: str) -> Dict[str, str]:
    """``name = value`` lines in INI form; the section header ``[wherry]`` may be left out."""
    import configparser  # only those who have a file pay for it

    parser = configparser.ConfigParser(interpolation=None)
    try:
        try:
            parser.read_string(text)
        except configparser.MissingSectionHeaderError:
            parser.read_string("[wherry]\n" + text)
    except configparser.Error as error:
        raise UserErrorException(
            f"the settings file cannot be read: {_reason(error)}",
            hint="write one 'name = value' on each line, and each name once",
        ) from None
    found: Dict[str, str] = dict(parser.defaults())
    for section in parser.sections():
        found.update(parser[section])
    names = {setting.name for setting in SETTINGS} - {"home"}
    for name in found:
        if name not in names:
            raise UserErrorException(
                f"the settings file has {name!r}, which is no setting there{suggest(name, names)}",
                hint=f"take it out with: wherry config unset {name}",
            )
    return found


def _reason(error: Exception) -> str:
    """What is wrong, as far as a parser's error says it."""
    name, bad = getattr(error, "option", None), getattr(error, "errors", None)
    if name:
        return f"it has {name!r} twice"
    if bad:
        line = str(bad[0][1]).replace("\\n", "")
        return f"the line {line} has no '='"
    return str(error).splitlines()[0]


def holds_secret(text: str) -> bool:
    """Whether a settings file says what others must not read."""
    written = read_file(text)
    return any(shown(name, value) != value for name, value in written.items())


def _first(
    setting: Setting, flags: Mapping[str, Any], env: Mapping[str, str], written: Mapping[str, str]
) -> Tuple[str, Any]:
    if flags.get(setting.name) is not None:
        return FLAG, flags[setting.name]
    if env.get(setting.env):
        return ENV, env[setting.env]
    if written.get(setting.name):
        return FILE, written[setting.name]
    return DEFAULT, setting.default


def _parsed(setting: Setting, origin: str, raw: Any) -> Any:
    if raw is None:
        return None
    try:
        return _KINDS[setting.kind](raw)
    except (TypeError, ValueError) as error:
        where = {ENV: setting.env, FILE: f"{setting.name} in the settings file"}
        raise UserErrorException(
            f"{where.get(origin, setting.name)} is {shown(setting.name, raw)!r}, which {error}"
        ) from None


def shown(name: str, value: Any) -> Any:
    """A setting's value as it may be printed."""
    if name == "token" and value:
        return "(set)"
    if name in ("server", "database_url"):
        return without_password(str(value))
    return value


def _path(raw: Any) -> str:
    return str(os.path.abspath(os.path.expanduser(raw)))


def _url(raw: Any) -> str:
    from urllib.parse import urlsplit  # only those who name a server pay for it

    text = str(raw).strip().rstrip("/")
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise ValueError("names a user: write it like http://host:port, the token in WHERRY_TOKEN")
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # such as a port that is no number
        good = False
    if text and not good:
        raise ValueError("is no address: write it like http://127.0.0.1:8700")
    return text


def _bucket(raw: Any) -> str:
    text = str(raw).strip().rstrip("/")
    scheme, _, rest = text.partition("://")
    if text and (scheme not in ("s3", "gs", "az") or not rest.partition("/")[0] or "@" in rest):
        raise ValueError("is no bucket: write it like s3://bucket/prefix, gs://... or az://...")
    return text


def _size(raw: Any) -> str:
    text = str(raw).strip()
    try:
        if text:
            parse_bytes(text)
    except UserErrorException:
        raise ValueError("is not a size: write it like 4GB or 512Mi") from None
    return text


def _number(raw: Any, low: float, high: float, what: str) -> float:
    try:
        value = float(raw)
    except (TypeError, ValueError):
        value = float("nan")
    if not low <= value <= high:
        raise ValueError(f"is not {what}")
    return value


def _whole(raw: Any) -> int:
    value = _number(raw, 0, 2.0**62, "a whole number")
    if value != int(value):
        raise ValueError("is not a whole number")
    return int(value)


def _choice(*choices: str) -> Callable[[Any], str]:
    def parse(raw: Any) -> str:
        text = str(raw).strip().lower()
        if text not in choices:
            raise ValueError(f"is none of {', '.join(choices)}")
        return text

    return parse


_KINDS: Dict[str, Callable[[Any], Any]] = {
    "text": lambda raw: str(raw).strip(),
    "path": _path,
    "size": _size,
    "url": _url,
    "bucket": _bucket,
    "seconds": lambda raw: _number(raw, 0, 1e9, "a number of seconds"),
    "count": lambda raw: _number(raw, 0, 1e6, "a number from 0 up"),
    "whole": _whole,
    "port": lambda raw: int(_number(raw, 0, 65535, "a port from 0 to 65535")),
    "output": _choice("table", "json", "yaml", "tsv"),
    "resolver": _choice("auto", "rattler", "pypi"),
    "level": _choice("debug", "info", "warning", "error"),
}
