"""Which addresses may be connected to: a list of URLs may name anything.

The address itself is checked when its socket is made, behind DNS and behind every redirect. So a
name cannot lead to one address when it is checked and to another one when it is used.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: an IPv4 address behind a gateway


class PrivateAddressError(PermissionError):
    """A connection would lead to an address that is not of the public internet."""

    def __str__(self) -> str:
        return "the address is not public"  # one text for all, as aiohttp joins others


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, also an IPv4 address inside of IPv6.

    Args:
        address: IPv4 or IPv6 as text, perhaps with a zone.
    """
    try:
        one: _Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    embedded = _embedded(one)
    if embedded is not None:
        one = embedded
    is_local = one.is_multicast or one.is_reserved or getattr(one, "is_site_local", False)
    return one.is_global and not is_local


def _embedded(address: _Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to; None if there is none."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def public_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for an address that `getaddrinfo` gave.

    Raises:
        PrivateAddressError: It is not public.
    """
    family, kind, protocol, _, address = info
    if not is_public(address[0]):
        raise PrivateAddressError
    return socket.socket(family, kind, protocol)
