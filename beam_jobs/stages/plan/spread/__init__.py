"""Planning spread over workers, for corpora that one worker would plan for hours.

The decisions are those of `stages.plan.plan`, and so are the bytes. They are taken in rounds: a
task looks at a range of the units, or at what has a hash in some range, and writes what the tasks
of the next round need into an `Exchange`; one worker then decides from their small results.

    rounds       the rounds of a job, and how one is done
    decisions    what is decided so far
    unit_range   the units, columns and splits of a task
    duplicates   by ranges of the fingerprint
    near         near duplicates, whose pairs the record type finds
    components   which records pairs connect
    top          which records have the highest values of a column
    groups       labels and splits of records that must stay together
    splits       classes, splits, balance
    listing      the rows of duplicates.parquet
    shards       where shards begin by ranges of the key, and the recipes of the first merge level
"""

from beam_jobs.stages.plan.spread.rounds import (
    RangeResult,
    RangeTask,
    begin_rounds,
    decide_round,
    do_round,
    is_spread,
    round_names,
)

__all__ = [
    "RangeResult",
    "RangeTask",
    "begin_rounds",
    "decide_round",
    "do_round",
    "is_spread",
    "round_names",
]
