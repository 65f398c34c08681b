"""The rows of the scorecard, in the order of the page: one module for each kind of job."""

from __future__ import annotations

from benchmarks.scorecard.row import Row
from benchmarks.scorecard.rows.damage import DAMAGED_FILES, DAMAGED_SET
from benchmarks.scorecard.rows.dlio import DLIO_BERT, DLIO_COSMOFLOW, DLIO_RESNET50
from benchmarks.scorecard.rows.kills import KILLS
from benchmarks.scorecard.rows.mixing import MIXING
from benchmarks.scorecard.rows.peak_memory import MEMORY
from benchmarks.scorecard.rows.planted_copies import PLANTED_COPIES
from benchmarks.scorecard.rows.preprocess_images import PHOTOGRAPHS
from benchmarks.scorecard.rows.preprocess_texts import DOCUMENTS, DOCUMENTS_NEAR, DOCUMENTS_WEB
from benchmarks.scorecard.rows.read_images import READ, READ_COLD, READ_TFDS
from benchmarks.scorecard.rows.read_remote import READ_REMOTE
from benchmarks.scorecard.rows.read_tokens import READ_TOKENS
from benchmarks.scorecard.rows.resume import RESUME, RESUME_LARGE

_ALL = (
    *(PHOTOGRAPHS, DOCUMENTS, DOCUMENTS_NEAR, DOCUMENTS_WEB),
    *(READ, READ_COLD, READ_TFDS, READ_REMOTE, READ_TOKENS),
    *(RESUME, RESUME_LARGE, MIXING),
    *(DLIO_RESNET50, DLIO_COSMOFLOW, DLIO_BERT),
    *(KILLS, DAMAGED_FILES, DAMAGED_SET, MEMORY, PLANTED_COPIES),
)
ROWS: dict[str, Row] = {row.name: row for row in _ALL}
