"""One record: read it, check that the job has a place for it, prepare it, or say why not."""

from __future__ import annotations

import os
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import splits_are_given
from beam_jobs.record_types import Prepared, SingleRecords
from beam_jobs.repairs import read_repaired
from beam_jobs.sources import Item, Raw, ReadRecord
from beam_jobs.sources.naming import SPLIT_NAMES


class Preparer(NamedTuple):
    """Turns items into records; nothing that is wrong with one of them gets out as an exception.

    Attributes:
        options: The job.
        read: Reads an item of the unit that is open.
        record_type: How a record is prepared.
    """

    options: PreprocessOptions
    read: ReadRecord
    record_type: SingleRecords

    def __call__(self, item: Item) -> tuple[Raw, Prepared | Rejection]:
        """What was read, without its bytes, and what came of it."""
        nothing = Raw(b"", item.label, item.group, item.split)
        if item.refused:
            reason, _, detail = item.refused.partition(": ")
            return nothing, Rejection(
                reason, detail, stage="list", data=self._bytes_if_readable(item)
            )
        try:
            raw, data = self._read(item)
        except Rejection as refusal:
            return nothing, Rejection(
                refusal.reason, refusal.detail, stage="read", data=refusal.data
            )
        except OSError as error:
            detail = f"reading it failed: {error.strerror or type(error).__name__}"
            return nothing, Rejection("unreadable", detail, stage="read")
        raw = raw._replace(data=b"")
        try:
            check_placed(raw.label, raw.split, self.options)
            return raw, self.record_type.prepare(item.record_id, data)
        except Rejection as refusal:
            return raw, refusal.at("prepare").with_data(data)

    def _read(self, item: Item) -> tuple[Raw, bytes]:
        """What the source says of a record, and its bytes or those that were mended."""
        if item.repaired:
            return read_repaired(item, self.read)
        raw = self.read(item)
        return raw, raw.data

    def _bytes_if_readable(self, item: Item) -> bytes | None:
        """The bytes of what the listing refused; None for pipes, broken links and the like."""
        if not os.path.isfile(item.path):
            return None
        try:
            return self.read(item).data
        except (OSError, Rejection):
            return None


def check_placed(label: str | None, split: str | None, options: PreprocessOptions) -> None:
    """Returns if a record has the label and the split that the job needs.

    Raises:
        Rejection: It has not.
    """
    if label is None and not options.no_labels:
        column = options.label_column
        raise Rejection(
            "no-label", f"it has no {column!r}" if column else "nothing tells its label"
        )
    if split is None and splits_are_given(options.split):
        raise Rejection(
            "no-split", f"--split {options.split} finds none of {', '.join(SPLIT_NAMES)} for it"
        )
