"""The sections of the report, in the order of the page. To add one: one file, and one line here."""

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections import (
    channels,
    classes,
    duplicates,
    kept_columns,
    languages,
    ledger,
    mean_images,
    quarantine,
    samples,
    sizes,
    summary,
    throughput,
    tokens,
)
from beam_jobs.report.sections.base import Section


def _of_images(reported: ReportedSet) -> bool:
    return not reported.holds_text


SECTIONS = (
    Section("set", "The set", summary.content),
    Section("ledger", "Where every record went", ledger.content),
    Section("classes", "Classes", classes.content),
    Section("samples", "Samples", samples.content),
    Section("columns", "Kept columns", kept_columns.content, kept_columns.applies),
    Section("means", "Mean images", mean_images.content, _of_images),
    Section("sizes", "Sizes", sizes.content),
    Section("channels", "Color channels", channels.content, _of_images),
    Section("languages", "Languages and encodings", languages.content, languages.applies),
    Section("tokens", "Tokens", tokens.content, tokens.applies),
    Section("duplicates", "Duplicates", duplicates.content),
    Section("quarantine", "Quarantine", quarantine.content),
    Section("throughput", "Throughput", throughput.content),
)

__all__ = ["SECTIONS", "Section"]
