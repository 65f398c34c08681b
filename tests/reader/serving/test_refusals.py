"""Addresses, and what a service is not asked for."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reader
from reader.service.address import Address, check_answers, parse_address
from shard_format import UsageError

IMAGES: dict[str, Any] = {"batch_size": 4, "image_size": 16, "augment": "standard", "seed": 3}


@pytest.mark.parametrize(
    "address",
    ["localhost:5050", "grpc://localhost", "grpc://localhost:x", "grpc://a:5050/b", 7, ""],
)
def test_an_address_is_checked(address: Any, tiny: Path) -> None:
    with pytest.raises(UsageError, match="grpc://host:5050"):
        reader.load(tiny, **IMAGES, service=address)


def test_addresses_are_read_as_they_are_written() -> None:
    for address in (Address("localhost", 5050), Address("10.0.0.5", 1), Address("::1", 65535)):
        assert parse_address(str(address), "a test") == address
    # As 'shardmill serve --host Node01' prints it.
    assert parse_address("grpc://Node01:5050", "a test") == Address("node01", 5050)


def test_a_service_that_does_not_answer_is_reported(
    free_ports: Callable[[int], int], tiny: Path
) -> None:
    address = str(Address("localhost", free_ports(1)))
    with pytest.raises(UsageError, match=r"No service answers.*refused.*shardmill serve DIR"):
        reader.load(tiny, **IMAGES, service=address)


def test_other_servers_are_no_service() -> None:
    with socket.create_server(("", 0)) as server:
        with mock.patch("reader.service.address._TIMEOUT_SECONDS", 0.5), pytest.raises(UsageError):
            check_answers(Address("localhost", server.getsockname()[1]), "a test")


@pytest.mark.parametrize("option", [{"cache": "memory"}, {"cache": "disk"}, {"synonyms": "words"}])
def test_what_cannot_be_sent_is_refused(option: dict[str, Any], tiny: Path) -> None:
    with pytest.raises(UsageError, match="with service"):
        reader.load(tiny, **IMAGES, **option, service="grpc://localhost:1")


def test_a_set_at_a_url_is_refused() -> None:
    """It was looked for in a directory "s3:" of the working directory."""
    with pytest.raises(UsageError, match=r"directories only, not s3://.* Leave service"):
        reader.load("s3://bucket/set", **IMAGES, service="grpc://localhost:1")


def test_a_mixture_has_no_service(tiny: Path) -> None:
    with pytest.raises(UsageError, match="service"):
        reader.mix({tiny: 1.0}, **IMAGES, service="grpc://localhost:1")
