"""The proxy does to requests what its faults say, so that tests of faults mean something."""

from __future__ import annotations

import http.client
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.fake_gcs import fake_gcs
from tests.servers.faults import Fault
from tests.servers.proxy import Proxy, proxy

pytestmark = pytest.mark.engine

BODY = bytes(range(256)) * 4000  # 1 MB
UPLOAD = "/upload/storage/v1/b/shards-bucket/o?uploadType=media&name="
OBJECT = "/storage/v1/b/shards-bucket/o/"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("gcs")
    with fake_gcs(folder) as server, proxy(server, folder / "proxy") as started:
        put(started, "there", BODY)
        yield started


@pytest.fixture(autouse=True)
def without_faults(running: Proxy) -> None:
    running.set(latency=0, bandwidth=0, faults=[])
    running.reset()


def request(running: Proxy, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    host = running.server.address
    with closing(http.client.HTTPConnection(host, timeout=3)) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def put(running: Proxy, name: str, body: bytes) -> tuple[int, bytes]:
    return request(running, "POST", f"{UPLOAD}{name}", body)


def get(running: Proxy, name: str = "there") -> tuple[int, bytes]:
    return request(running, "GET", f"{OBJECT}{name}?alt=media")


def test_requests_pass_unchanged_and_are_counted_by_kind(running):
    assert put(running, "new", BODY)[0] == 200
    assert get(running, "new") == (200, BODY)
    listed = request(running, "GET", "/storage/v1/b/shards-bucket/o?prefix=ne")
    assert listed[0] == 200 and b'"name":"new"' in listed[1]
    assert request(running, "DELETE", f"{OBJECT}new")[0] == 200
    counts = running.counts(requests=True)
    assert counts.kinds == {"put": 1, "get": 1, "list": 1, "delete": 1}
    assert counts.sent["put"] == len(BODY) == counts.received["get"]
    assert [status for *_, status, _ in counts.requests] == [200] * 4


def test_each_request_of_a_connection_waits_for_the_latency(running):
    running.set(latency=0.1)
    with closing(http.client.HTTPConnection(running.server.address, timeout=10)) as connection:
        begin = time.monotonic()
        for _ in range(5):
            connection.request("GET", f"{OBJECT}there?alt=media")
            assert connection.getresponse().read() == BODY
        assert 0.5 <= time.monotonic() - begin < 5
    assert running.counts().connections == 1


def test_the_bandwidth_is_limited(running):
    running.set(bandwidth=2_000_000)
    begin = time.monotonic()
    assert get(running) == (200, BODY)
    assert 0.4 <= time.monotonic() - begin < 5


@pytest.mark.parametrize("name", ["reset-before", "reset-upload"])
def test_an_upload_that_is_reset_leaves_nothing_on_the_server(running, name):
    running.set(faults=[Fault(name, most=1)])
    with pytest.raises(ConnectionError):
        put(running, name, BODY)
    assert get(running, name)[0] == 404
    assert running.counts().faults == {name: 1}


def test_a_reset_after_a_request_leaves_it_done(running):
    running.set(faults=[Fault("reset-after", kinds=("put",), most=1)])
    with pytest.raises(ConnectionError):
        put(running, "done", BODY)
    assert get(running, "done") == (200, BODY)


def test_an_answer_is_reset_in_the_middle(running):
    running.set(faults=[Fault("reset-body", most=1)])
    with pytest.raises(ConnectionResetError):
        get(running)
    assert get(running) == (200, BODY)


def test_an_answer_is_shorter_than_it_says(running):
    running.set(faults=[Fault("truncated", most=1)])
    with pytest.raises(http.client.IncompleteRead) as error:
        get(running)
    assert error.value.partial == BODY[: len(BODY) // 2]


def test_an_answer_stalls(running):
    running.set(faults=[Fault("stalled", most=1)])
    with pytest.raises(TimeoutError):
        get(running)


def test_an_answer_is_slow(running):
    running.set(faults=[Fault("slow", most=1, rate=1_000_000)])
    begin = time.monotonic()
    assert get(running) == (200, BODY)
    assert time.monotonic() - begin >= 0.9


@pytest.mark.parametrize(("status", "wait", "header"), [(503, -1, None), (429, 2, "2")])
def test_the_server_is_busy(running, status, wait, header):
    running.set(faults=[Fault("status", status=status, retry_after=wait, most=1)])
    with closing(http.client.HTTPConnection(running.server.address, timeout=10)) as connection:
        connection.request("POST", f"{UPLOAD}busy", BODY)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (status, header)
        answer.read()
        connection.request("GET", f"{OBJECT}busy?alt=media")  # the connection stays open
        assert connection.getresponse().status == 404


def test_a_seed_repeats_which_requests_go_wrong(running):
    def statuses() -> list[int]:
        running.set(faults=[Fault("status", share=0.5)], seed=7)
        return [get(running)[0] for _ in range(20)]

    assert set(first := statuses()) == {200, 503}
    assert statuses() == first


def test_an_upload_that_goes_on_at_another_url_stays_behind_the_proxy(running, tmp_path: Path):
    host = running.server.address
    with closing(http.client.HTTPConnection(host, timeout=10)) as connection:
        connection.request("POST", UPLOAD.replace("media", "resumable") + "long", b"{}")
        answer = connection.getresponse()
        answer.read()
        assert urllib.parse.urlsplit(answer.getheader("Location", "")).netloc == host
