"""The line of `read` and `doctor` about the storage that a set is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foundation.storage import Place
    from reader.profiling.storage_benchmark import StorageTimes


def storage_line(times: StorageTimes, directory: Place) -> str:
    """How fast records come from storage, and from the page cache if they are files."""
    from foundation.storage import local_path

    warm = f"{times.record_bytes / times.warm_seconds / 1e6:,.1f} MB/s from"
    if local_path(directory) is None:
        return f"storage    {warm} the store"
    cold = "cannot be measured on this file system"
    if times.cold_seconds is not None:
        cold = f"{times.record_bytes / times.cold_seconds / 1e6:,.1f} MB/s"
    return f"storage    {cold} cold, {warm} the page cache"
