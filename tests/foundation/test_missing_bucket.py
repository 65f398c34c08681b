"""A bucket that does not exist is an answer of the server, and asked for once."""

from __future__ import annotations

import errno
import http.server
import threading

import pytest

from foundation import storage
from foundation.storage import object_stores

ANSWER = b"<Error><Code>NoSuchBucket</Code><Message>It does not exist</Message></Error>"


@pytest.fixture
def requests(monkeypatch):
    """The paths that were asked for, of a server that has no bucket."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    object_stores.forget_connections()
    yield asked
    object_stores.forget_connections()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "ask",
    [
        storage.is_folder,
        lambda place: list(storage.list_folder(place)),
        lambda place: list(storage.list_tree(place)),
    ],
)
def test_a_missing_bucket_is_asked_for_once(requests, ask):
    reason = r"404 Not Found \(NoSuchBucket: It does not exist\)"
    with pytest.raises(OSError, match=reason) as raised:
        ask(storage.place_of("s3://missing/set"))
    assert raised.value.errno == errno.ENXIO
    assert len(requests) == 1
