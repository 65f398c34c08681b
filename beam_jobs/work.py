"""What a worker does in a step, and how an error reaches the user from any worker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from beam_jobs.build import check_owner, output_error, work_dir_missing
from beam_jobs.job_context import JobContext
from beam_jobs.progress import at_work, flush
from beam_jobs.workspace import read_json, write_json
from foundation import errors
from shard_format import InputError, ShardmillError

# Adds to a counter; on Beam counters are metrics of the pipeline.
Count = Callable[[str, int], None]

# By run id, from workers that are threads of the launcher; others leave a file.
_ERRORS: dict[str, ShardmillError] = {}


def kept_error(context: JobContext) -> Exception | None:
    """The error of a run that a worker kept for the user, if any; it is forgotten then."""
    workspace = context.workspace
    kept = _ERRORS.pop(context.run_id, None)
    if kept is not None:
        return kept
    note = read_json(workspace.error(context.run_id))
    if note is not None:
        kind: Callable[[str], Exception] = getattr(errors, note["type"])
        return kind(note["message"])
    return output_error(FileNotFoundError(), workspace) if work_dir_missing(workspace) else None


class Work:
    """Base class of what a worker does in a step.

    Args:
        context: The job.
        launched: Whether a launcher waits for errors, and will finish the build.
    """

    def __init__(self, context: JobContext, launched: bool) -> None:
        self._context = context
        self._launched = launched

    def setup(self, count: Count) -> None:
        """Prepares a worker for a step, before the first element."""
        self._count = count
        self._context.workspace.compare_again()

    def finish(self) -> None:
        """Ends some elements: the launcher may remove the work folder once the last are done."""
        flush(self._context.workspace.progress)

    # (element, *lists) -> elements: an element of the step it takes one by one, and all elements of
    # the steps it takes whole. A runner may hand over a tuple in place of a NamedTuple.
    process: Callable[..., Iterator[Any]]

    @contextlib.contextmanager
    def _reporting_errors(self, *, owned: bool = True) -> Iterator[bool]:
        """Keeps what a user can fix for the launcher: runners wrap exceptions as text.

        In the context is whether there is work to do. There is none after a cancellation, nor where
        another run has taken over: an engine would repeat what fails, and hold its slots.

        Args:
            owned: Whether the output must belong to this run already.
        """
        try:
            with at_work(self._context.workspace.progress):
                yield not owned or self._is_wanted()
        except ShardmillError as error:
            self._keep(error, final=True)
            raise
        except OSError as error:
            readable = output_error(error, self._context.workspace)
            self._keep(readable, final=False)  # a worker on another machine may succeed
            raise readable from error

    def _is_wanted(self) -> bool:
        try:
            return check_owner(self._context)
        except InputError as error:
            if not self._launched:
                raise
            self._keep(error, final=True)
            return False

    def _keep(self, error: ShardmillError, *, final: bool) -> None:
        workspace, run_id = self._context.workspace, self._context.run_id
        _ERRORS[run_id] = error
        kept = {
            "type": type(error).__name__,
            "message": str(error),
            "final": final,
        }
        with contextlib.suppress(OSError):  # a full disk has no room for this either
            write_json(workspace, workspace.error(run_id), kept)


def count_nothing(name: str, value: int) -> None:
    """Ignores a count, for workers whose counts nobody reads."""
