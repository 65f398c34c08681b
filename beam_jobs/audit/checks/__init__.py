"""The checks of an audit, in the order of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.members import Members

if TYPE_CHECKING:  # --help lists the names, and loads no kernels
    from beam_jobs.audit.checks.base import Check

CHECKS: Members[Check] = Members(
    {
        "damaged": "beam_jobs.audit.checks.records:DAMAGED",
        "label-error": "beam_jobs.audit.checks.labels:LABEL_ERROR",
        "across-splits": "beam_jobs.audit.checks.duplicates:ACROSS_SPLITS",
        "leak": "beam_jobs.audit.checks.columns:LEAK",
        "constant": "beam_jobs.audit.checks.columns:CONSTANT",
        "similar-classes": "beam_jobs.audit.checks.class_names:SIMILAR_CLASSES",
        "blank": "beam_jobs.audit.checks.images:BLANK",
        "dark": "beam_jobs.audit.checks.images:DARK",
        "overexposed": "beam_jobs.audit.checks.images:OVEREXPOSED",
        "blurred": "beam_jobs.audit.checks.images:BLURRED",
        "odd-size": "beam_jobs.audit.checks.records:ODD_SIZE",
        "odd-shape": "beam_jobs.audit.checks.records:ODD_SHAPE",
        "odd-language": "beam_jobs.audit.checks.languages:ODD_LANGUAGE",
        "outlier": "beam_jobs.audit.checks.records:OUTLIER",
        "hardest": "beam_jobs.audit.checks.labels:HARDEST",
        "forgotten": "beam_jobs.audit.checks.labels:FORGOTTEN",
    }
)
