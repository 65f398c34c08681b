"""A lease on a folder in an object store, which has no locks: of a build, or of a run.

Leases are objects with numbers, of which the highest is in force. Each is created only if it is not
there, so of several builds one gets a number. Its owner writes it again every few seconds. One that
was not written for longer belongs to a process that was killed, and the next number may be taken;
at once if that process was on this machine and is gone. Times are those of the store, which stamps
every object: clocks of machines need not agree.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foundation import storage
from foundation.errors import InputError
from foundation.storage import Place

RENEW_SECONDS = 5.0
# Several renewals may fail before a lease is taken over.
STALE_SECONDS = 30.0

_SUFFIX = ".lease"


class Lease:
    """The lease of one process.

    Args:
        folder: Folder of the leases of an output.
        out: The output, for messages.
        on_note: Called with a message if it is not clear yet whether another process still runs, or
            if the store cannot tell them apart.
        work: What the process does, in messages: "build" or "run".
        option: The option that names the output.
    """

    def __init__(
        self,
        folder: Place,
        out: Place,
        on_note: Callable[[str], None],
        work: str = "build",
        option: str = "--out",
    ) -> None:
        self._folder = folder
        self._out = out
        self._on_note = on_note
        self._work, self._option = work, option
        self._number = 0
        owner = {"host": socket.gethostname(), "process": os.getpid(), "machine": _machine()}
        self._content = json.dumps({**owner, "id": uuid.uuid4().hex}).encode()
        self._over = threading.Event()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within this context the lease is this process's, unless it cannot be renewed for long.

        Raises:
            InputError: Another one has it, or took it over, which a failure follows from.
        """
        self._acquire()
        renewal = threading.Thread(target=self._renew, name="lease", daemon=True)
        renewal.start()
        try:
            yield
        except Exception as error:
            if self.is_lost():
                raise self.lost() from error
            raise
        finally:
            self._over.set()
            renewal.join()
            self._release()

    def is_lost(self) -> bool:
        """Whether another process took the lease over, as far as that can be said."""
        try:
            return max(self._numbers(), default=0) > self._number
        except OSError:
            return False

    def lost(self) -> InputError:
        """The error that another process took the lease over."""
        by = _by(self._owner(max(self._numbers(), default=0)))
        return InputError(
            f"This {self._work} has lost {self._out} to another {self._work}{by}, which took its "
            f"lease over: it was not renewed for {STALE_SECONDS:.0f} s, as by a computer that "
            f"sleeps or a network that is down. Wait for the other {self._work} to end; then run "
            "the same command again, which resumes or finds what is done. Or choose another "
            f"{self._option}."
        )

    def _acquire(self) -> None:
        numbers = self._numbers()
        if numbers:
            self._check_stale(max(numbers))
        self._number = max(numbers, default=0) + 1
        place = self._object(self._number)
        try:
            storage.write_bytes(place, self._content, if_absent=True)
        except FileExistsError:
            raise self._taken(self._number) from None
        with contextlib.suppress(FileExistsError):
            storage.write_bytes(place, self._content + b" ", if_absent=True)
            self._on_note(
                f"{self._out} is in a store that ignores conditional writes, so a second "
                f"{self._work} into the same place would not be noticed."
            )

    def _check_stale(self, number: int) -> None:
        """Waits until it is clear that the owner of a lease was killed, or has ended.

        Raises:
            InputError: The owner writes it.
        """
        owner, first = self._owner(number), storage.stat(self._object(number))
        if owner.get("machine") == _machine() and not _is_running(owner["process"]):
            return
        lease, told = first, False
        while lease is not None:
            left = STALE_SECONDS - (self._now() - lease.mtime_ns) / 1e9
            if lease != first:
                raise self._taken(number)
            if left <= 0:
                return
            if not told:
                self._on_note(
                    f"{self._out} has the lease of a {self._work}{_by(owner)}, which may have "
                    f"been killed: waiting for up to {left:.0f} s."
                )
                told = True
            time.sleep(min(left, RENEW_SECONDS / 2))
            lease = storage.stat(self._object(number))

    def _now(self) -> int:
        """The time of the store, in nanoseconds, from an object that is written now."""
        probe = self._folder / f"{uuid.uuid4().hex}.now"
        storage.write_bytes(probe, b"")
        stat = storage.stat(probe)
        storage.delete(probe)
        return stat.mtime_ns if stat is not None else 0

    def _owner(self, number: int) -> dict[str, Any]:
        """What a lease says of its owner; nothing if it has ended."""
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(storage.read_bytes(self._object(number))))
        return {}

    def _taken(self, number: int) -> InputError:
        return InputError(
            f"Another {self._work}{_by(self._owner(number))} is writing to {self._out}. Wait for "
            f"it to end, or choose another {self._option}. The lease of a killed {self._work} ends "
            f"after {STALE_SECONDS:.0f} s."
        )

    def _renew(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            # A renewal that fails is tried again; workers notice if another one took over.
            with contextlib.suppress(OSError):
                if max(self._numbers(), default=0) != self._number:
                    return
                storage.write_bytes(self._object(self._number), self._content)

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            for number in self._numbers():
                if number <= self._number:
                    storage.delete(self._object(number))

    def _numbers(self) -> list[int]:
        names = (entry.name for entry in storage.list_folder(self._folder))
        return [int(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX)]

    def _object(self, number: int) -> Place:
        return self._folder / f"{number}{_SUFFIX}"


def _by(owner: dict[str, Any]) -> str:
    return f" (process {owner['process']} on {owner['host']})" if owner else ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        pass
    return True


def _machine() -> str:
    """What processes share among which process ids are unique."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{booted} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex
