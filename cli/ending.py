"""How a command ends: a message on stderr, an exit code, and with --json one object on stdout.

A command with --json prints one object, whatever happens. That of a result is the command's own
(`cli.console.print_json`). That of every other end is printed here:

    {"error": "No directory set.", "code": 3, "hint": "Correct the path."}

`error` is the whole message, `code` the exit code, and `hint` what to do, or null.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator

from foundation.errors import ShardmillError
from foundation.processes.signals import ExitHandler, ends_process, handling

_STDOUT, _STDERR = 1, 2  # file descriptors
_SENTENCE_END = re.compile(r"[.!?)] (?=[A-Z])")
_has_object = False  # whether an object was printed


@contextlib.contextmanager
def of_command() -> Iterator[None]:
    """Context of one command: it has printed no object, and SIGTERM prints one if it has --json."""
    global _has_object
    _has_object = False
    numbers = [signal.SIGTERM] if _wants_json() else []
    with handling(ExitHandler(_notify_stopped), *numbers, replaces=ends_process):
        yield


def object_was_printed() -> None:
    """Notes that stdout has its object, so that no second one is printed."""
    global _has_object
    _has_object = True


def fail(error: ShardmillError) -> None:
    """Prints an error that the caller ends the process with."""
    _write(_STDERR, f"error: {error}")
    print_object(error.exit_code, str(error))


def print_object(code: int, message: str, hint: str | None = None) -> None:
    """Prints the object of an end, if the command has --json and printed none.

    Args:
        code: Exit code.
        message: The fact, then what to do.
        hint: What to do; None for the last sentence of the message, if it has several.
    """
    if _has_object or not _wants_json():
        return
    object_was_printed()
    if hint is None:
        ends = [match.end() for match in _SENTENCE_END.finditer(message)]
        hint = message[ends[-1] :] if ends else None
    _write(_STDOUT, json.dumps({"error": message, "code": code, "hint": hint}))


def stopped(error: ShardmillError) -> SystemExit:
    """Prints that a signal stopped work, and the command that continues it.

    Returns:
        What the caller raises.
    """
    command = shlex.join(["shardmill", *sys.argv[1:]])
    message = str(error)
    _write(_STDERR, f"{message.removesuffix('.')}:\n  {command}")
    print_object(error.exit_code, message, command)
    return SystemExit(error.exit_code)


def _notify_stopped() -> None:
    _write(_STDERR, "stopped by SIGTERM")
    print_object(128 + signal.SIGTERM, "stopped by SIGTERM")


def _wants_json() -> bool:
    ours = sys.argv[1:]
    return "--json" in ours[: ours.index("--")] if "--" in ours else "--json" in ours


def _write(descriptor: int, line: str) -> None:
    """Writes a line past Python's buffers, which a signal may have come in the middle of."""
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(descriptor, f"{line}\n".encode(errors="backslashreplace"))
