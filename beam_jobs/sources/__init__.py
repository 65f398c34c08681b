"""Sources, by the value of --source."""

from collections.abc import Callable
from typing import Any

from beam_jobs.sources.arrow import Arrow
from beam_jobs.sources.base import BatchSource, Item, Raw, ReadRecord, Source
from beam_jobs.sources.class_folders import ClassFolders
from beam_jobs.sources.idx import Idx
from beam_jobs.sources.parquet import Parquet
from beam_jobs.sources.table import Table
from beam_jobs.sources.tar import Tar
from beam_jobs.sources.tfrecord import TfRecord
from beam_jobs.sources.zip import Zip


def _documents(options: Any) -> Source:
    # Its formats stand on modules of this package, so it comes after them.
    from beam_jobs.sources.documents import Documents

    return Documents(options)


SOURCES: dict[str, Callable[[Any], Source]] = {
    "class-folders": ClassFolders,
    "table": Table,
    "tar": Tar,
    "zip": Zip,
    "parquet": Parquet,
    "arrow": Arrow,
    "tfrecord": TfRecord,
    "idx": Idx,
    "documents": _documents,
}

__all__ = ["SOURCES", "BatchSource", "Item", "Raw", "ReadRecord", "Source"]
