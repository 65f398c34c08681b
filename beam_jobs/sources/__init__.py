"""Sources, by the value of --source."""

from collections.abc import Callable

from beam_jobs.options import PreprocessOptions
from beam_jobs.sources.base import Item, Raw, ReadRecord, Source
from beam_jobs.sources.class_folders import ClassFolders

SOURCES: dict[str, Callable[[PreprocessOptions], Source]] = {
    "class-folders": ClassFolders,
}

__all__ = ["SOURCES", "Item", "Raw", "ReadRecord", "Source"]
