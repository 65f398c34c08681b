"""Fetches one URL: connections, redirects, limits, repetitions, and why there is nothing.

One loop of events in a thread of its own has all requests of a process, so that their number is
bounded in all and per host, and connections and names are used again.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import importlib.metadata
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from beam_jobs.corpus.formats.http_response import decoded_body
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.urls.addresses import PrivateAddressError, public_socket
from beam_jobs.corpus.urls.hosts import MOST_PAUSE_SECONDS, FailedAttempt, Share, Turn, UrlHost
from beam_jobs.corpus.urls.reasons import (
    BAD_ANSWER,
    BAD_URL,
    CUT_OFF,
    NO_NAME,
    NOT_CONNECTED,
    OPTED_OUT,
    PRIVATE,
    REDIRECTS,
    STATUS,
    TIMEOUT,
    may_come_back,
)
from beam_jobs.corpus.urls.rules import (
    AGENT,
    GOOD,
    MOVED,
    ROBOTS,
    checked_url,
    is_opted_out,
    moved,
    pause_of,
)
from beam_jobs.options.urls import UrlOptions
from foundation.extras import naming_extras

with naming_extras():
    import aiohttp
    import yarl

Result = TypeVar("Result")

_CONTACT = "https://pypi.org/project/shardmill"
_PAUSE_SECONDS = 0.5  # before the first repetition; twice as long before each further one
_MOST_HOSTS = 1 << 14  # whose state is remembered
_NAME_SECONDS = 600  # that an address is remembered
_NAME_THREADS = 32  # that look up addresses
_ACCEPTED_CODINGS = "gzip, deflate, br, zstd"


class Fetched(NamedTuple):
    """What a URL gave.

    Attributes:
        body: The bytes, in their content codings.
        content_type: The header of that name; "" if there was none.
        coding: The header with the codings; "" if there are none.
    """

    body: bytes
    content_type: str
    coding: str = ""

    def decoded(self, limit: int) -> Fetched:
        """What was fetched, with its codings undone.

        Args:
            limit: Most bytes of the body.

        Raises:
            Rejection: One cannot be undone, or the body has more bytes.
        """
        body = self.body
        for one in reversed(self.coding.lower().split(",")):
            body = decoded_body(body, one.strip(), limit)
        return Fetched(body, self.content_type)


Outcome = Fetched | Rejection


class UrlClient:
    """Fetches URLs for all workers of this process.

    Args:
        options: The job.
        size_limit: Most bytes of a body.

    Attributes:
        users: Number of workers that use it now.
    """

    def __init__(self, options: UrlOptions, size_limit: int) -> None:
        self._options = options
        self._size_limit = size_limit
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_NAME_THREADS, "resolve"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="fetch", daemon=True)
        self._thread.start()
        self._hosts: OrderedDict[str, UrlHost] = OrderedDict()
        self._places = asyncio.Semaphore(options.connections)
        self._session = self.call(self._open())
        self.users = 0

    def close(self) -> None:
        """Closes all connections, and ends the thread."""
        self.call(self._session.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine of the loop, for another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> aiohttp.ClientSession:
        options = self._options
        connector = aiohttp.TCPConnector(
            limit=0,  # counted here, with the order of requests
            ttl_dns_cache=_NAME_SECONDS,
            socket_factory=None if options.allow_private else public_socket,
        )
        version = importlib.metadata.version(AGENT)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=options.connect_timeout, sock_read=options.read_timeout
            ),
            headers={
                "User-Agent": f"{AGENT}/{version} (+{options.contact or _CONTACT})",
                "Accept-Encoding": _ACCEPTED_CODINGS,
            },
            auto_decompress=False,  # workers do it, within a bound
        )

    async def fetch(self, text: str, share: Share) -> Outcome:
        """What a URL gives, after repetitions.

        Args:
            text: The URL.
            share: Counts the bytes of its body.
        """
        pause, left = _PAUSE_SECONDS, self._options.fetch_retries
        while True:
            try:
                return await self._follow(text, share)
            except Rejection as rejection:
                share.clear()
                return rejection
            except FailedAttempt as failure:
                share.clear()
                if not (left and failure.repeats):
                    return failure.rejection
                await asyncio.sleep(max(pause, failure.pause))
            left, pause = left - 1, min(2 * pause, MOST_PAUSE_SECONDS)

    async def _follow(self, text: str, share: Share) -> Fetched:
        """What a URL gives, or where it redirects to.

        Raises:
            Rejection: It gives nothing.
            FailedAttempt: It may give something at another time.
        """
        url, left = checked_url(text), self._options.fetch_timeout
        for _ in range(1 + self._options.max_redirects):
            answer, left = await self._ask(text, url, share, left)
            if isinstance(answer, Fetched):
                return answer
            url = answer
        most = self._options.max_redirects
        raise Rejection(REDIRECTS, f"{text} redirects more than {most} times")

    async def _ask(
        self, text: str, url: yarl.URL, share: Share, seconds: float
    ) -> tuple[Fetched | yarl.URL, float]:
        """The body of a URL, or where it has moved; and the seconds that are left."""
        host = self._host(url.host or "")
        async with Turn(host, self._places) as turn:
            try:
                async with asyncio.timeout(max(0.0, seconds)) as limit:
                    wait = functools.partial(turn.wait, share, limit)
                    answer = await self._request(text, url, host, wait, share)
                    ends = limit.when() or 0.0
                    return answer, ends - asyncio.get_running_loop().time()
            except TimeoutError:  # also those of aiohttp
                raise host.failed(Rejection(TIMEOUT, f"{text}: no answer in time")) from None
            except aiohttp.ClientError as error:
                raise _described(host, text, error) from None
            except ValueError:  # a name that no resolver takes
                raise Rejection(BAD_URL, f"{text[:200]!a} has a host that is no name") from None

    async def _request(
        self,
        text: str,
        url: yarl.URL,
        host: UrlHost,
        wait: Callable[[], Awaitable[None]],
        share: Share,
    ) -> Fetched | yarl.URL:
        async with self._session.get(url, allow_redirects=False) as response:
            status, headers = response.status, response.headers
            if status in MOVED and "location" in headers:
                return moved(text, url, headers["location"])
            if status not in GOOD:
                rejection = Rejection(f"{STATUS}{status}", f"{text}: the server answers {status}")
                if may_come_back(rejection.reason):
                    raise host.failed(rejection, pause_of(headers.get("retry-after", "")))
                host.failures = 0
                raise rejection
            if not self._options.ignore_opt_outs and is_opted_out(headers.getall(ROBOTS, ())):
                raise Rejection(OPTED_OUT, f"{text}: its X-Robots-Tag forbids it")
            body = await self._body(text, response, wait, share)
        host.failures = 0
        coding = headers.get("content-encoding", "")
        return Fetched(body, headers.get("content-type", ""), coding)

    async def _body(
        self,
        text: str,
        response: aiohttp.ClientResponse,
        wait: Callable[[], Awaitable[None]],
        share: Share,
    ) -> bytes:
        """The bytes of a body as they are sent.

        Raises:
            Rejection: They are more than a record may have, by their header or as they come.
        """
        parts: list[bytes] = []
        size = response.content_length or 0
        if size <= self._size_limit:
            size = 0
        while size <= self._size_limit and (part := await response.content.readany()):
            size += len(part)
            parts.append(part)
            share.add(len(part))
            if share.must_wait:
                await wait()
        if size > self._size_limit:  # how much more depends on packets
            detail = f"{text}: it has more bytes than --max-record-bytes {self._size_limit}"
            raise Rejection(TOO_LARGE, detail)
        return b"".join(parts)

    def _host(self, name: str) -> UrlHost:
        """The state of a host; that of the hosts that were used least recently is forgotten."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = UrlHost(self._options.connections_per_host)
            if len(self._hosts) > _MOST_HOSTS:
                self._hosts.popitem(last=False)
        self._hosts.move_to_end(name)
        return host


_clients: dict[tuple[object, ...], UrlClient] = {}
_clients_lock = threading.Lock()


def client_of(options: UrlOptions, size_limit: int) -> UrlClient:
    """The client of a job, which all workers of this process share."""
    settings = (*(getattr(options, name) for name in UrlOptions.__annotations__), size_limit)
    with _clients_lock:
        client = _clients.get(settings)
        if client is None:
            for key in [key for key, other in _clients.items() if not other.users]:
                _clients.pop(key).close()
            client = _clients[settings] = UrlClient(options, size_limit)
        client.users += 1
        return client


# The loop's thread stays behind in a process that is forked.
os.register_at_fork(after_in_child=_clients.clear)


@atexit.register
def _close_all() -> None:
    """Closes the clients of this process, which else warn of their connections."""
    while _clients:
        _clients.popitem()[1].close()


def release(client: UrlClient) -> None:
    """Says that a worker has ended its use of a client, which stays open for the next one."""
    with _clients_lock:
        client.users -= 1


def _described(host: UrlHost, text: str, error: aiohttp.ClientError) -> Exception:
    """The rejection or the failure for an error of a connection."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = getattr(error, "os_error", None)  # that of a certificate has none
        if isinstance(cause, PrivateAddressError):
            return Rejection(PRIVATE, f"{text}: it leads to an address that is not public")
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            rejection = Rejection(NO_NAME, f"{text}: its host has no address")
            return host.failed(rejection, repeats=error.errno == socket.EAI_AGAIN)
        detail = f"{text}: its server cannot be connected to"
        return host.failed(Rejection(NOT_CONNECTED, detail))
    if isinstance(error, aiohttp.InvalidURL):
        return Rejection(BAD_URL, f"{text[:200]!a} is no URL")
    if isinstance(error, aiohttp.ClientResponseError):
        return Rejection(BAD_ANSWER, f"{text}: the answer is not HTTP")
    return host.failed(Rejection(CUT_OFF, f"{text}: its connection ends too early"))
