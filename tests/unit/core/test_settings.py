from __future__ import annotations

import os
from pathlib import Path

import pytest

from wherry.core.errors import UserErrorException
from wherry.core.settings import SETTINGS, Settings, home_of, read_file, resolve


def test_the_table_and_the_typed_attributes_agree() -> None:
    names = [setting.name.replace(".", "_") for setting in SETTINGS]
    assert names == list(Settings.__annotations__)
    assert len(SETTINGS) <= 30


def test_every_setting_has_its_own_variable_and_a_sentence() -> None:
    variables = [setting.env for setting in SETTINGS]
    assert len(set(variables)) == len(variables)
    assert all(env.startswith("WHERRY_") for env in variables)
    assert all(setting.doc for setting in SETTINGS)


def test_defaults() -> None:
    settings = resolve({}, {})
    assert settings.home == os.path.expanduser("~/.wherry")
    assert settings.workspace == "default"
    assert settings.host == "127.0.0.1"
    assert settings.port == 0
    assert settings.local_cpus is None
    assert settings.origin("home") == "default"


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default() -> None:
    file = "workspace = file\noutput = yaml\nport = 1"
    env = {"WHERRY_WORKSPACE": "env", "WHERRY_OUTPUT": "json"}
    settings = resolve({"workspace": "flag"}, env, file)
    assert (settings.workspace, settings.origin("workspace")) == ("flag", "flag")
    assert (settings.output, settings.origin("output")) == ("json", "environment")
    assert (settings.port, settings.origin("port")) == (1, "file")
    assert (settings.host, settings.origin("host")) == ("127.0.0.1", "default")


def test_an_empty_variable_is_no_value() -> None:
    assert resolve({}, {"WHERRY_OUTPUT": ""}).origin("output") == "default"


def test_a_flag_of_none_is_no_flag() -> None:
    assert resolve({"output": None}, {}).origin("output") == "default"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"WHERRY_PORT": "80a"}, "WHERRY_PORT is '80a', which is not a port from 0 to 65535"),
        ({"WHERRY_PORT": "70000"}, "WHERRY_PORT"),
        ({"WHERRY_OUTPUT": "xml"}, "is none of table, json, yaml"),
        ({"WHERRY_CANCEL_GRACE_S": "-1"}, "is not a number of seconds"),
        ({"WHERRY_CANCEL_GRACE_S": "nan"}, "is not a number of seconds"),
        ({"WHERRY_LOCAL_GPUS": "1.5"}, "is not a whole number"),
        ({"WHERRY_SERVER": "host:80"}, "write it like http://127"),
    ],
)
def test_a_bad_value_is_refused_with_its_origin(env: dict[str, str], said: str) -> None:
    with pytest.raises(UserErrorException, match=said):
        resolve({}, env)


def test_a_bad_value_in_the_file_names_the_file() -> None:
    with pytest.raises(UserErrorException, match="port in the settings file is 'x'"):
        resolve({}, {}, "port = x")


def test_an_unknown_flag_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="no setting 'colour'"):
        resolve({"colour": "red"}, {})


@pytest.mark.parametrize(
    "text",
    ["port = 80\n", "[wherry]\nport = 80\n", "# mine\n[server]\nport: 80\n", "port=80"],
)
def test_the_file_may_have_sections_or_not(text: str) -> None:
    assert read_file(text) == {"port": "80"}


def test_percent_signs_in_the_file_mean_themselves() -> None:
    assert read_file("database_url = postgresql://u:p%40@h/db")["database_url"].count("%40") == 1


@pytest.mark.parametrize("text", ["portt = 80", "home = /elsewhere", "[wherry]\n= 3"])
def test_a_file_with_something_else_is_refused(text: str) -> None:
    with pytest.raises(UserErrorException, match="settings file"):
        resolve({}, {}, text)


def test_the_home_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert home_of({}, {"WHERRY_HOME": "here"}) == str(tmp_path / "here")
    assert home_of({"home": tmp_path / "flag"}, {"WHERRY_HOME": "here"}) == str(tmp_path / "flag")


def test_the_server_address_loses_its_last_slash() -> None:
    assert resolve({}, {"WHERRY_SERVER": "http://h:1/"}).server == "http://h:1"


def test_the_table_for_people_hides_the_token() -> None:
    rows = {row["name"]: row for row in resolve({"token": "secret"}, {}).rows()}
    assert rows["token"]["value"] == "(set)"
    assert rows["port"] == {
        "name": "port",
        "value": 0,
        "origin": "default",
        "env": "WHERRY_PORT",
        "doc": rows["port"]["doc"],
    }


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://u:geheim@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:ge@heim@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:geheim@/x?host=/tmp", "postgresql://u:***@/x?host=/tmp"),
        ("postgresql://h/db?sslmode=a&password=geheim", "postgresql://h/db?sslmode=a&password=***"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("sqlite:////a/b@c", "sqlite:////a/b@c"),
    ],
)
def test_no_password_is_shown(address: str, told: str) -> None:
    rows = resolve({"database_url": address, "token": "geheim"}, {}).rows()
    shown = {row["name"]: row["value"] for row in rows}
    assert shown["database_url"] == told
    assert shown["token"] == "(set)"


@pytest.mark.parametrize("address", ["http://me:geheim@host", "https://me:geheim@host:1/x"])
def test_a_server_is_named_without_a_user(address: str) -> None:
    with pytest.raises(UserErrorException, match="names a user") as caught:
        resolve({}, {"WHERRY_SERVER": address})
    assert ":geheim" not in str(caught.value)
