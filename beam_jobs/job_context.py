"""A job as its stages get it: the options, with what is parsed from them once per process."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from typing import Any

from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RECORD_TYPES, RecordType
from beam_jobs.workspace import Workspace
from foundation import storage


@dataclasses.dataclass(frozen=True, eq=False)
class JobContext:
    """Options, record type and workspace of one run of a job.

    It is pickled as options and run id. A process makes the rest once, however many steps and
    elements it gets, and its threads share it.

    Attributes:
        options: The options, resolved.
        record_type: The record type, made from the options.
        workspace: The folders of the build.
        run_id: A name that no other run has.
    """

    options: PreprocessOptions
    record_type: RecordType
    workspace: Workspace
    run_id: str

    @classmethod
    def create(
        cls,
        options: PreprocessOptions,
        workspace: Workspace | None = None,
        run_id: str | None = None,
    ) -> JobContext:
        """Makes the context of a run.

        Args:
            options: The options, resolved.
            workspace: Other folders than those that the options name; such a context stays in its
                process.
            run_id: The name of the run; None for a new one.
        """
        record_type = RECORD_TYPES[options.record_type](options)
        return cls(
            options, record_type, workspace or workspace_of(options), run_id or uuid.uuid4().hex
        )

    def with_options(self, **changes: Any) -> JobContext:
        """The context with other options that have no effect on records, such as folders."""
        options = dataclasses.replace(self.options, **changes)
        return dataclasses.replace(self, options=options, workspace=workspace_of(options))

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_this_process, (self.options, self.run_id)


@functools.lru_cache(maxsize=1)  # of the latest run: a process that runs many keeps one
def _in_this_process(options: PreprocessOptions, run_id: str) -> JobContext:
    return JobContext.create(options, run_id=run_id)


def workspace_of(options: PreprocessOptions) -> Workspace:
    """The folders of a job."""
    staging = storage.place_of(options.staging) if options.staging else None
    return Workspace(storage.place_of(options.out), staging)
