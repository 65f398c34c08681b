"""Sidecars of synthetic documents: sets of shingles with copies of known similarity among them.

Of 20 documents 2 are altered copies of documents of the unit before, and 1 is a page of a site: 150
of its 200 shingles are on the other pages too, which are below the threshold but share buckets.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from beam_jobs.dedup.text.shingles import Shingles
from beam_jobs.dedup.text.signatures import SIGNATURE_BYTES, signatures
from beam_jobs.staging import UnitSummary, unit_files
from beam_jobs.workspace import Workspace, write_table

SHINGLES = 200  # of a document: that of some 204 words
UNIT = 20_000  # documents
COPIES = UNIT // 10
PAGES = UNIT // 20
_SITE = 150  # shingles that all pages of a site have
_SITES = 5  # of a unit's pages


def likeness_of(copy: int) -> tuple[int, float]:
    """(shingles in which a copy differs, its Jaccard similarity to the original)."""
    differ = copy % 60
    return differ, (SHINGLES - differ) / (SHINGLES + differ)


def make_sidecars(folder: Path, count: int) -> Path:
    """A folder that `Workspace` and `Sidecars` can read, created if missing.

    Args:
        folder: The folder.
        count: Documents, a multiple of UNIT.
    """
    done = folder / "units.json"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    workspace = Workspace(folder / "out", None)
    workspace.create()
    summaries = []
    for unit in range(count // UNIT):
        key = f"{unit:032x}"
        write_table(workspace, unit_files(workspace, key)["arrow"], _table(unit, count // UNIT))
        summaries.append(UnitSummary(key, UNIT, UNIT, {}, {}, False))
    done.write_text(json.dumps(summaries))
    return folder


def _table(unit: int, units: int) -> pa.Table:
    generator = np.random.default_rng([1, unit])
    rows = np.concatenate(
        (_originals(unit), _copies((unit - 1) % units, generator), _pages(unit, generator))
    )
    own = UNIT - len(rows)
    rows = np.concatenate((rows, generator.integers(0, 1 << 32, (own, SHINGLES), np.uint32)))
    rows.sort(axis=1)
    # A random hash occurs twice in one document of 200,000.
    begins = np.arange(0, (UNIT + 1) * SHINGLES, SHINGLES)
    sets = Shingles(rows.reshape(-1), begins)
    stored = pa.py_buffer(signatures(sets).astype("<u4").tobytes())
    heads = pa.py_buffer(generator.bytes(16 * UNIT))
    fixed = pa.FixedSizeBinaryArray.from_buffers
    return pa.table(
        {
            "fingerprint": fixed(pa.binary(16), UNIT, [None, heads]),
            "near_signature": fixed(pa.binary(SIGNATURE_BYTES), UNIT, [None, stored]),
            "near_shingles": sets.column(),
        }
    )


def _originals(unit: int) -> np.ndarray:
    """The documents of a unit that are copied: its first ones."""
    generator = np.random.default_rng([0, unit])
    return generator.integers(0, 1 << 32, (COPIES, SHINGLES), np.uint32)


def _copies(unit: int, generator: np.random.Generator) -> np.ndarray:
    """Altered copies of them, after the originals of their unit."""
    rows = _originals(unit)
    for number, row in enumerate(rows):
        differ, _ = likeness_of(number)
        row[:differ] = generator.integers(0, 1 << 32, differ, np.uint32)
    return rows


def _pages(unit: int, generator: np.random.Generator) -> np.ndarray:
    """Pages of some sites."""
    rows = generator.integers(0, 1 << 32, (PAGES, SHINGLES), np.uint32)
    sites = np.random.default_rng(2).integers(0, 1 << 32, (_SITES, _SITE), np.uint32)
    rows[:, :_SITE] = sites[np.arange(PAGES) % _SITES]
    return rows
