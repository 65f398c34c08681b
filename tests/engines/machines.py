"""Machines of a test: this one by addresses of its loopback, or several in network namespaces.

with machines_apart(("head", "worker1")) as network:
    with network.machines["worker1"].entered():
        subprocess.Popen(...)  # has that machine's addresses, and reaches others over their links
    network.cut("worker1")
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

_NETWORK = "10.177.0"
_SWITCH = "switch"
_OWN = Path("/proc/thread-self/ns/net")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        address: Address in its network, which others reach it by.
        namespace: Namespace of its network; None for the one of this process.
    """

    address: str
    namespace: Path | None = None

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Within this context, this thread and the processes that it starts are on the machine."""
        if self.namespace is None:
            yield
            return
        before = os.open(_OWN, os.O_RDONLY)
        try:
            with self.namespace.open() as file:
                _enter(file.fileno())
            yield
        finally:
            _enter(before)
            os.close(before)


class Network:
    """Machines around a switch.

    Attributes:
        machines: By name.
    """

    def __init__(self, machines: Mapping[str, Machine], prefix: str) -> None:
        self.machines = machines
        self._prefix = prefix

    def cut(self, name: str) -> None:
        """Cuts the link between a machine and the switch, as if a cable was pulled."""
        self._set(name, "down")

    def mend(self, name: str) -> None:
        """Mends it."""
        self._set(name, "up")

    def _set(self, name: str, state: str) -> None:
        port = f"port{list(self.machines).index(name)}"
        _ip("-n", self._prefix + _SWITCH, "link", "set", port, state)


@contextlib.contextmanager
def machines_apart(names: Sequence[str]) -> Iterator[Network]:
    """Machines in network namespaces, which are removed at the end.

    Skips the test where this process must not make them.
    """
    prefix = f"shardmill-{os.getpid()}-"
    machines, made = {}, []
    try:
        for name in (_SWITCH, *names):
            _add(prefix + name, made)
        switch = prefix + _SWITCH
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(names):
            host, port, address = prefix + name, f"port{number}", f"{_NETWORK}.{number + 1}"
            _ip(
                *("-n", host, "link", "add", "eth0", "type", "veth"),
                *("peer", port, "netns", switch),
            )
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", host, "link", "set", device, "up")
            machines[name] = Machine(address, Path("/run/netns") / host)
        yield Network(machines, prefix)
    finally:
        for namespace in made:
            _ip("netns", "delete", namespace)


def _add(namespace: str, made: list[str]) -> None:
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the program 'ip'")
    try:
        _ip("netns", "add", namespace)
    except RuntimeError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    made.append(namespace)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
    if libc.setns(descriptor, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
