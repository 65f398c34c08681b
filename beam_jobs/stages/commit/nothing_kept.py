"""Why a build keeps no record: the most frequent reasons, with an example of each."""

from __future__ import annotations

from collections.abc import Sequence

from beam_jobs.corpus.names import shown_name
from beam_jobs.rejects import read_rejects
from beam_jobs.staging import UnitSummary, unit_files
from beam_jobs.staging.units import read_units
from beam_jobs.workspace import Workspace
from foundation.errors import EmptySetError
from foundation.wording import counted, shortened, visible
from shard_format import Ledger

_SHOWN_REASONS = 3
_EXAMPLE_WIDTH = 300  # characters


def nothing_kept(
    ledger: Ledger, summaries: Sequence[UnitSummary], workspace: Workspace
) -> EmptySetError:
    """The error of a build that keeps no record.

    Args:
        ledger: The outcome of all records.
        summaries: All units.
        workspace: Where the rejections are.
    """
    every = "The only record was" if ledger.read == 1 else f"All {ledger.read:,} records were"
    outcome = f"{every} rejected:"
    if ledger.excluded:
        outcome = f"Of {counted(ledger.read, 'record')} none is left:"
    ordered = sorted(ledger.reasons.items(), key=lambda item: (-item[1], item[0]))
    lines = [outcome]
    by_key = {one.key: one for one in summaries}
    summaries = [by_key[unit.key] for unit in read_units(workspace)]  # in the order of the listing
    for reason, count in ordered[:_SHOWN_REASONS]:
        lines.append(
            f"  {reason}: {counted(count, 'record')}{_example(reason, summaries, workspace)}"
        )
    if further := ordered[_SHOWN_REASONS:]:
        lines.append(f"  and {counted(len(further), 'further reason')}")
    if ledger.excluded:
        number = counted(ledger.excluded, "record")
        lines.append(f"  kept out: {number}, by --exclude-ids or a removal from the set before")
    lines.append(
        "Correct the files or the options and run the command again; --keep-empty keeps the set "
        "without records, for 'shardmill quarantine'."
    )
    return EmptySetError("\n".join(lines))


def _example(reason: str, summaries: Sequence[UnitSummary], workspace: Workspace) -> str:
    """The first record with a reason, as the end of a line; "" if planning left them out."""
    for unit in summaries:
        if reason not in unit.refused and reason not in unit.filtered:
            continue
        for row in read_rejects(unit_files(workspace, unit.key)["rejects"]):
            if row["reason"][0].as_py() == reason:
                name, detail = (row[column][0].as_py() for column in ("record_id", "detail"))
                example = f"{shown_name(name)}: {visible(detail)}"
                return f", such as {shortened(example, _EXAMPLE_WIDTH)}"
    return ""
