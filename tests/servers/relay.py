"""A proxy between clients and a storage server, as a process: `python -m tests.servers.relay`.

It adds latency to each request, limits the bandwidth, counts requests and injects faults. It is
for HTTP/1.1 without TLS and without pipelining, which no client here does: each connection to it
is one connection to the server, on which requests and answers alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from tests.servers.faults import Fault, Plan, kind_of

_PIECE_BYTES = 16 << 10  # 16 KiB; slow bodies come in pieces
_HELD_BYTES = 1 << 20  # 1 MiB
_LATE_SECONDS = 0.05
_NO_LINGER = struct.pack("ii", 1, 0)  # closing a socket then resets the connection
_REASONS = {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


class Relay:
    """What all connections share: settings, counts and the listening socket's address.

    Attributes:
        server: Host and port of the storage server.
        latency: Seconds that each request waits before it goes to the server.
        bandwidth: Bytes a second of all answers and uploads together; 0 for no limit.
        plan: Chooses faults.
        own: HOST:PORT of the proxy, which replaces the server's in answers.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.latency = 0.0
        self.bandwidth = 0.0
        self.plan = Plan()
        self.own = b""
        self._free_at = 0.0  # when the line has sent everything so far
        self.reset()

    def reset(self) -> None:
        """Sets all counts to zero."""
        self.requests: list[tuple[str, str, str, int, str]] = []
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = self.connections = 0

    def wait_for_line(self, size: int) -> float:
        """Seconds until the line has carried this many bytes more."""
        if not self.bandwidth:
            return 0
        now = time.monotonic()
        # Timers are late by milliseconds, which are made up for.
        self._free_at = max(now - _LATE_SECONDS, self._free_at) + size / self.bandwidth
        return max(0, self._free_at - now)

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Does what a test asks for, and tells the counts."""
        self.latency = order.get("latency", self.latency)
        self.bandwidth = order.get("bandwidth", self.bandwidth)
        if "faults" in order:
            faults = [Fault(**{**f, "kinds": tuple(f["kinds"])}) for f in order["faults"]]
            self.plan = Plan(faults, order["seed"])
        if order.get("reset"):
            self.reset()
        return {
            "requests": self.requests if order.get("requests") else [],
            "kinds": Counter(kind for kind, *_ in self.requests),
            "faults": Counter(fault for *_, fault in self.requests if fault),
            "sent": self.sent,
            "received": self.received,
            "connections": self.connections,
            "most_in_flight": self.most_in_flight,
        }


class _Exchange:
    """A request and its answer, as far as they have come."""

    def __init__(self, relay: Relay, head: bytes) -> None:
        line, _, _ = head.partition(b"\r\n")
        method, target, _ = line.decode("latin-1").split(" ", 2)
        lower = head.lower()
        self.kind = kind_of(method, target, lower)
        self.method, self.target = method, target
        self.fault = relay.plan.fault_of(self.kind, target)
        self.upload = _Body(lower, has_body=method in ("PUT", "POST", "PATCH"))
        self.answer: _Body | None = None  # once its head has come
        self.status = 0

    @property
    def fault_name(self) -> str:
        return self.fault.name if self.fault else ""


class _Body:
    """How much of a body is still to come."""

    def __init__(self, lower_head: bytes, has_body: bool) -> None:
        self._chunked = has_body and b"\ntransfer-encoding: chunked" in lower_head
        _, named, rest = lower_head.partition(b"\ncontent-length:")
        self.size = int(rest.partition(b"\r")[0]) if named and has_body else 0
        self._left = self.size
        self._tail = b"\r\n"  # of the head

    @property
    def done(self) -> bool:
        # With what is before it: signatures of S3's own chunks end with a zero too.
        return self._tail == b"\r\n0\r\n\r\n" if self._chunked else self._left <= 0

    def take(self, data: bytes) -> None:
        if self._chunked:
            self._tail = (self._tail + data[-7:])[-7:]
        else:
            self._left -= len(data)

    @property
    def passed(self) -> int:
        return self.size - self._left


class _Side(asyncio.Protocol):
    """One of the two connections of a client; what it has no time for stays with the sender."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Side | None = None
        self.queue: list[bytes] = []  # not yet sent, in pieces
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_HELD_BYTES)

    def pause_writing(self) -> None:
        if self.peer and self.peer.transport:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer and self.peer.transport:
            self.peer.transport.resume_reading()

    def send(self, data: bytes, relay: Relay, rate: float = 0) -> None:
        """Sends at the pace of the line, and of a slow body."""
        if not self.transport:
            return
        if not relay.bandwidth and not rate and not self.queue:
            self.transport.write(data)
            return
        begins = range(0, len(data), _PIECE_BYTES)
        self.queue += [data[begin : begin + _PIECE_BYTES] for begin in begins]
        if self._timer is None:
            self.pause_writing()
            self._send_next(relay, rate)

    def _send_next(self, relay: Relay, rate: float) -> None:
        self._timer = None
        if not self.queue:
            self.resume_writing()
            return
        piece = self.queue.pop(0)
        seconds = max(relay.wait_for_line(len(piece)), len(piece) / rate if rate else 0)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._send_piece, piece, relay, rate)

    def _send_piece(self, piece: bytes, relay: Relay, rate: float) -> None:
        if self.transport and not self.transport.is_closing():
            self.transport.write(piece)
            self._send_next(relay, rate)

    def close(self, *, reset: bool = False) -> None:
        """Ends the connection: properly after what is queued, or at once with a reset."""
        if self._timer:
            self._timer.cancel()
        if not self.transport or self.transport.is_closing():
            return
        if reset:
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()
        else:
            if self.queue:
                self.transport.write(b"".join(self.queue))
            self.transport.close()


class _Client(_Side):
    """The connection from a client: finds requests in it, and holds each for the latency."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self.relay = relay
        self.server = _Server(self)
        self.peer = self.server
        self.exchange: _Exchange | None = None
        self._head = b""
        self._held: list[bytes] | None = None  # while a request waits
        self._connected: asyncio.Task[Any] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.relay.connections += 1
        loop = asyncio.get_running_loop()
        connect = loop.create_connection(lambda: self.server, *self.relay.server)
        self._connected = loop.create_task(connect)
        self._connected.add_done_callback(self._on_connected)

    def _on_connected(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception():
            self.close(reset=True)  # the server is down

    def connection_lost(self, error: Exception | None) -> None:
        self.finish()
        if self._connected and not self._connected.done():
            self._connected.cancel()
        self.server.close()

    def data_received(self, data: bytes) -> None:
        while data:
            if self.exchange is None or (self.exchange.upload.done and self.exchange.answer):
                self._head += data
                end = self._head.find(b"\r\n\r\n") + 4
                if end == 3:
                    return
                head, data, self._head = self._head[:end], self._head[end:], b""
                self._begin(head)
            elif self.exchange.upload.done:
                return  # pipelining, which no client does
            else:
                self._pass_upload(data)
                return

    def _begin(self, head: bytes) -> None:
        self.finish()
        self.exchange = _Exchange(self.relay, head)
        self.relay.in_flight += 1
        self.relay.most_in_flight = max(self.relay.most_in_flight, self.relay.in_flight)
        self.relay.sent[self.exchange.kind] += self.exchange.upload.size
        self._held = [head]
        delay = asyncio.get_running_loop().call_later
        delay(self.relay.latency, self._go, self.exchange)

    def _pass_upload(self, data: bytes) -> None:
        exchange = cast(_Exchange, self.exchange)
        exchange.upload.take(data)
        if self._held is not None:
            self._held.append(data)
            if sum(map(len, self._held)) > _HELD_BYTES and self.transport:
                self.transport.pause_reading()
            return
        if exchange.fault_name == "status":
            if exchange.upload.done:
                self._refuse(cast(Fault, exchange.fault))
            return
        if exchange.fault_name == "reset-upload" and exchange.upload.passed * 2 >= (
            exchange.upload.size
        ):
            self.server.send(data[: len(data) // 2], self.relay)
            self._break()
            return
        self.server.send(data, self.relay)

    def _go(self, exchange: _Exchange) -> None:
        """The latency is over."""
        if self.exchange is not exchange or not self.transport or self.transport.is_closing():
            return
        if not self.server.transport:  # still connecting
            asyncio.get_running_loop().call_later(0.001, self._go, exchange)
            return
        held, self._held = cast(list[bytes], self._held), None
        self.transport.resume_reading()
        if exchange.fault_name == "reset-before":
            self._break()
        elif exchange.fault_name == "status":
            if exchange.upload.done:
                self._refuse(cast(Fault, exchange.fault))
        elif exchange.fault_name == "reset-upload":
            data = b"".join(held)
            if exchange.upload.passed * 2 < exchange.upload.size:
                self.server.send(data, self.relay)
            else:
                self.server.send(data[: max(len(held[0]), len(data) // 2)], self.relay)
                self._break()
        else:
            self.server.send(b"".join(held) if len(held) > 1 else held[0], self.relay)

    def _refuse(self, fault: Fault) -> None:
        exchange = cast(_Exchange, self.exchange)
        exchange.status = fault.status
        exchange.answer = _Body(b"", has_body=False)
        wait = f"Retry-After: {fault.retry_after:g}\r\n" if fault.retry_after >= 0 else ""
        reason = _REASONS.get(fault.status, "Fault")
        self.send(
            f"HTTP/1.1 {fault.status} {reason}\r\n{wait}Content-Length: 0\r\n\r\n".encode(),
            self.relay,
        )
        self.finish()

    def _break(self) -> None:
        self.finish()
        self.close(reset=True)
        self.server.close(reset=True)

    def finish(self) -> None:
        """Counts an exchange that is over."""
        if self.exchange is None:
            return
        exchange, self.exchange = self.exchange, None
        self.relay.in_flight -= 1
        self.relay.requests.append(
            (
                exchange.kind,
                exchange.method,
                exchange.target,
                exchange.status,
                exchange.fault_name,
            )
        )

    def pass_answer(self, data: bytes, relay: Relay) -> None:
        """Passes a part of an answer's body, unless its fault begins with it."""
        exchange = cast(_Exchange, self.exchange)
        body = cast(_Body, exchange.answer)
        relay.received[exchange.kind] += len(data)
        name = exchange.fault_name
        if name in ("reset-body", "truncated", "stalled"):
            allowed = max(0, body.size // 2 - body.passed)
            body.take(data)
            self.send(data[:allowed], relay)
            if name == "stalled":
                return
            if body.passed * 2 >= body.size:
                reset = name == "reset-body"
                # What was sent before a reset may not arrive otherwise.
                asyncio.get_running_loop().call_later(0.01, lambda: self._end(reset))
            return
        body.take(data)
        rate = exchange.fault.rate if exchange.fault and name == "slow" else 0
        self.send(data, relay, rate)
        if body.done:
            self.finish()

    def _end(self, reset: bool) -> None:
        self.finish()
        self.close(reset=reset)
        self.server.close(reset=True)


class _Server(_Side):
    """The connection to the server: finds answers in it."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.client = client
        self.peer = client
        self._head = b""

    def connection_lost(self, error: Exception | None) -> None:
        exchange = self.client.exchange
        if exchange is None or exchange.fault_name != "stalled":
            self.client.close(reset=error is not None)

    def data_received(self, data: bytes) -> None:
        exchange = self.client.exchange
        if exchange is None:
            return
        if exchange.answer is None:
            self._head += data
            end = self._head.find(b"\r\n\r\n") + 4
            if end == 3:
                return
            head, data, self._head = self._head[:end], self._head[end:], b""
            self._begin(exchange, head, data)
        else:
            self.client.pass_answer(data, self.client.relay)

    def _begin(self, exchange: _Exchange, head: bytes, data: bytes) -> None:
        relay = self.client.relay
        status = int(head[9:12])
        if status < 200:  # "go on sending"
            self.client.send(head, relay)
            if data:
                self.data_received(data)
            return
        exchange.status = status
        body = exchange.method != "HEAD" and status not in (204, 304)
        exchange.answer = _Body(head.lower(), has_body=body)
        breaks = exchange.fault_name in ("reset-body", "truncated", "stalled")
        if exchange.fault_name == "reset-after" or (breaks and exchange.answer.size < 2):
            self.client._break()
            return
        server = f"{relay.server[0]}:{relay.server[1]}".encode()
        if server in head:  # of an upload that continues at another URL
            head = head.replace(server, relay.own)
        self.client.send(head, relay)
        if data:
            self.client.pass_answer(data, relay)
        elif exchange.answer.done:
            self.client.finish()


async def _serve(server: tuple[str, int], report: Callable[[dict[str, str]], None]) -> None:
    relay = Relay(server)
    loop = asyncio.get_running_loop()

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.readline())
        writer.write(json.dumps(relay.answer(order)).encode() + b"\n")
        await writer.drain()
        writer.close()

    listening = await loop.create_server(lambda: _Client(relay), "127.0.0.1", 0, backlog=1024)
    controls = await asyncio.start_server(control, "127.0.0.1", 0)
    own, orders = (
        "{}:{}".format(*one.sockets[0].getsockname()[:2]) for one in (listening, controls)
    )
    relay.own = own.encode()
    report({"own": own, "control": orders})
    await asyncio.gather(listening.serve_forever(), controls.serve_forever())


def main() -> None:
    """Runs until it is killed; prints its addresses as JSON first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="HOST:PORT")
    host, _, port = parser.parse_args().server.rpartition(":")
    asyncio.run(_serve((host, int(port)), lambda found: print(json.dumps(found), flush=True)))


if __name__ == "__main__":
    sys.exit(main())
