"""The sections of the report, in the order of the page. To add one: one file, and one line here."""

from beam_jobs.reporting.sections import (
    channels,
    classes,
    duplicates,
    headline,
    ledger,
    means,
    quarantine,
    samples,
    sizes,
    throughput,
)
from beam_jobs.reporting.sections.base import Facts, Section

SECTIONS = (
    Section("set", "The set", headline.content),
    Section("ledger", "Where every record went", ledger.content),
    Section("classes", "Classes", classes.content),
    Section("samples", "Samples", samples.content),
    Section("means", "Mean pictures", means.content),
    Section("sizes", "Sizes", sizes.content),
    Section("channels", "Colour channels", channels.content),
    Section("duplicates", "Duplicates", duplicates.content),
    Section("quarantine", "Quarantine", quarantine.content),
    Section("throughput", "Throughput", throughput.content),
)

__all__ = ["SECTIONS", "Facts", "Section"]
