"""Servers of photographs on several addresses of this machine, some of them slow or without a file.

Arguments: FOLDER PORT HOSTS. Of a path /N, N of a hundred decides: 0 is missing (404), 1 fails
(503), 2 comes after a second; all others are photographs of the folder in turn.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

SLOW_SECONDS = 1.0


def hosts(number: int) -> list[str]:
    """The addresses of so many servers."""
    return [f"127.0.1.{1 + one}" for one in range(number)]


class Photos(asyncio.Protocol):
    """A connection; answers are ready in memory."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answers each request that is whole."""
        self._head += data
        while b"\r\n\r\n" in self._head:
            head, self._head = self._head.split(b"\r\n\r\n", 1)
            number = int(head.split(b" ", 2)[1].strip(b"/"))
            answer = self._answers[number % len(self._answers)]
            if number % 100 < 2:
                status = (b"404 Not Found", b"503 Service Unavailable")[number % 100]
                answer = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
            delay = SLOW_SECONDS if number % 100 == 2 else 0
            asyncio.get_running_loop().call_later(delay, self._transport.write, answer)


async def serve(folder: Path, port: int, number: int) -> None:
    """Serves until the process is ended."""
    bodies = [path.read_bytes() for path in sorted(folder.rglob("*.jpg"))]
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(body)
        + body
        for body in bodies
    ]
    loop = asyncio.get_running_loop()
    for host in hosts(number):
        await loop.create_server(lambda: Photos(answers), host, port, backlog=1024)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
