"""Fetches the storage servers of the tests into .engines: `python -m tests.servers.fetch`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fetching import Part, fetch_all, go, maven, npm, part_folder, pip

_HADOOP = "3.4.1"
_HADOOP_PARTS = ("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client")

PARTS = (
    Part("fake-gcs-server-1.56.1", ("go",), go("github.com/fsouza/fake-gcs-server@v1.56.1")),
    Part("versitygw-1.8.0", ("go",), go("github.com/versity/versitygw/cmd/versitygw@v1.8.0")),
    Part("moto-5.2.5", (), pip("moto[server]==5.2.5")),
    Part("gcp-storage-emulator-2026.7.19", (), pip("gcp-storage-emulator==2026.7.19")),
    Part("azurite-3.35.0", ("node", "npm"), npm("azurite@3.35.0")),
    Part(
        f"hadoop-{_HADOOP}",
        ("java", "mvn"),
        maven(
            *(f"org.apache.hadoop:{name}:{_HADOOP}" for name in _HADOOP_PARTS),
            # The parts ask for two versions of Jackson, which do not work together.
            bom="com.fasterxml.jackson:jackson-bom:2.12.7",
        ),
    ),
)


def fetched(name: str) -> Path:
    """The folder of a server; skips the test where it is missing."""
    return part_folder(PARTS, name)


if __name__ == "__main__":
    sys.exit(fetch_all(PARTS))
