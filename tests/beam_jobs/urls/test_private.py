"""No connection leads into a private network, wherever a URL, a name or a redirect points."""

from __future__ import annotations

import ipaddress
import socket

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.urls import addresses
from beam_jobs.corpus.urls.addresses import is_public
from beam_jobs.corpus.urls.rules import checked_url, moved
from tests.beam_jobs.urls.test_outcomes import build, refused, write_list
from tests.fixtures.url_farm import HOSTS

PRIVATE = """127.0.0.1 0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 169.254.169.254 172.16.0.1
172.31.255.255 192.0.2.1 192.168.0.1 198.18.0.1 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1
255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: 2002:a00:1:: fc00::1 fd12::1 fe80::1 fe80::1%eth0
fec0::1 ff02::1 100::1 2001:db8::1 name""".split()
PUBLIC = """1.1.1.1 8.8.8.8 172.32.0.1 100.128.0.1 223.255.255.255 2606:4700::1111 2a00::1
::ffff:8.8.8.8 64:ff9b::808:808""".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address):
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_is_what_counts(address):
    number = int(address)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | number)
    gateway = ipaddress.IPv6Address((0x64FF9B << 96) | number)
    assert is_public(str(mapped)) == is_public(str(gateway)) == is_public(str(address))


@pytest.mark.parametrize(
    "url", ["http://u@h/", "http://u:p@h/", "file:///etc/passwd", "gopher://h/"]
)
def test_urls_that_are_not_fetched(url):
    with pytest.raises(Rejection, match="bad-url"):
        checked_url(url)


@given(st.text(), st.sampled_from(["", "http://", "https://h/", "http://h:", "http://[", "//"]))
def test_any_text_is_a_url_or_rejected(text, begin):
    base = checked_url("http://host/folder/page")
    for look in (checked_url, lambda one: moved("http://host/", base, one)):
        try:
            url = look(begin + text)
        except Rejection as rejection:
            assert rejection.reason == "bad-url"
        else:
            assert url.scheme in ("http", "https") and url.host and not url.user


def test_this_machine_is_private(farm, tmp_path):
    port = farm.port
    hosts = ["127.0.0.2", "localhost", "0x7f000002", "2130706434", "127.2", "[::1]", "0", "0.0.0.0"]
    hosts += ["[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "169.254.169.254"]
    urls = [f"http://{host}:{port}/ok/{number}" for number, host in enumerate(hosts)]
    source = write_list(tmp_path / "urls.csv", urls)
    report = build(source, tmp_path / "set", allow_private=False, keep_empty=True)
    reasons = refused(report)  # some forms of an address are no URL
    assert reasons.keys() <= {"private-address", "bad-url"}
    assert sum(reasons.values()) == len(hosts)
    assert reasons["private-address"] >= 8
    assert not farm.asked


@pytest.fixture
def all_but_one_public(monkeypatch):
    """Addresses of the farm count as public, but the last."""
    monkeypatch.setattr(addresses, "is_public", lambda one: one in HOSTS[:-1])
    return HOSTS[-1]


def test_redirects_into_a_private_network(farm, tmp_path, all_but_one_public):
    inside = f"{all_but_one_public}:{farm.port}/ok/1"
    urls = [farm.url(f"to/{inside}"), farm.url(f"to/{HOSTS[1]}:{farm.port}/to/{inside}")]
    urls += [farm.url("ok/2"), farm.url("to/me:secret@127.0.0.3/ok/3")]
    source = write_list(tmp_path / "urls.csv", urls)
    report = build(source, tmp_path / "set", allow_private=False)
    assert refused(report) == {"private-address": 2, "bad-url": 1}
    assert farm.most[all_but_one_public] == 0


def test_a_name_whose_address_changes(farm, tmp_path, all_but_one_public, monkeypatch):
    # Whatever a first look would have seen, the address that is connected to is checked.
    looks = []

    async def resolve(self, host, port=0, family=socket.AF_INET):
        looks.append(host)
        address = all_but_one_public if len(looks) > 1 else HOSTS[0]
        known = {"hostname": host, "host": address, "port": port}
        return [{**known, "family": socket.AF_INET, "proto": 6, "flags": socket.AI_NUMERICHOST}]

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", resolve)
    urls = [f"http://{name}.test:{farm.port}/ok/{name}" for name in ("a", "b", "c")]
    source = write_list(tmp_path / "urls.csv", urls)
    report = build(source, tmp_path / "set", allow_private=False, connections=1)
    assert refused(report) == {"private-address": 2}
    assert farm.most[all_but_one_public] == 0
    assert len(looks) == 3
