"""Compute targets and sites from the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from wherry.cli import candidates, compute_delete, compute_ssh, compute_wait
from wherry.cli.compute_file import split_host
from wherry.cli.ending import Usage
from wherry.cli.session import Session
from wherry.core.errors import ComputeTargetException
from wherry.sdk.client import Client

from .conftest import Wherry

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
CLUSTER = """\
$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json
type: amlcompute
name: cpu-cluster
size: STANDARD_DS3_v2
min_instances: 0
max_instances: 2
idle_time_before_scale_down: 120
tags: {team: churn}
"""
MACHINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/vmCompute.schema.json
name: vm
type: virtualmachine
resource_id: me@node1.lab
ssh_settings:
  ssh_port: 2222
  ssh_private_key_file: key
"""
SITE = """\
name: lab
username: me
key: key
hosts:
  - node1.lab
  - {address: node2.lab, port: 2222, cores: 16, memory: 64GB, gpus: 2}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def data(result: Any) -> Any:
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_this_machine_is_always_there(wherry: Wherry) -> None:
    head, row = wherry("compute", "list").out.splitlines()
    assert head.split()[:4] == ["NAME", "TYPE", "LOCATION", "STATE"]
    assert row.split()[:4] == ["local", "local", "local", "Ready"]
    assert wherry("target", "list").out.splitlines()[0] == head
    assert data(wherry("compute", "list", "-o", "json"))[0]["name"] == "local"
    assert wherry("compute", "show", "local").out.startswith("name         local\n")
    refused = wherry("compute", "delete", "local", "--yes")
    assert refused.code == 1
    assert "'local'" in refused.err


def test_a_cluster_from_options(wherry: Wherry, folder: Path) -> None:
    made = wherry(
        *("compute", "create", "cpu-cluster", "--max-instances", "3", "--tier", "low_priority"),
        *("--idle-time-before-scale-down", "10m", "--tag", "a=b", "--location", "eastus"),
    )
    assert made.code == 0, made.err
    assert made.out == ""
    assert "region of Azure" in made.err
    assert "compute target cpu-cluster is there" in made.err
    record = data(wherry("compute", "show", "-n", "cpu-cluster", "-o", "json"))
    assert (record["type"], record["location"], record["tags"]) == (
        "AmlCompute",
        "local",
        {"a": "b"},
    )
    config = record["config"]
    assert (config["min_nodes"], config["max_nodes"], config["idle_seconds"]) == (0, 3, 600)
    assert config["vm_priority"] == "lowpriority"
    shown = wherry("compute", "show", "cpu-cluster").out
    assert "priority     lowpriority" in shown
    assert "nodes        0 of 0-3" in shown
    assert "idle time    10m00s" in shown
    (row,) = [line for line in wherry("compute", "list").out.splitlines() if "cpu-cl" in line]
    assert "AmlCompute" in row
    assert "0 of 0-3" in row


def test_a_cluster_from_a_file(wherry: Wherry, folder: Path) -> None:
    (folder / "cluster.yml").write_text(CLUSTER)
    made = data(
        wherry(
            *("compute", "create", "-f", "cluster.yml", "--set", "max_instances=8"),
            *("--description", "for all", "-o", "json"),
        )
    )
    assert (made["name"], made["tags"]) == ("cpu-cluster", {"team": "churn"})
    assert made["description"] == "for all"
    assert (made["config"]["max_nodes"], made["config"]["idle_seconds"]) == (8, 120)
    assert made["config"]["vm_size"] == "STANDARD_DS3_v2"
    again = wherry("compute", "create", "-f", "cluster.yml")
    assert again.code == 1
    assert "cpu-cluster" in again.err


def test_a_machine_that_is_made_from_a_file(wherry: Wherry, folder: Path) -> None:
    text = "type: virtualmachine\nname: mydsvm\nssh_settings: {ssh_port: 2200}\n"
    (folder / "vm.yml").write_text(text)
    made = data(wherry("compute", "create", "-f", "vm.yml", "--no-wait", "-o", "json"))
    assert (made["type"], made["kind"]) == ("VirtualMachine", "cluster")
    scale = [made["config"][name] for name in ("min_nodes", "max_nodes", "idle_seconds")]
    assert (scale, made["config"]["ssh_port"]) == ([1, 1, 0], 2200)
    again = wherry("compute", "create", "-f", "vm.yml", "--ssh-port", "2201", "--no-wait")
    assert (again.code, "is another one" in again.err) == (1, True)


def test_ssh_to_bare_containers(wherry: Wherry) -> None:
    place = {"name": "c1", "kind": "cluster", "location": "boxes"}
    with pytest.raises(Usage, match="c1 are bare containers, without SSH"):
        compute_ssh._place({**place, "nodes": [{"address": "10.88.0.2", "port": None}]}, None)
    with pytest.raises(Usage, match="no node on another machine"):
        compute_ssh._place({**place, "nodes": []}, None)


def test_a_cluster_is_changed(wherry: Wherry) -> None:
    wherry("compute", "create", "cpu-cluster", "-q")
    changed = wherry(
        *("compute", "update", "-n", "cpu-cluster", "--max-instances", "8"),
        *("--set", "tags.team=churn", "--set", "idle_time_before_scale_down=1h", "-o", "json"),
    )
    record = data(changed)
    assert (record["config"]["max_nodes"], record["config"]["idle_seconds"]) == (8, 3600)
    assert record["tags"] == {"team": "churn"}
    assert wherry("compute", "update", "cpu-cluster").code == 2
    refused = wherry("compute", "update", "cpu-cluster", "--set", "size=big")
    assert "has a field 'size', which such a target has not" in refused.err
    refused = wherry("compute", "update", "cpu-cluster", "--min-instances", "9")
    assert "max nodes count must be greater than or equal to min nodes count" in refused.err


def test_a_cluster_is_stopped_started_and_deleted(wherry: Wherry) -> None:
    wherry("compute", "create", "cpu-cluster", "-q")
    assert "takes no more runs" in wherry("compute", "stop", "cpu-cluster").err
    assert "Stopped" in wherry("compute", "show", "cpu-cluster").out
    assert "takes runs again" in wherry("compute", "start", "cpu-cluster").err
    assert wherry("compute", "restart", "cpu-cluster").code == 0
    assert wherry("compute", "list-nodes", "cpu-cluster", "-o", "json").out == "[]\n"
    refused = wherry("compute", "delete", "cpu-cluster")
    assert refused.code == 2
    assert "nobody is there to answer 'Delete compute target cpu-cluster?'" in refused.err
    refused = wherry("compute", "detach", "cpu-cluster", "--yes")
    assert "was made here, and is not attached" in refused.err
    gone = wherry("compute", "delete", "cpu-cluster", "--yes")
    assert "compute target cpu-cluster deleted" in gone.err
    assert [each["name"] for each in data(wherry("compute", "list", "-o", "json"))] == ["local"]


def test_giving_up_a_node_asks_first_and_says_what_it_means(wherry: Wherry) -> None:
    wherry("compute", "create", "cpu-cluster", "-q")
    refused = wherry("compute", "give-up", "cpu-cluster", "node1")
    assert refused.code == 2
    assert "Its host is not used until it answers." in refused.err
    assert "may still be executing there" in compute_delete._meaning("lab", "node1", "run_1")
    refused = wherry("compute", "give-up", "cpu-cluster", "node1", "--yes")
    assert (refused.code, "has no node 'node1'" in refused.err) == (1, True)
    record = {"name": "node1", "kind": "machine", "problem": "it does not answer"}
    assert "wherry compute detach node1 --force" in compute_wait._what_helps(record)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["create"], 2, "the compute target has no name"),
        (["create", "local"], 1, "'local' is reserved"),
        (["create", "a_b"], 1, "'a_b' is not a valid compute target name"),
        (["create", "x1", "--location", "moon"], 1, "there is no site 'moon'"),
        (["create", "x1", "-n", "y1"], 2, "both NAME (x1) and --name (y1) are given"),
        (["create", "x1", "--type", "aks"], 2, "'aks' is none of amlcompute"),
        (["create", "x1", "--tier", "cheap"], 2, "'cheap' is none of dedicated, low_priority"),
        (["create", "x1", "--max-instances", "many"], 2, "'many' is not a whole number"),
        (["create", "x1", "--set", "max_instances=many"], 1, "max_instances is 'many'"),
        (["create", "x1", "--set", "sise=big"], 1, "did you mean 'size'?"),
        (["create", "x1", "--set", "type=aks"], 1, "cannot make compute of type 'aks'"),
        (["show", "nosuch"], 1, "has no compute target 'nosuch'"),
        (["show"], 2, "no name is given"),
        (["attach", "vm"], 2, "the compute target names no machine"),
        (["attach", "vm", "me@"], 2, "'me@' names no host"),
        (["attach", "vm", "a:b"], 2, "'a:b' names no host"),
        (["attach", "vm", "a", "--key", "nosuch"], 2, "there is no file 'nosuch'"),
        (["attach", "vm", "a", "-t", "amlcompute"], 2, "is made, not attached"),
        (["attach", "vm", "--resource-id", "/subscriptions/1"], 1, "is a machine in Azure"),
    ],
)
def test_what_cannot_be(
    wherry: Wherry, folder: Path, arguments: list[str], code: int, sentence: str
) -> None:
    result = wherry("compute", *arguments)
    assert sentence in result.err
    assert (result.code, result.out) == (code, "")
    assert len(data(wherry("compute", "list", "-o", "json"))) == 1


def test_a_machine_is_attached(
    wherry: Wherry, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "key").write_text(KEY)
    monkeypatch.setattr("sys.stdin", io.StringIO("geheim\n"))
    sent = bodies(client, monkeypatch)
    attach = ("compute", "attach", "node1", "me@node1.lab:2222", "--jump", "gate.lab", "--no-wait")
    made = wherry(*attach, "--key", "key", "--passphrase")
    assert made.code == 0, made.err
    assert sent[-1]["secrets"] == {"private_key": KEY, "passphrase": "geheim"}
    assert sent[-1]["config"] == {
        "address": "node1.lab",
        "port": 2222,
        "username": "me",
        "jump": "gate.lab",
    }
    shown = wherry("compute", "show", "node1").out
    assert "address      me@node1.lab:2222" in shown
    assert "geheim" not in shown + wherry("compute", "show", "node1", "-o", "json").out
    assert wherry("compute", "detach", "node1", "--yes").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused = wherry("compute", "attach", "node1", "me@node1.lab", "--password")
    assert (refused.code, "nobody is there to answer" in refused.err) == (2, True)


def test_every_field_of_azures_clusters_may_stand_in_a_file(wherry: Wherry, folder: Path) -> None:
    (folder / "cluster.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json\n"
        "name: full\ntype: amlcompute\nsize: STANDARD_DS3_v2\ntier: low_priority\n"
        "min_instances: 0\nmax_instances: 2\nidle_time_before_scale_down: 120\n"
        "location: westus\ndescription: all of it\ntags: {team: lab, number: 12}\n"
        "ssh_public_access_enabled: true\nenable_node_public_ip: false\n"
        "ssh_settings: {admin_username: me, admin_password: hush, ssh_key_value: ssh-rsa AAAA}\n"
        "network_settings: {vnet_name: net, subnet: below}\n"
        "identity: {type: user_assigned, user_assigned_identities: [{resource_id: /a}]}\n"
        "id: /subscriptions/a\nresource_id: /subscriptions/a\nprovisioning_state: Succeeded\n"
        "provisioning_errors: []\ncreated_on: '2024-01-01'\n"
    )
    made = data(wherry("compute", "create", "-f", "cluster.yml", "-o", "json"))
    assert (made["description"], made["tags"]) == ("all of it", {"team": "lab", "number": "12"})
    assert made["config"]["vm_priority"] == "lowpriority"
    assert "hush" not in str(made)


def test_a_machine_from_a_file(
    wherry: Wherry, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "key").write_text(KEY)
    (folder / "vm.yml").write_text(MACHINE)
    sent = bodies(client, monkeypatch)
    monkeypatch.chdir("/")
    made = wherry("compute", "attach", "-f", str(folder / "vm.yml"), "--no-wait")
    assert made.code == 0, made.err
    assert (sent[-1]["type"], sent[-1]["kind"]) == ("VirtualMachine", "machine")
    assert sent[-1]["config"] == {"address": "node1.lab", "port": 2222, "username": "me"}
    assert sent[-1]["secrets"] == {"private_key": KEY}


def bodies(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is sent with PUT from now on."""
    sent: list[dict[str, Any]] = []
    request = client.request

    def keep(method: str, path: str, **options: Any) -> Any:
        if method == "PUT":
            sent.append(options["json"])
        return request(method, path, **options)

    monkeypatch.setattr(client, "request", keep)
    return sent


def test_a_site(
    wherry: Wherry, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "key").write_text(KEY)
    (folder / "site.yml").write_text(SITE)
    sent = bodies(client, monkeypatch)
    made = wherry("site", "create", "-f", "site.yml", "--host", "you@node3.lab")
    assert made.code == 0, made.err
    assert "site lab has 3 hosts" in made.err
    assert sent[-1]["secrets"] == {"private_key": KEY}
    shown = wherry("site", "show", "lab").out
    assert [line.split()[:2] for line in shown.splitlines()[-3:]] == [
        ["node1.lab", "me"],
        ["node2.lab", "node2.lab:2222"],
        ["node3.lab", "you"],
    ]
    assert "16" in shown
    assert "hosts        3 (3 free)" in shown
    listed = wherry("site", "list").out.splitlines()
    assert listed[0].split()[:5] == ["NAME", "KIND", "HOSTS", "FREE", "TAKEN"]
    assert listed[2].split()[:5] == ["lab", "ssh", "3", "3", "0"]
    changed = wherry(
        *("site", "update", "lab", "--remove-host", "node2.lab:2222", "--add-host", "me@node4.lab"),
        *("--query", "config.hosts[].address", "-o", "json"),
    )
    assert data(changed) == ["node1.lab", "node3.lab", "node4.lab"]
    assert wherry("site", "update", "lab", "--remove-host", "node9.lab").code == 2
    assert wherry("site", "update", "lab").code == 2
    wherry("compute", "create", "lab-cpu", "--location", "lab", "-q")
    refused = wherry("site", "delete", "lab", "--yes")
    assert "is used by" in refused.err
    wherry("compute", "delete", "lab-cpu", "--yes", "-q")
    assert wherry("site", "delete", "lab", "--yes").code == 0
    assert wherry("site", "show", "lab").code == 1


def test_hosts_of_a_site_may_be_logged_in_to_with_secrets_of_their_own(
    wherry: Wherry, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "key").write_text(KEY)
    (folder / "site.yml").write_text(
        "name: lab\nport: 2222\nhosts:\n  - a.lab\n"
        "  - {address: b.lab, username: you, password: geheim}\n"
        "  - {address: c.lab, port: 22, key: key, passphrase: sesame}\n"
    )
    sent = bodies(client, monkeypatch)
    made = wherry("site", "create", "-f", "site.yml", "-o", "json")
    assert made.code == 0, made.err
    assert sent[-1]["secrets"] == {
        "password@b.lab:2222": "geheim",
        "private_key@c.lab:22": KEY,
        "passphrase@c.lab:22": "sesame",
    }
    assert "geheim" not in made.out


def test_a_site_whose_engine_is_not_there_yet_says_so(wherry: Wherry) -> None:
    made = wherry("site", "create", "boxes", "--containers", "--engine", "unix:///no/such.sock")
    assert made.code == 0, made.err
    assert "nodes of site boxes are containers of" in made.err
    assert "nothing can be made there yet: site 'boxes': the container engine at" in made.err


def test_a_cluster_that_may_have_more_nodes_than_its_site_says_so(
    wherry: Wherry, folder: Path
) -> None:
    (folder / "site.yml").write_text("name: lab\nhosts: [a, b, {address: c, cores: 16}]\n")
    wherry("site", "create", "-f", "site.yml", "-q")
    made = wherry("compute", "create", "lab-cpu", "--location", "lab", "--max-instances", "3")
    assert "site 'lab' has 2 hosts of size cpu1, fewer than max_nodes, 3" in made.err
    fits = wherry("compute", "create", "lab-two", "--location", "lab", "--max-instances", "2")
    assert "fewer than" not in fits.err
    many = wherry("compute", "create", "many", "--max-instances", "5000")
    assert "at a time, fewer than max_nodes, 5000" in many.err


def test_what_to_do_about_a_machine_is_told() -> None:
    error = {"code": "port_closed", "message": "nothing listens", "hint": "start sshd there"}
    record = {"name": "vm", "kind": "machine", "provisioning_state": "Failed"}
    with pytest.raises(ComputeTargetException) as failed:
        compute_wait._check({**record, "provisioning_errors": [error]})
    assert failed.value.message == "compute target vm cannot be used: nothing listens"
    assert (failed.value.hint or "").startswith("start sshd there; attach it again when")


@pytest.mark.parametrize(
    ("problem", "preparing", "over"),
    [("no room", 0, True), ("no room", 1, False), (None, 0, False)],
)
def test_nobody_waits_for_nodes_that_do_not_come(
    problem: str | None, preparing: int, over: bool
) -> None:
    status = {
        "node_state_counts": {"idle": 1, "preparing": preparing},
        "scale_settings": {"min_nodes": 2},
    }
    record = {"provisioning_state": "Succeeded", "status": status, "problem": problem}
    assert compute_wait._is_ready(record) is over


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["create", "lab"], 2, "the site has no hosts"),
        (["create", "--host", "a"], 2, "the site has no name"),
        (["create", "lab", "--host", "a", "--host", "a"], 1, "is listed twice"),
        (["create", "local", "--host", "a"], 1, "'local' is this machine"),
        (["delete", "nosuch", "--yes"], 1, "there is no site 'nosuch'"),
        (["update", "nosuch", "--add-host", "a"], 1, "there is no site 'nosuch'"),
    ],
)
def test_what_cannot_be_a_site(
    wherry: Wherry, arguments: list[str], code: int, sentence: str
) -> None:
    result = wherry("site", *arguments)
    assert sentence in result.err
    assert result.code == code


def test_names_are_completed(wherry: Wherry, client: Client) -> None:
    wherry("compute", "create", "cpu-cluster", "-q")
    found = [item.value for item in candidates.find("targets", Session(client), "")]
    assert found == ["local", "cpu-cluster"]
    assert [item.value for item in candidates.find("sites", Session(client), "l")] == ["local"]
    sizes = [item.value for item in candidates.find("sizes", Session(client), "", {})]
    assert sizes[0] == "local-1"
    of_local = {"name": "local"}
    assert candidates.find("nodes", Session(client), "", of_local)
    assert candidates.find("nodes", Session(client), "none-such", of_local) == []


def test_sizes_and_costs(wherry: Wherry) -> None:
    head, *rows = wherry("compute", "list-sizes").out.splitlines()
    assert head.split() == ["NAME", "CPUS", "MEMORY", "GPUS", "PRICE", "PER", "HOUR"]
    assert rows[0].startswith("local-1")
    everywhere = wherry("compute", "list-sizes", "--location", "eastus", "-o", "json")
    assert data(everywhere) == data(wherry("site", "list-sizes", "local", "-o", "json"))
    assert wherry("compute", "cost").out == "TARGET  NODE TIME  IDLE  COST\n"
    assert wherry("compute", "cost", "--by", "day").out.split()[:2] == ["TARGET", "DAY"]
    assert data(wherry("compute", "cost", "--by", "run", "-o", "json")) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("node1", ("", "node1", None)),
        ("me@node1:22", ("me", "node1", 22)),
        ("a@b@node1", ("a@b", "node1", None)),
        ("me@[::1]:2222", ("me", "::1", 2222)),
        ("::1", ("", "::1", None)),
    ],
)
def test_hosts_are_taken_apart(text: str, parts: tuple[str, str, int | None]) -> None:
    assert split_host(text) == parts


@pytest.mark.parametrize("text", ["", "me@", "a:0", "a:70000", "a:b", " a"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(Usage):
        split_host(text)


def test_ssh_gets_the_host_keys_that_are_known(tmp_path: Path) -> None:
    place = {"address": "n", "port": 2222, "username": "me", "host_key": "ssh-ed25519 AAAA"}
    way = {"jump": "me@gate:23,inner", "jump_host_keys": ["ssh-ed25519 BBBB", ""]}
    words = compute_ssh.arguments({**place, **way}, "k", str(tmp_path))
    jump = ("-J", "me@gate:23,inner")
    assert words == ["-p", "2222", "-i", "k", *jump, "-F", str(tmp_path / "config"), "--", "me@n"]
    written = (tmp_path / "config").read_text()
    names = [line for line in written.splitlines() if line.startswith("Host ")]
    assert names == ['Host "gate"', 'Host "n"', "Host *"]
    assert (tmp_path / "known_hosts_0").read_text() == "wherry-0 ssh-ed25519 BBBB\n"
    assert (tmp_path / "known_hosts_1").read_text() == "wherry-1 ssh-ed25519 AAAA\n"
    assert compute_ssh.arguments({"address": "n"}, None, str(tmp_path)) == ["--", "n"]


def test_ssh_to_a_cluster_here(wherry: Wherry) -> None:
    wherry("compute", "create", "cpu-cluster", "-q")
    refused = wherry("compute", "connect-ssh", "cpu-cluster")
    assert (refused.code, "has no node on another machine" in refused.err) == (2, True)
