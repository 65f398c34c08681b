"""Sources, by the value of --source."""

from beam_jobs.sources.base import Item, Source
from beam_jobs.sources.class_folders import list_class_folders

SOURCES: dict[str, Source] = {
    "class-folders": list_class_folders,
}

__all__ = ["SOURCES", "Item", "Source"]
