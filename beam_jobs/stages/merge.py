"""Between stages 3 and 4, merge: units, or runs of a level, become a run in the order of shards.

It runs only where reading every unit for every shard would take too many requests
(`plan.merge_levels`). A run has a content address like a unit, and one whose files exist is done.
Records that no shard has are left out, and copies are written once for each shard that has them.
"""

from __future__ import annotations

from functools import partial

from beam_jobs.job_context import JobContext
from beam_jobs.progress import report
from beam_jobs.stages.plan import MergedRun, MergeTask
from beam_jobs.staging.reader import unit_sources
from beam_jobs.staging.recipes import read_recipe, recipe_rows
from beam_jobs.staging.runs import Cell, finished_run, in_order, read_cells, write_run
from foundation import storage


def merge(task: MergeTask, context: JobContext, block_bytes: int) -> MergedRun:
    """Writes one run, or finds that it was done before.

    Args:
        task: What to write.
        context: The job.
        block_bytes: Payload in memory at a time.

    Raises:
        InputError: An input is damaged, or was removed during the build.
    """
    workspace = context.workspace
    on_written = partial(report, workspace.progress, "merge")
    done = finished_run(workspace, task.key)
    if done is not None:
        on_written(task.records)
        return MergedRun.of(task, done)
    if task.recipe:
        recipe = read_recipe(storage.place_of(task.recipe))
        table = recipe_rows(recipe, context.record_type.planning_columns, workspace)
        table = in_order(table.drop_columns(["row"]))
        sources = unit_sources([unit.key for unit in recipe.units], workspace)
    else:
        cells = [Cell(*cell) for cell in task.inputs]
        table, sources = read_cells(cells, workspace, block_bytes)
    sizes = write_run(workspace, task.key, table, sources, task.ends, block_bytes, on_written)
    return MergedRun.of(task, sizes)
