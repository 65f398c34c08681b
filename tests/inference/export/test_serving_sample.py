"""The sample server: many clients at once, and requests that are wrong on purpose."""

from __future__ import annotations

import base64
import concurrent.futures
import http.client
import json
import re
import runpy
import shutil
import socket
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from PIL import Image

PATH = "/v1/models/clothing"
NUM_CLIENTS = 30


@pytest.fixture(scope="module")
def program(repository):
    return repository / "samples" / "serving" / "server.py"


@pytest.fixture(scope="module")
def address(program, trained):
    arguments = [program, trained.served, "--name", "clothing", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        host, _, port = process.stdout.readline().split("//")[1].strip().partition(":")
        yield host, int(port)
        process.terminate()
        _, errors = process.communicate()
    assert "Traceback" not in errors


def post(address, body, path=PATH + ":predict"):
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("POST", path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def instances(*contents):
    return json.dumps({"instances": [{"b64": base64.b64encode(c).decode()} for c in contents]})


def raw(address, request):
    """The status of the answer to these bytes."""
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(request)
        return int(client.makefile("rb").readline().split()[1])


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_request_of_the_page_sends_a_real_photograph(address, repository, tmp_path):
    """Its lines, on a JPEG that is longer than an argument of a command may be."""
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "hat.jpg", quality=95)
    assert (tmp_path / "hat.jpg").stat().st_size > 300_000
    page = (repository / "docs" / "export.md").read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in one]
    host, port = address
    commands = block.partition("\n")[2].replace("localhost:8501", f"{host}:{port}")
    done = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["predictions"]) == 1


def test_thirty_clients_at_once_are_answered(address, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    body = instances((tmp_path / "noise.png").read_bytes())
    start = threading.Barrier(NUM_CLIENTS)

    def client(_):
        start.wait()
        return post(address, body)

    with concurrent.futures.ThreadPoolExecutor(NUM_CLIENTS) as pool:
        answers = list(pool.map(client, range(NUM_CLIENTS)))
    assert {status for status, _ in answers} == {200}
    assert len({json.dumps(content) for _, content in answers}) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Content-Length: abc", 400),
        ("Content-Length: -1", 400),
        ("Content-Length: 1\r\nContent-Length: 2", 400),
        ("Content-Length: 99999999999999999999", 413),
        (f"Content-Length: {(64 << 20) + 1}", 413),
        ("Transfer-Encoding: nonsense", 501),
        ("", 411),
        ("Content-Length: 0", 400),
        ("A: " + "b" * (1 << 20), 431),
    ],
)
def test_a_hostile_header_gets_its_status(address, headers, status):
    head = f"POST {PATH}:predict HTTP/1.1\r\nHost: a\r\n{headers}".rstrip()
    assert raw(address, f"{head}\r\n\r\n".encode()) == status


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"no json", "JSONDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[]", "must be a JSON object"),
        (b"{}", 'either "instances" or "inputs"'),
        (b'{"instances": 5}', "TypeError"),
        (b'{"instances": [{"b64": "!"}]}', "Error"),
        (b'{"instances": [1.5]}', "TypeError"),
        (b'{"signature_name": "other", "instances": []}', "no signature 'other'"),
        (instances(b"hello").encode(), "the content is none of JPEG"),
    ],
)
def test_a_wrong_body_is_refused_with_the_reason(address, body, reason):
    status, content = post(address, body)
    assert status == 400 and reason in content["error"]


def test_another_path_is_not_found(address):
    assert post(address, b"{}", PATH)[0] == 404
    assert raw(address, b"GET /v1/models/other HTTP/1.0\r\n\r\n") == 404
    assert raw(address, f"GET {PATH} HTTP/1.0\r\n\r\n".encode()) == 200


def test_a_full_server_says_so_at_once(program):
    """One request is answered and one waits, so that the third finds no place."""
    entered, may_end = threading.Event(), threading.Event()

    def predict(_):
        entered.set()
        may_end.wait(60)
        return {}

    application = runpy.run_path(str(program))["Application"](
        types.SimpleNamespace(name="clothing", version=1, predict=predict), at_once=1, waiting=1
    )
    request = {"REQUEST_METHOD": "POST", "PATH_INFO": PATH + ":predict", "CONTENT_LENGTH": "2"}

    def ask():
        return application.answer(
            {**request, "wsgi.input": types.SimpleNamespace(read=lambda: "{}")}
        )

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask)
        assert entered.wait(60)
        assert application.places.acquire(blocking=False)  # as one that waits
        assert ask()[0] == 503
        statuses = []
        application({**request, "wsgi.input": None}, lambda *answer: statuses.append(answer))
        assert statuses[0][0] == "503 Service Unavailable"
        assert ("Retry-After", "1") in statuses[0][1]
        application.places.release()
        may_end.set()
        assert first.result() == (200, {})
    assert ask() == (200, {})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "0"],
        pytest.param(["--port", "99999"], marks=pytest.mark.proof),
        pytest.param(["--at-once", "0"], marks=pytest.mark.proof),
    ],
)
def test_what_cannot_be_served_is_a_usage_error(program, tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), *arguments], capture_output=True, text=True
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
