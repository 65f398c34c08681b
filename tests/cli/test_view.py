"""`shardmill view`, as a person starts and ends it."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from cli.commands.view import view
from tests.fixtures.command_line import REPOSITORY


@pytest.fixture
def small_set(write_corpus, begin_set, tmp_path):
    begin_set(write_corpus("corpus", {f"a/r{n}": n for n in range(9)}))
    return tmp_path / "set"


@contextmanager
def _started(*arguments, **environment):
    """A process of the command, and the address that it has printed."""
    command = [sys.executable, "-m", "cli.main", "view", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=REPOSITORY, env=os.environ | environment, **pipes)
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        yield process, re.search(r"http://\S+", "".join(lines))[0]
    finally:
        process.kill()
        process.communicate()


def _get(url, **headers):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
    response = connection.getresponse()
    return response.status, response.read().decode(), response.headers


def test_it_is_started_looked_at_and_ended(small_set, tmp_path):
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    os.mkfifo(opened)
    browser.write_text(f'#!/bin/sh\necho "$1" > "{opened}"\n')
    browser.chmod(0o755)
    arguments = (small_set, "--where", "label == 'a'")
    with _started(*arguments, BROWSER=str(browser)) as (process, url):
        assert opened.read_text().strip() == url  # waits until the browser was started
        assert urlsplit(url).hostname == "127.0.0.1"
        status, page, headers = _get(url)
        assert status == 200 and "9 records" in page and "label == &#39;a&#39;" in page
        cookie = headers["Set-Cookie"].partition(";")[0]
        base = url.partition("?")[0]
        assert _get(f"{base}a/0/quarantine", Cookie=cookie)[0] == 200
        assert _get(f"{base}style.css", Cookie=cookie)[2]["Content-Type"].startswith("text/css")
        assert _get(base)[0] == 403
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in errors and "token" not in out + errors


def test_sigterm_ends_it(small_set):
    with _started(small_set, "--no-browser", BROWSER="false") as (process, _):
        process.terminate()
        assert process.wait(60) in (143, -signal.SIGTERM)
        assert "Traceback" not in process.stderr.read()


def test_what_cannot_be_shown_is_said_at_once(small_set, shardmill, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, code, words in (
            ((tmp_path / "none",), 3, "none"),
            ((small_set, tmp_path / "none"), 3, "none"),
            ((small_set, "--where", "sise > 3"), 2, "sise"),
            ((small_set, "--generation", "4"), 2, "4"),
            ((small_set, "--port", port), 2, f"{port}"),
            ((small_set, "--port", "70000"), 2, "70000"),
            ((small_set, "--host", "0.0.0.0"), 2, "--host"),
        ):
            done = shardmill("view", *arguments, "--no-browser")
            assert done.returncode == code and words in done.stderr, done.stderr
            assert "Traceback" not in done.stderr


def test_the_commands_and_pictures_of_the_page_are_those_of_the_program():
    page = (REPOSITORY / "docs" / "view.md").read_text(encoding="utf-8")
    commands = [shlex.split(one) for one in re.findall(r"(shardmill view .*)$", page, re.MULTILINE)]
    commands = [one for one in commands if "`" not in " ".join(one)]
    assert len(commands) == 4
    for _, _, *arguments in commands:
        view.make_context("view", arguments)  # raises for an option that there is not
    pictures = [REPOSITORY / "docs" / one for one in re.findall(r"\]\((view/\S+)\)", page)]
    assert len(pictures) == 3 and all(one.stat().st_size < 150_000 for one in pictures)
