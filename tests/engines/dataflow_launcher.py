"""The launcher of a job for Dataflow, as a process, and what it leaves in the bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.dataflow_service import DataflowService
from tests.servers.server import Server

BUCKET = "bkt-stage"  # Beam refuses shorter names
_SECONDS = 900  # for pip to find the packages that are staged, on a loaded machine

# What the environment of a launcher holds and nobody else may see.
SECRET = "not-for-anybody-else"


class Launched(NamedTuple):
    """A launcher that was started.

    Attributes:
        process: Its process.
        out: A file with what it prints to stdout.
        err: And to stderr: a log that is longer than a pipe holds.
    """

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def wait(self, code: int = 0) -> str:
        """What it has printed to stdout, once it has ended with this exit code."""
        status = self.process.wait(_SECONDS)
        assert status == code, self.err.read_text()
        return self.out.read_text()

    def kill(self) -> None:
        """Ends it; the job that it has submitted is not its own any more."""
        self.process.kill()
        self.process.wait()


class Launcher:
    """Submits jobs to the stand-in of Dataflow, and stages them to an emulator of its buckets.

    Args:
        folder: Its working directory.
        storage: The emulator.
        service: The stand-in.

    Attributes:
        folder: The working directory.
        service: The stand-in.
    """

    def __init__(self, folder: Path, storage: Server, service: DataflowService) -> None:
        self.folder = folder
        self.service = service
        self._storage = storage
        self._repository = Path(__file__).parents[2]

    def download_packages(self) -> None:
        """Fetches the packages that workers need, once."""
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
        ]
        requirements = self.folder / "samples" / "dataflow" / "requirements.txt"
        command = [*pip, "--dest=packages", f"--requirement={requirements}"]
        subprocess.run(command, cwd=self.folder, check=True, timeout=_SECONDS)

    def start(self, *arguments: str) -> Launched:
        """`shardmill preprocess ARGUMENTS`, which have '--' and options for Beam at the end."""
        variables = {
            "NO_GCE_CHECK": "true",
            "PYTHONPATH": str(self._repository),
            "AWS_SECRET_ACCESS_KEY": SECRET,
            # Beam runs pip for each package to stage: it finds them all here.
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.folder / "packages"),
        }
        beam = [
            "--runner=DataflowRunner",
            f"--dataflow_endpoint={self.service.endpoint}",
            "--no_auth",
            "--project=my-project-1",
            "--region=us-central1",
            f"--temp_location=gs://{BUCKET}/tmp",
        ]
        out, err = (self.folder / f"{uuid.uuid4().hex}.{name}" for name in ("out", "err"))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "preprocess", *arguments, *beam],
                cwd=self.folder,
                env=os.environ | self._storage.environment | variables,
                stdout=to_out,
                stderr=to_err,
            )
        return Launched(process, out, err)

    def submit(self, *arguments: str) -> tuple[dict[str, Any], Launched]:
        """Starts a launcher: its job as the service got it, and the process, which waits."""
        self.service.submitted.clear()
        self.service.state = "JOB_STATE_RUNNING"
        launcher = self.start(*arguments)
        for _ in range(_SECONDS):
            if self.service.submitted.wait(1):
                return self.service.jobs[-1], launcher
            if launcher.process.poll() is not None:
                break
        launcher.kill()
        raise AssertionError(launcher.err.read_text())

    def staged(self) -> list[str]:
        """The URLs of all objects in the bucket of staging."""
        listing = json.loads(self._get(f"{BUCKET}/o?maxResults=1000"))
        return [f"gs://{BUCKET}/{item['name']}" for item in listing.get("items", ())]

    def read(self, url: str) -> bytes:
        """The content of an object."""
        bucket, _, name = url.removeprefix("gs://").partition("/")
        return self._get(f"{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media")

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(
            f"http://{self._storage.address}/storage/v1/b/{path}", timeout=60
        ) as answer:
            return bytes(answer.read())


def options_of(job: dict[str, Any]) -> dict[str, Any]:
    """The pipeline options in a job that was submitted."""
    options: dict[str, Any] = job["environment"]["sdkPipelineOptions"]["options"]
    return options
