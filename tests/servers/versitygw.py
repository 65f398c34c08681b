"""S3 by the Versity gateway, which keeps objects as files: fast, and right about conditions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.engines.processes import free_port, processes
from tests.servers.fetch import fetched
from tests.servers.server import Server, answers

KEY, SECRET = "versity-key", "versity-secret"


@contextlib.contextmanager
def versitygw(
    folder: Path, bucket: str = "shards", *, keep_alive: bool = True, host: str = "127.0.0.1"
) -> Iterator[Server]:
    """A server whose objects are files in a folder.

    Args:
        folder: Also of the log.
        bucket: To be created.
        keep_alive: Whether connections carry more than one request. Without it clients that sign
            bodies in chunks (boto3, pyarrow) work too: after such a request the server may take
            its last bytes for the next one.
        host: Address to listen on.
    """
    program = fetched("versitygw") / "versitygw"
    (folder / "buckets" / bucket).mkdir(parents=True)  # a folder here is a bucket
    (folder / "attributes").mkdir()
    address = f"{host}:{free_port(host)}"
    backend = ["posix", "--sidecar", str(folder / "attributes"), str(folder / "buckets")]
    options = ["--port", address, "--quiet", *(["--keep-alive"] if keep_alive else [])]
    with processes(folder / "logs") as started:
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        started.start("versitygw", [str(program), *options, *backend], keys)
        started.wait_for("versitygw", lambda: answers(f"http://{address}/{bucket}"))
        yield Server(
            address, f"s3://{bucket}", environment(address, KEY, SECRET), started.pid("versitygw")
        )


def environment(address: str, key: str, secret: str) -> dict[str, str]:
    """What users of S3 servers other than Amazon's set."""
    return {
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }
