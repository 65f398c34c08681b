"""What a test is told of a storage server that runs: addresses and what a user would set."""

from __future__ import annotations

import dataclasses
import urllib.error
import urllib.request
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Server:
    """A storage server with one bucket, which is empty at first.

    Attributes:
        address: HOST:PORT that it listens on.
        bucket: URL of the bucket, such as s3://shards.
        environment: What a user of this server sets; its values name the address.
        pid: Process id, to be watched or killed.
    """

    address: str
    bucket: str
    environment: Mapping[str, str]
    pid: int

    def at(self, address: str) -> Server:
        """The same server, reached through a proxy at another address."""
        environment = {
            name: value.replace(self.address, address) for name, value in self.environment.items()
        }
        return dataclasses.replace(self, address=address, environment=environment)


def answers(url: str) -> bool:
    """Whether an HTTP server gives any answer there, a refusal too."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
