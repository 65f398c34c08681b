"""Documents: files of any format in folders, in archives, or named one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beam_jobs.documents import FORMATS, Part
from beam_jobs.documents.reading import ReadDocument, read_part
from beam_jobs.options import TextOptions
from beam_jobs.rejects import Reject
from beam_jobs.sources.base import BatchSource, Item
from beam_jobs.sources.containers import find_files, split_by_folder


class Documents(BatchSource):
    """Every file below the roots."""

    options: TextOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._formats = {name: form(options) for name, form in FORMATS.items()}

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for item in find_files(roots, on_ignored):
            split, refused = split_by_folder(self.options, item.record_id)
            folders = item.record_id.split("/")[:-1]
            label = folders[0] if folders and not self.options.no_labels else None
            yield item._replace(label=label, split=split, refused=item.refused or refused)

    @contextmanager
    def open_documents(
        self, items: Sequence[Item], scratch: Path
    ) -> Iterator[Callable[[Item], Iterator[ReadDocument]]]:
        """See BatchSource."""
        yield self._documents

    def _documents(self, item: Item) -> Iterator[ReadDocument]:
        if item.refused:
            reason, _, detail = item.refused.partition(": ")
            yield ReadDocument(item.record_id, b"", Reject("list", reason, detail, None))
            return
        name = "jsonl" if item.record_id.endswith(".jsonl") else "txt"
        part = Part(
            item.record_id,
            lambda: open(os.fsdecode(item.path), "rb"),
            label=item.label,
            split=item.split,
        )
        yield from read_part(part, self._formats[name])
