"""A server behind a proxy that tests control: latency, bandwidth, counts and faults."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.engines.processes import processes
from tests.servers.faults import Fault
from tests.servers.server import Server


@dataclasses.dataclass(frozen=True)
class Counts:
    """What went through a proxy since its counts were last reset.

    Attributes:
        kinds: Requests by kind, as `faults.kind_of` names them.
        faults: Requests by the fault that happened to them.
        sent: Bytes of uploads by kind.
        received: Bytes of answers' bodies by kind.
        connections: That were opened.
        most_in_flight: Requests at a time.
        requests: (kind, method, path and query, status, fault) in the order of their ends.
    """

    kinds: Counter[str]
    faults: Counter[str]
    sent: Counter[str]
    received: Counter[str]
    connections: int
    most_in_flight: int
    requests: list[tuple[str, str, str, int, str]]


class Proxy:
    """A proxy that runs.

    Attributes:
        server: The server as it is reached through the proxy.
        pid: Process id of the proxy.
    """

    def __init__(self, server: Server, control: str, pid: int) -> None:
        self.server = server
        self.pid = pid
        self._control = control

    def set(
        self,
        *,
        latency: float | None = None,
        bandwidth: float | None = None,
        faults: Sequence[Fault] | None = None,
        seed: int = 0,
    ) -> None:
        """Changes what is given: seconds a request, bytes a second (0: no limit), the faults."""
        order: dict[str, Any] = {}
        if latency is not None:
            order["latency"] = latency
        if bandwidth is not None:
            order["bandwidth"] = bandwidth
        if faults is not None:
            order["faults"] = [dataclasses.asdict(fault) for fault in faults]
            order["seed"] = seed
        self._order(order)

    def counts(self, *, requests: bool = False) -> Counts:
        """What went through it; with the single requests if asked."""
        told = self._order({"requests": requests})
        counters = {name: Counter(told.pop(name)) for name in ("kinds", "faults", "sent")}
        received = Counter(told.pop("received"))
        told["requests"] = [tuple(request) for request in told["requests"]]
        return Counts(**counters, received=received, **told)

    def reset(self) -> None:
        """Sets the counts to zero."""
        self._order({"reset": True})

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        host, _, port = self._control.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(json.dumps(order).encode() + b"\n")
            with connection.makefile("rb") as answer:
                reply: dict[str, Any] = json.loads(answer.read())
        return reply


@contextlib.contextmanager
def proxy(server: Server, folder: Path, *, latency: float = 0) -> Iterator[Proxy]:
    """A proxy before a server, in a process of its own.

    Args:
        server: That runs.
        folder: Folder of its log.
        latency: Seconds added to each request.
    """
    log = folder / "proxy.log"
    with processes(folder) as started:
        command = [sys.executable, "-m", "tests.servers.relay", server.address]
        started.start("proxy", command, {"PYTHONPATH": str(Path(__file__).parents[2])})
        started.wait_for("proxy", lambda: b"\n" in log.read_bytes())
        addresses = json.loads(log.read_text().splitlines()[-1])
        own = server.at(addresses["own"])
        running = Proxy(own, addresses["control"], started.pid("proxy"))
        running.set(latency=latency)
        yield running
