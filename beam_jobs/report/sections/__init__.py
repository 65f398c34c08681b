"""The sections of the report, in the order of the page.

To add one: one file with `content`, its template, and one line here.
"""

from beam_jobs.report.sections import (
    channels,
    classes,
    duplicates,
    kept_columns,
    languages,
    ledger,
    quarantine,
    samples,
    selection,
    sizes,
    summary,
    throughput,
    tokens,
)
from beam_jobs.report.sections.base import Section

SECTIONS = (
    Section("set", "The set", summary.content),
    Section("ledger", "Where every record went", ledger.content),
    Section("selection", "What was not selected", selection.content),
    Section("classes", "Classes", classes.content),
    Section("samples", "Samples", samples.content),
    Section("columns", "Kept columns", kept_columns.content),
    Section("means", "Mean images", samples.means),
    Section("sizes", "Sizes", sizes.content),
    Section("channels", "Color channels", channels.content),
    Section("languages", "Languages and encodings", languages.content),
    Section("tokens", "Tokens", tokens.content),
    Section("duplicates", "Duplicates", duplicates.content),
    Section("quarantine", "Quarantine", quarantine.content),
    Section("throughput", "Throughput", throughput.content),
)

__all__ = ["SECTIONS", "Section"]
