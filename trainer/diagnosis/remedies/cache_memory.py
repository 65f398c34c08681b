"""Stored records in memory: storage is read once."""

from __future__ import annotations

import dataclasses

from foundation.wording import format_bytes
from reader.cache.choosing import available_memory_bytes
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case

# The trainer needs memory too; more than "auto" takes, since here a person decides.
_MEMORY_SHARE = 0.5


def attempt(case: Case) -> Attempt | None:
    """Applies where files are read every time and the split fits memory."""
    info = case.job.stream.info
    if not case.stages.reads_files or info.stored_bytes > _MEMORY_SHARE * available_memory_bytes():
        return None
    work = dict(case.costs.cpu_seconds)
    work["storage"] = max(0.0, work["storage"] - case.reading_cpu_seconds)
    storage = case.stages.storage
    delivered = storage.record_bytes / (case.costs.storage_seconds or storage.warm_seconds) / 1e6
    return Attempt(
        remedy="cache-memory",
        stage="storage",
        because=(
            f"files are read again in every epoch, at {delivered:,.1f} MB/s, though all of the "
            f"split ({format_bytes(info.stored_bytes)}) fits into memory"
        ),
        costs=dataclasses.replace(case.costs, storage_seconds=0.0, cpu_seconds=work),
        options={"--cache": "memory"},
        note="the first epoch starts when everything has been read once",
    )
