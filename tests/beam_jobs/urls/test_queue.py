"""Requests ahead of the records: in their order, bounded in number and bytes, and never stuck."""

from __future__ import annotations

import asyncio
import random
import ssl

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.corpus.formats.base import FilePart
from beam_jobs.corpus.formats.parquet import Parquet
from beam_jobs.corpus.record import Locator
from beam_jobs.corpus.streams import FileRange, InMemory, opened
from beam_jobs.corpus.urls.client import Fetched, _described
from beam_jobs.corpus.urls.extractor import UrlExtractor
from beam_jobs.corpus.urls.hosts import Turn, UrlHost
from beam_jobs.corpus.urls.queue import UrlQueue
from beam_jobs.corpus.urls.rules import is_opted_out, pause_of
from beam_jobs.images.extractor import ImageExtractor
from beam_jobs.options import ImageOptions

_CHUNK = 100  # bytes of a body at a time


class FakeClient:
    """Bodies of sizes, in chunks, over places of hosts as the client has them."""

    def __init__(self, sizes, places, seed):
        self.sizes = sizes
        self.places = asyncio.Semaphore(places)
        self.hosts = [UrlHost(2) for _ in range(3)]
        self.order = random.Random(seed)
        self.queue = None
        self.most_held = 0

    async def fetch(self, url, share):
        number = int(url)
        for attempt in range(2):
            async with Turn(self.hosts[number % 3], self.places) as turn:
                async with asyncio.timeout(600) as limit:
                    for _ in range(self.sizes[number]):
                        for _ in range(self.order.randrange(4)):
                            await asyncio.sleep(0)
                        share.add(_CHUNK)
                        self.most_held = max(self.most_held, self.queue.held)
                        if share.must_wait:
                            await turn.wait(share, limit)
            if number % 5 or attempt:
                break
            share.clear()  # it failed, and is repeated
        return Fetched(bytes(number), "")


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 20),
    st.integers(0, 1000),
)
def test_outcomes_come_in_order_within_the_memory(sizes, places, ahead, seed):
    most = 1000

    async def run():
        client = FakeClient(sizes, places, seed)
        client.queue = UrlQueue(client)
        given, waiting, position = [], 0, 0
        while position < len(sizes) or waiting:
            more = list(range(position, min(len(sizes), position + ahead - waiting)))
            position += len(more)
            urls = [None if number % 7 == 3 else str(number) for number in more]
            outcomes = await asyncio.wait_for(client.queue.exchange(urls), 60)
            assert outcomes
            waiting += len(more) - len(outcomes)
            given += outcomes
        return client, given

    before, bounds.FETCHED_BYTES = bounds.FETCHED_BYTES, most
    try:
        client, given = asyncio.run(run())
    finally:
        bounds.FETCHED_BYTES = before
    names = [None if one is None else len(one.body) for one in given]
    assert names == [None if number % 7 == 3 else number for number in range(len(sizes))]
    # Behind the bound, a chunk of each request at work, and what is first.
    largest = max(sizes) * _CHUNK
    assert client.most_held <= most + ahead * _CHUNK + 2 * largest


def test_a_queue_that_is_closed_ends_its_requests():
    ended = []

    class Hanging:
        async def fetch(self, url, share):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(url)

    async def run():
        queue = UrlQueue(Hanging())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.exchange(["1", "2"]), 0.05)
        await queue.close()

    asyncio.run(run())
    assert sorted(ended) == ["1", "2"]


@given(
    st.lists(st.integers(0, 2000), min_size=1, max_size=6).filter(sum),
    st.integers(1, 700),
)
def test_a_list_is_split_at_any_row(tmp_path_factory, groups, step):
    path = tmp_path_factory.mktemp("lists") / "urls.parquet"
    rows = sum(groups)
    urls = pa.table({"url": [f"http://h/{row}" for row in range(rows)]})
    with pq.ParquetWriter(path, urls.schema) as writer:
        begin = 0
        for size in groups:
            writer.write_table(urls.slice(begin, size))
            begin += size
    options = ImageOptions((str(path),), "set", url_column="url", no_labels=True)
    form = Parquet(options, UrlExtractor(options, ImageExtractor(options)))

    def read(start, end):
        part = FilePart("urls", lambda: FileRange(str(path).encode()))
        part = part._replace(locator=Locator(start=start, end=end))
        return [(one.place, one.data.decode()) for one in form.find(part)]

    expected = [(f"{row:09d}", f"http://h/{row}") for row in range(rows)]
    starts = list(range(0, rows, step))
    ends = [*starts[1:], -1]
    parts = [read(*one) for one in zip(starts, ends, strict=True)]
    assert [one for part in parts for one in part] == expected
    with opened(InMemory(path.read_bytes())) as file:
        splits = form.splits(file, path.stat().st_size)
    assert splits[0].start == 0 and splits[-1].end == -1
    assert [one.end for one in splits[:-1]] == [one.start for one in splits[1:]]
    assert [one for split in splits for one in read(split.start, split.end)] == expected


@pytest.mark.parametrize(
    ("headers", "forbids"),
    [
        ([], False),
        (["all"], False),
        (["noai"], True),
        (["NoIndex, nofollow"], True),
        (["nofollow, NOIMAGEAI"], True),
        (["nofollow", "noimageindex"], True),
        (["otherbot: noai"], False),
        (["shardmill: noai"], True),
        (["Shardmill : nofollow , noindex"], True),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], False),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noai"], True),
        (["noindex, unavailable_after: 25 Jun 2010 15:00:00 PST"], True),
        (["max-image-preview: none"], False),
        (["noaix", "no ai"], False),
        ([""], False),
        ([":", "::noai"], False),
    ],
)
def test_opt_outs(headers, forbids):
    assert is_opted_out(headers) == forbids


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", 0),
        ("0", 0),
        ("120", 120),
        ("-1", 0),
        ("soon", 0),
        ("1.5", 0),
        ("9" * 400, 999999999),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", 0),
    ],
)
def test_what_a_server_asks_for(value, seconds):
    assert pause_of(value) == seconds


def test_a_certificate_that_is_not_valid_is_a_failed_connection():
    error = aiohttp.ClientConnectorCertificateError(None, ssl.CertificateError("expired"))
    failure = _described(UrlHost(1), "https://h/", error)
    assert failure.rejection.reason == "connect-failed"


@given(st.text())
def test_any_retry_after(value):
    assert pause_of(value) >= 0
