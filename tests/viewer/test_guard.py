"""Which requests are answered, and with which headers."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from tests.fixtures.web_pages import ask
from viewer.guard import Guard

TOKEN = "a-Token_0"
APP = Guard(PlainTextResponse("secret"), TOKEN, 8000)
COOKIE = {"cookie": f"shardmill-view-8000={TOKEN}"}


def test_the_token_opens_and_is_kept_in_a_cookie():
    answer = ask(APP, f"/?token={TOKEN}")
    assert (answer.status, answer.text) == (200, "secret")
    assert answer.headers["set-cookie"] == (
        f"shardmill-view-8000={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    )
    answer = ask(APP, "/records", headers=COOKIE)
    assert (answer.status, "set-cookie" in answer.headers) == (200, False)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/?token=", {}),
        ("/?token=a-token_0", {}),
        (f"/?token={TOKEN}0", {}),
        ("/?token=%FF%C3%A9", {}),
        ("/?token=wrong", COOKIE),
        ("/", {"cookie": f"shardmill-view-8001={TOKEN}"}),
        ("/", {"cookie": "shardmill-view-8000="}),
        ("/", {"authorization": f"Bearer {TOKEN}"}),
    ],
)
def test_nothing_opens_without_it(path, headers):
    answer = ask(APP, path, headers=headers)
    assert answer.status == 403 and "secret" not in answer.text and TOKEN not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8000",
        "",
        "[::2]:8000",
        "evil.example:127.0.0.1",
        "127.0.0.1@evil.example",
        "0.0.0.0:8000",
        "127.0.0.1:80:80",
    ],
)
def test_other_names_of_this_machine_are_refused(host):
    """DNS rebinding: the browser believes that the answer is of that site."""
    answer = ask(APP, f"/?token={TOKEN}", headers={"host": host})
    assert answer.status == 421 and "secret" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9", "LOCALHOST", "[::1]:8000"])
def test_own_names_are_answered_by_any_port(host):
    assert ask(APP, f"/?token={TOKEN}", headers={"host": host}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_only_reads_are_answered(method):
    assert ask(APP, "/", method, COOKIE).status == 405


def test_every_answer_forbids_what_a_set_may_say():
    for headers in (COOKIE, {}, {"host": "evil.example"}):
        got = ask(APP, "/", headers=headers).headers
        policy = dict(
            one.strip().split(" ", 1) for one in got["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'" and "script-src" not in policy
        assert "unsafe-inline" not in got["content-security-policy"]
        assert got["x-content-type-options"] == "nosniff"
        assert got["cache-control"] == "no-store" and got["referrer-policy"] == "no-referrer"


def test_a_web_socket_is_not_answered():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(APP({"type": "websocket", "headers": []}, None, send))
    assert not sent
