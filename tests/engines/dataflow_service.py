"""A stand-in for the REST service of Dataflow: a server that keeps jobs and runs none.

It has what Beam's client asks for: create a job, get it, its messages and its metrics. A test says
which state a job is in, so that it can play the service.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_JOBS = re.compile(r"/v1b3/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/jobs")


class DataflowService:
    """The jobs that were submitted, and what the service says of them.

    Attributes:
        endpoint: For `--dataflow_endpoint`.
        jobs: Every job as JSON, in the order they were created.
        state: What the service answers for the state of any job.
        messages: Its job messages: dictionaries with time, messageText and messageImportance.
        metrics: Its metrics, as the service returns them.
        requests: Method and path of every request.
        headers: The headers of every request.
    """

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.state = "JOB_STATE_RUNNING"
        self.messages: list[dict[str, str]] = []
        self.metrics: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.submitted = threading.Event()
        service = self

        class Handler(_Handler):
            stand_in = service

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # Beam speaks HTTP instead of gRPC to an endpoint that has "localhost" in it.
        self.endpoint = f"http://localhost:{self._server.server_port}"

    def create(self, project: str, location: str, job: dict[str, Any]) -> dict[str, Any]:
        """Keeps a job, and gives it an id."""
        number = len(self.jobs)
        job |= {"id": f"2026-11-22_00_00_{number:02}-1", "projectId": project, "location": location}
        self.jobs.append(job)
        self.submitted.set()
        return self.get(job["id"])

    def get(self, job_id: str) -> dict[str, Any]:
        """A job in its present state."""
        job = next(job for job in self.jobs if job["id"] == job_id)
        names = ("id", "name", "projectId", "location", "type", "clientRequestId")
        return {name: job[name] for name in names} | {"currentState": self.state}

    @contextlib.contextmanager
    def running(self) -> Iterator[DataflowService]:
        """Within this context, the server answers."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    stand_in: DataflowService
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if match := self._match(""):
            self._answer(self.stand_in.create(match["project"], match["location"], body))

    def do_GET(self) -> None:
        if self._match("/[^/]+/messages"):
            self._answer({"jobMessages": self.stand_in.messages})
        elif self._match("/[^/]+/metrics"):
            self._answer({"metrics": self.stand_in.metrics})
        elif match := self._match("/(?P<job>[^/]+)", last=True):
            self._answer(self.stand_in.get(match["job"]))

    def _match(self, rest: str, *, last: bool = False) -> re.Match[str] | None:
        """The parts of the path; a path that nothing matches is answered with 404."""
        match = re.fullmatch(_JOBS.pattern + rest, self.path.partition("?")[0])
        if match is None and (last or self.command == "POST"):
            self._answer({"error": {"code": 404, "message": self.path}}, HTTPStatus.NOT_FOUND)
        return match

    def _answer(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.stand_in.requests.append(f"{self.command} {self.path}")
        self.stand_in.headers.append(dict(self.headers))
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keeps the log of the tests quiet."""
