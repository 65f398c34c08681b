"""Stage 2, stage: one unit of raw records becomes a key-sorted run of finished payloads.

stage        one unit from start to end: `stage_unit`
units        its four files under one content address, and how a finished unit is known
one_by_one   records that may each fill the memory of a worker, in shuffle order
in_batches   records so small that many are prepared together, as columns
    spool        frames that wait for the order of their unit
"""

from beam_jobs.staging.stage import stage_unit
from beam_jobs.staging.units import SIDECAR_FIELDS, UnitSummary, forget_unit, unit_files

__all__ = ["SIDECAR_FIELDS", "UnitSummary", "forget_unit", "stage_unit", "unit_files"]
