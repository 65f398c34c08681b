"""Workers that are silent: a job server may wait for a worker that never comes.

Beam's job server asks a worker pool for a worker, and then waits for it without a limit. If the
pool dies in between, the job neither fails nor continues.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_jobs.progress import Follower
from shard_format import InputError

# Beats come every 10 s. An engine may take a minute to see that a machine is lost, and to start
# its tasks elsewhere.
_NOTE_SECONDS = 120.0
# As Flink fails a job that gets no slots for 5 minutes.
_END_SECONDS = 300.0


class Silence:
    """Watches for the time since a worker has last reported.

    Args:
        follower: Of the workers' reports.
        waits_without_limit: Whether the engine might wait for a dead worker forever.
        on_note: Called with what a user may want to look at.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        waits_without_limit: bool,
        on_note: Callable[[str], None],
    ) -> None:
        self._follower = follower
        self._waits_without_limit = waits_without_limit
        self._on_note = on_note
        self._noted = False
        self.error: InputError | None = None

    def is_too_long(self) -> bool:
        """Whether the job must be ended; `error` then says why."""
        seconds = self._follower.seconds_silent
        if seconds < _NOTE_SECONDS:
            self._noted = False
        elif not self._noted:
            self._noted = True
            what = "No worker has reported" if self._follower.has_heard else "No worker has started"
            self._on_note(
                f"{what} for {seconds / 60:.0f} minutes. Look at the logs of the engine: it needs "
                "free slots, and a worker pool that runs on every machine."
            )
        # A job that waits in a queue has had no worker yet.
        if self._waits_without_limit and self._follower.has_heard and seconds >= _END_SECONDS:
            self.error = InputError(
                f"No worker has reported for {seconds / 60:.0f} minutes, so the job was cancelled: "
                "a worker pool has probably died while the engine waited for it. What is finished "
                "was kept. See that every worker pool runs, cancel the job in the engine if it is "
                "still there, and run the same command again; it resumes."
            )
        return self.error is not None
