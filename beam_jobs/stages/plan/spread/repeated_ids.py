"""Ids that several records have, by ranges of their hashes; see `stages.plan.repeated_ids`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.stages.plan import repeated_ids
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.duplicates import received_heads, send_heads
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.staging.sidecars import Sidecars

_IDS = "ids"  # the exchange


def send_ids(plan: SpreadPlan, number: int, sidecars: Sidecars) -> dict[str, bytes]:
    """Sends the hashes of the ids of a range of units; returns the sizes."""
    return send_heads(plan, _IDS, number, repeated_ids.id_heads(sidecars))


def compare_ids(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Checks the ids of a range of hashes.

    Raises:
        InputError: Two records have the same one.
    """
    column = plan.context.options.id_column or ""
    for rows in received_heads(plan, _IDS, number):
        repeated_ids.compare_ids(rows, column, partial(_ids_of, plan))
    return {}


def _ids_of(plan: SpreadPlan, records: IntArray) -> pa.Table:
    """The ids of records of any ranges of units."""
    begins, sources = plan.begins, plan.sources(records)
    return pa.concat_tables(
        UnitRange(plan, source).sidecars.take(
            records[sources == source] - begins[source], ["record_id"]
        )
        for source in np.unique(sources).tolist()
    )
