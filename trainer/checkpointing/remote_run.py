"""A run at a URL: it works in a local copy of its directory, and sends what has changed.

    RUN_URL/lock/     the lease of the run that works there
    RUN_URL/NAME      the files of a local run directory

A run begins with the files that are there, and sends its own whenever a checkpoint is whole. Their
order is that of a local run: what a checkpoint needs, its values, their checksums, the name of the
latest one; then what is not kept is deleted. So a kill leaves a run that resumes, as on a disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from foundation import storage
from foundation.errors import ShardmillError, file_error
from foundation.machine import own_temporary_folder
from foundation.storage import Place, Stat, Url
from foundation.storage.lease import Lease
from trainer.checkpointing import checkpoint_files, run_dir
from trainer.checkpointing.run_lock import NAME as LOCK
from trainer.checkpointing.run_lock import RunLock
from trainer.events import Event, Notice, OnEvent, RunDone, TrainResult
from trainer.workers.team import Team

_COPY_BYTES = 4 << 20  # 4 MiB
# What a run does not need to resume, or what is of this machine alone.
_LEFT_OUT = (run_dir.TENSORBOARD, run_dir.WORKERS, LOCK)


class RunCopy:
    """The local copy of a run.

    Args:
        url: The run.
        folder: Where its copy is.
        on_event: Function called with events of the run, which name the URL then.

    Attributes:
        folder: Where its copy is.
    """

    def __init__(self, url: Url, folder: Path, on_event: OnEvent) -> None:
        self.folder = folder
        self._url = url
        self._show = on_event
        self._sent: dict[str, Stat] = {}
        self._is_over = False
        note = self._note
        self._lease = Lease(url / LOCK, url, note, work="run", option="--run-dir")

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Takes the run until the stack is left, and fetches its files.

        Raises:
            InputError: Another run works there, it is not the directory of a run, or it cannot be
                read.
        """
        try:
            run_dir.require_free(self._url)
            storage.make_folder(self._url / LOCK)
            stack.enter_context(self._lease.held())
            lock = RunLock(self.folder.parent)
            lock.acquire(self._note)
            stack.callback(lock.release)
            shutil.rmtree(self.folder, ignore_errors=True)  # what a killed process left
            stack.callback(self._end)
            names = storage.fetch_tree(self._url, self.folder, _LEFT_OUT)
            self._sent = {name: _stat(self.folder / name) for name in names}
        except OSError as error:
            raise file_error(error, str(self._url)) from error

    def send(self) -> None:
        """Sends what has changed since the last call, and deletes what is gone.

        Raises:
            InputError: It cannot be written, or another run took the lease over.
        """
        here = {
            name: _stat(path)
            for path in self.folder.rglob("*")
            if _is_sent(name := path.relative_to(self.folder).as_posix()) and path.is_file()
        }
        try:
            if self._lease.is_lost():
                raise self._lease.lost()
            for name in sorted(here, key=_rank):
                if here[name] != self._sent.get(name) and not self._is_over:
                    self._send(name)
                    self._sent[name] = here[name]
            for name in sorted(self._sent.keys() - here.keys(), key=_rank, reverse=True):
                if not self._is_over:
                    storage.delete(self._url / name)
                    del self._sent[name]
        except OSError as error:
            raise file_error(error, str(self._url)) from error

    def on_event(self, event: Event) -> None:
        """Passes an event on, with the URL for the path of the copy."""
        if isinstance(event, Notice):
            event = Notice(self.named(event.text))
        if isinstance(event, RunDone):
            event = dataclasses.replace(event, model_path=self._url_of(event.model_path))
        self._show(event)

    def named(self, text: str) -> str:
        """A text with the URL for the path of the copy."""
        return text.replace(str(self.folder), str(self._url))

    def result(self, result: TrainResult) -> TrainResult:
        """A result with the places at the URL."""
        return dataclasses.replace(
            result,
            run_dir=self._url,
            model_path=self._url_of(result.model_path),
            best_path=result.best_path and self._url_of(result.best_path),
        )

    def _url_of(self, path: Place) -> Url:
        return Url(self.named(str(path)))

    def _note(self, text: str) -> None:
        self.on_event(Notice(text))

    def _send(self, name: str) -> None:
        place = self._url / name
        storage.make_folder(place.parent)
        with (
            (self.folder / name).open("rb") as source,
            storage.create(place, scratch=self.folder.parent) as target,
        ):
            if _rank(name):
                shutil.copyfileobj(source, target, _COPY_BYTES)
            else:  # run.json has the path of the copy among its options
                target.write(self.named(source.read().decode()).encode())

    def _end(self) -> None:
        """Deletes the copy, which a thread that was left behind must not take for the run."""
        self._is_over = True
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def copied(url: Url, team: Team, on_event: OnEvent) -> Iterator[RunCopy]:
    """Within this context the chief has a copy of a run, and no other run works there.

    Raises:
        InputError: See `RunCopy.begin`.
    """
    owner = hashlib.blake2b(url.text.encode(), digest_size=8).hexdigest()
    try:
        folder = own_temporary_folder("shardmill-runs")
    except OSError as error:
        raise file_error(error, tempfile.gettempdir()) from error
    copy = RunCopy(url, folder / owner / "run", on_event)
    with contextlib.ExitStack() as stack:
        try:
            team.from_chief(lambda: copy.begin(stack))
            yield copy
        except ShardmillError as error:
            error.args = (copy.named(str(error)), *error.args[1:])
            raise


def _stat(path: Path) -> Stat:
    stat = path.stat()
    return Stat.of(stat.st_size, stat.st_mtime_ns)


def _is_sent(name: str) -> bool:
    """Whether a file is of the run: not the lock of this machine, or one that is being written."""
    base = name.rpartition("/")[2]
    is_temporary = base.endswith(".tmp") or base.startswith("unfinished-")
    return not is_temporary and base != LOCK


def _rank(name: str) -> int:
    """In which order files are sent."""
    folder, _, base = name.rpartition("/")
    if folder.rpartition("/")[2] == run_dir.CHECKPOINTS:
        return 2 + checkpoint_files.rank(base)
    return int(base != run_dir.RUN)
