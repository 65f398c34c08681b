"""The sections of the report, in the order of the page. To add one: one file, and one line here."""

from beam_jobs.report.sections import (
    channels,
    classes,
    duplicates,
    headline,
    languages,
    ledger,
    lengths,
    means,
    quarantine,
    samples,
    sizes,
    texts,
    throughput,
    tokens,
)
from beam_jobs.report.sections.base import Facts, Section


def _pictures(facts: Facts) -> bool:
    return not facts.holds_text


def _text(facts: Facts) -> bool:
    return facts.holds_text


SECTIONS = (
    Section("set", "The set", headline.content),
    Section("ledger", "Where every record went", ledger.content),
    Section("classes", "Classes", classes.content),
    Section("samples", "Samples", samples.content, _pictures),
    Section("means", "Mean pictures", means.content, _pictures),
    Section("sizes", "Sizes", sizes.content, _pictures),
    Section("channels", "Colour channels", channels.content, _pictures),
    Section("lengths", "Lengths", lengths.content, _text),
    Section("languages", "Languages and encodings", languages.content, languages.applies),
    Section("tokens", "Tokens", tokens.content, tokens.applies),
    Section("documents", "Samples", texts.content, _text),
    Section("duplicates", "Duplicates", duplicates.content),
    Section("quarantine", "Quarantine", quarantine.content),
    Section("throughput", "Throughput", throughput.content),
)

__all__ = ["SECTIONS", "Facts", "Section"]
