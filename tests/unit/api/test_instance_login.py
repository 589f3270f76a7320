"""Who is let in to a compute instance, and to which."""

from __future__ import annotations

from datetime import timedelta

from tests.fuzz.test_connections import Server
from tests.homes import wait_until
from tests.planes import TOKEN
from tests.unit.api.instance_world import (
    BASE,
    BEARER,
    PAGE,
    World,
    head_of,
    websocket,
    world,
)
from wherry.control import instance_logins, instance_tokens

__all__ = ["world"]


def test_an_address_that_was_opened_lets_in_once(world: World) -> None:
    address = world.open()
    reply = world.ask(address)
    assert (reply.status, reply.headers["Location"]) == (303, f"{BASE}lab")
    attributes = reply.headers["Set-Cookie"].split("; ")[1:]
    assert sorted(attributes) == ["HttpOnly", "Max-Age=86400", f"Path={BASE}", "SameSite=lax"]
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    again = world.ask(address)
    assert (again.status, again.headers["Set-Cookie"]) == (401, None)
    assert "good once" in again.json["detail"]
    cookie = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}
    assert world.ask(f"{BASE}lab", headers=cookie).status == 200
    assert world.ask(address, headers=cookie).headers["Location"] == f"{BASE}lab"
    assert world.jupyter.asked[-1].header("cookie") is None


def test_a_cookie_is_for_tls_alone_where_there_is_some(world: World) -> None:
    reply = world.ask(world.open(), headers={"X-Forwarded-Proto": "https"})
    assert "; Secure" in reply.headers["Set-Cookie"]


def test_a_code_is_good_for_a_minute_and_one_instance(world: World) -> None:
    code = world.open("other").partition("?")[2]
    assert world.ask(f"{BASE}?{code}").status == 401
    address, now = world.open(), world.plane.now
    world.plane.now = lambda: now() + timedelta(seconds=61)
    assert world.ask(address).status == 401
    assert world.ask(f"{BASE}?code=").status == 401
    assert world.ask(f"{BASE}?code=%00%ff").status in (400, 401)


def test_a_cookie_is_good_for_its_instance_until_it_ends(world: World) -> None:
    cookie, now = world.cookie(), world.plane.now
    assert world.ask(f"{BASE}x", headers=cookie).status == 200
    assert world.ask("/instances/w/other/x", headers=cookie).status == 401
    assert world.ask("/instances/w/nobody/x", headers=cookie).status == 401
    world.plane.now = lambda: now() + timedelta(hours=13)
    renewed = world.ask(f"{BASE}x", headers=cookie).headers["Set-Cookie"]
    world.plane.now = lambda: now() + timedelta(hours=25)
    assert world.ask(f"{BASE}x", headers=cookie).status == 401
    later = {"Cookie": renewed.partition(";")[0]}
    assert world.ask(f"{BASE}x", headers=later).status == 200


def test_a_cookie_that_was_changed_is_none(world: World) -> None:
    name, _, value = world.cookie()["Cookie"].partition("=")
    until, _, seal = value.partition(".")
    for wrong in (
        f"{int(until) + 1}.{seal}",
        f"{until}.{seal[:-1]}0" if seal[-1] != "0" else f"{until}.{seal[:-1]}1",
        f"{until}.",
        f".{seal}",
        seal,
        f"{until}é.{seal}",
        f"-{until}.{seal}",
        "9" * 5000,
        f"{until}.{instance_logins._seal(world.plane, 'other', int(until))}",
        TOKEN,
    ):
        reply = world.ask(f"{BASE}x", headers={"Cookie": f"{name}={wrong}"})
        assert reply.status == 401, wrong


def test_after_it_was_deleted_nobody_is_let_in(world: World) -> None:
    cookie, address = world.cookie(), world.open()
    world.remove("nb")
    wait_until(lambda: world.ask(f"{BASE}x", headers=cookie).status == 401)
    assert world.ask(address).status == 401
    world.add("nb")  # another one by that name
    assert world.ask(f"{BASE}x", headers=cookie).status == 401


def test_a_cookie_outlives_the_server(world: World) -> None:
    cookie = world.cookie()
    with Server(world.plane) as restarted:
        another = World(restarted, world.jupyter)
        assert another.ask(f"{BASE}x", headers=cookie).status == 200


def test_whose_token_lets_in(world: World) -> None:
    mine = instance_tokens.make(world.plane, world.row("nb"))
    assert world.ask(f"{BASE}x", headers={"Authorization": f"Bearer {mine}"}).status == 200
    elsewhere = "/instances/elsewhere/nb/x"
    assert world.ask(elsewhere, headers={"Authorization": f"Bearer {mine}"}).status == 403
    for wrong in ("Bearer wrong", f"Basic {TOKEN}", f"Token {TOKEN}", "Bearer "):
        assert world.ask(f"{BASE}x", headers={"Authorization": wrong}).status == 401
    assert len(world.jupyter.asked) == 1


def test_a_token_in_the_address_is_no_way_in_and_does_not_stay(world: World) -> None:
    refused = world.ask(f"{BASE}lab?token={TOKEN}")
    assert (refused.status, "logs" in refused.json["detail"]) == (401, True)
    moved = world.ask(f"{BASE}lab?a=1&token={TOKEN}&b=", headers={**world.cookie(), **PAGE})
    assert (moved.status, moved.headers["Location"]) == (303, f"{BASE}lab?a=1&b=")
    assert world.jupyter.asked == []


def test_who_is_not_let_in_is_told_how(world: World) -> None:
    page = world.ask(f"{BASE}lab", headers=PAGE)
    assert page.status == 401
    assert "wherry compute open nb" in page.text
    assert "script" not in page.text
    assert world.ask(f"{BASE}lab").json["hint"] == "open it with: wherry compute open nb"


def test_pages_of_others_change_nothing_and_hear_nothing(world: World) -> None:
    cookie = world.cookie()
    own = f"http://localhost:{world.port}"
    for origin, status in (
        (own, 200),
        ("http://evil.example", 403),
        (f"http://localhost:{world.port + 1}", 403),
        (f"http://127.0.0.1:{world.port}", 403),
        ("null", 403),
        ("", 403),
    ):
        reply = world.ask(f"{BASE}x", "POST", {**cookie, "Origin": origin}, b"")
        assert reply.status == status, origin
        with websocket(world, {**cookie, "Origin": origin}) as client:
            expected = "101" if status == 200 else str(status)
            assert head_of(client).split()[1] == expected, origin
    assert len(world.jupyter.asked) == 2


def test_no_way_of_writing_leads_to_another_instance(world: World) -> None:
    """The first one's cookie leads to the first one, which gets the address as it is."""
    mine, theirs = world.cookie("nb"), world.cookie("other")
    for path in (
        "/instances/w/nb/../other/x",
        "/instances/w/nb/%2e%2e/other/x",
        "/instances/w/nb/..%2fother/x",
        "/instances/w/nb/..%2Fother/x",
        "/instances/w/nb//other/x",
        "/instances/w/nb/%2e%2e%2fother%2fx",
        "/instances/w/nb/..\\other/x",
    ):
        reply = world.ask(path, headers=mine)
        assert (reply.status, reply.json["target"]) == (200, path)
        assert world.ask(path, headers=theirs).status == 401, path


def test_other_ways_of_writing_lead_nowhere(world: World) -> None:
    cookie = world.cookie()
    for path in (
        "/instances/",
        "/instances//nb/x",
        "/instances/w//x",
        "/instances/w%2Fnb/x/",
        "/instances/w/nb%2F..%2Fother/x",
        "/instances/w%2Fnb/other/x",
        "//instances/w/nb/x",
        "/instances/./w/nb/x",
        "/instances%2Fw/nb/x",
        "/%69nstances/w/nb/x",
        "/view/../instances/w/nb/x",
    ):
        assert world.ask(path, headers=cookie).status in (400, 401, 404), path
    assert world.jupyter.asked == []


def test_the_page_and_notebooks_have_different_names(world: World) -> None:
    """To a browser they are strangers: no script of a notebook reads what the page keeps."""
    address = world.open()
    moved = world.ask(address, headers=PAGE, host="127.0.0.1")
    assert moved.headers["Location"] == f"http://localhost:{world.port}{address}"
    assert moved.headers["Set-Cookie"] is None
    assert world.ask(address, headers=PAGE).headers["Set-Cookie"]
    view = world.ask("/view/")
    assert view.headers["Location"] == f"http://127.0.0.1:{world.port}/view/"
    assert world.ask("/view/index.html").headers["Location"] == view.headers["Location"]
    assert world.ask("/view/", host="127.0.0.1").status == 200


def test_what_is_no_instance_cannot_be_opened(world: World) -> None:
    reply = world.ask("/api/v1/workspaces/w/computes/nobody/open", "POST", BEARER)
    assert reply.status == 404
    reply = world.ask("/api/v1/workspaces/w/computes/nb/open", "POST")
    assert reply.status == 401
