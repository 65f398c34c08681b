"""The address of a service: how it is written, and whether somebody answers there."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from urllib.parse import urlsplit

from foundation.storage import local_path, place_of
from reader.options import Directory
from shard_format import UsageError

PROTOCOL = "grpc"
_TIMEOUT_SECONDS = 5.0
# How a client opens a connection of HTTP/2, which gRPC is: with these bytes and a frame of settings
# (RFC 9113, sections 3.4 and 6.5), here an empty one. A server answers with its settings.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD_BYTES, _SETTINGS = 9, 4
_EMPTY_SETTINGS = bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


@dataclasses.dataclass(frozen=True)
class Address:
    """Address of a dispatcher; `str` gives it as "grpc://host:port"."""

    host: str
    port: int

    @property
    def host_and_port(self) -> str:
        """The address without protocol."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{PROTOCOL}://{self.host_and_port}"


def parse_address(text: str, where: str) -> Address:
    """The address that a person wrote.

    Raises:
        UsageError: It is none.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except (ValueError, TypeError, AttributeError):
        host = port = None
    # urlsplit makes letters small, which to a host are the same.
    if not host or not port or text.lower() != str(Address(host, port)):
        raise UsageError(
            f"{text!r} is not the address of a service in {where}. Pass the one that 'shardmill "
            f"serve' printed, such as {PROTOCOL}://host:5050."
        )
    return Address(host, port)


def local_host(peer: Address | None) -> str:
    """Under which address a peer sees this machine; "localhost" where there is none."""
    if peer is None or peer.host in ("localhost", "127.0.0.1", "::1"):
        return "localhost"
    with contextlib.suppress(OSError), socket.socket(_family(peer), socket.SOCK_DGRAM) as probe:
        probe.connect((peer.host, peer.port))  # sends nothing: it asks the table of routes
        return str(probe.getsockname()[0])
    return socket.gethostname()


def _family(peer: Address) -> int:
    return socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_DGRAM)[0][0]


def check_answers(address: Address, where: str) -> None:
    """Checks that a gRPC server answers at the address, within seconds.

    Raises:
        UsageError: None does.
    """
    try:
        with socket.create_connection((address.host, address.port), _TIMEOUT_SECONDS) as connection:
            connection.settimeout(_TIMEOUT_SECONDS)
            connection.sendall(_PREFACE + _EMPTY_SETTINGS)
            head = connection.recv(_FRAME_HEAD_BYTES)
        problem = "" if head[3:4] == bytes([_SETTINGS]) else "something that does not speak gRPC"
    except OSError as error:
        problem = error.strerror or str(error) or type(error).__name__
    if problem:
        raise UsageError(
            f"No service answers at {address} in {where}: '{problem}'. Start one with 'shardmill "
            "serve DIR', check that its port can be reached from here, and pass the address that "
            "it prints."
        )


def check_directory(directory: Directory) -> None:
    """Checks that the workers of a service can read the set.

    Raises:
        UsageError: It is a set at a URL.
    """
    place = place_of(directory)
    if local_path(place) is None:
        raise UsageError(
            f"A service reads sets in directories only, not {place}, in reader.load. Leave service "
            "out, or copy the set to a path that trainer and workers share."
        )
