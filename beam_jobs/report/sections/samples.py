"""A few records of every class, as they are stored, with the values of their kept columns."""

from __future__ import annotations

from beam_jobs.corpus.names import shown_name
from beam_jobs.report.markup import Html, element, escape, foreign, note
from beam_jobs.report.sampling import (
    MOST_CLASSES,
    SHOWN_IMAGES_PER_CLASS,
    ClassSample,
    ReportedSet,
    SampledRecord,
)
from beam_jobs.report.sections.base import image, text, tiles
from beam_jobs.report.sections.kept_columns import shown_value

_SHOWN_CHARACTERS, _SHOWN_LINES = 320, 8  # of a document
_MOST_VALUES = 6  # kept columns of a record
_VALUE_CHARACTERS = 90  # of a kept value


def content(reported: ReportedSet) -> Html:
    """Returns the first records of each class."""
    samples = reported.class_samples
    if not samples:
        return note(f"There are no {'documents' if reported.holds_text else 'images'} to show.")
    shown = [_class(reported, sample) for sample in samples]
    layout = "documents" if reported.holds_text else "strips"
    if reported.kept_columns:
        layout += " annotated"
    return escape((note(_explanation(reported)), element("div", shown, class_=layout)))


def _explanation(reported: ReportedSet) -> str:
    words = "The first" if reported.holds_text else f"The first {SHOWN_IMAGES_PER_CLASS}"
    words += " records" + (" of each class" if reported.class_names else "")
    seed = reported.manifest.config.get("seed")
    words += " in shuffled order" + (f" (seed {seed})." if isinstance(seed, int) else ".")
    if len(reported.class_names) > MOST_CLASSES:
        words += f" The {MOST_CLASSES} most frequent of {len(reported.class_names):,} classes."
    if len(reported.kept_columns) > _MOST_VALUES:
        words += f" {_MOST_VALUES} of {len(reported.kept_columns):,} kept columns."
    return words


def _class(reported: ReportedSet, sample: ClassSample) -> Html:
    heading = element("h3", foreign(sample.name, 60)) if reported.class_names else None
    if not reported.holds_text:
        return element("div", heading, tiles(map(_image, sample.shown)), class_="strip")
    shown = escape(map(_document, sample.shown))
    return shown if heading is None else element("div", heading, shown)


def _image(record: SampledRecord) -> Html:
    return element("div", image(record.preview, shown_name(record.record_id)), _kept_values(record))


def _document(record: SampledRecord) -> Html:
    return element(
        "div",
        text(record.preview, _SHOWN_CHARACTERS, _SHOWN_LINES),
        _kept_values(record),
        note(foreign(shown_name(record.record_id), 60)),
        class_="document",
    )


def _kept_values(record: SampledRecord) -> Html | None:
    """Returns the values of the kept columns as a list of name and value."""
    if not record.kept:
        return None
    shown = [
        element(
            "div",
            element("dt", foreign(name, 40)),
            element("dd", shown_value(values[0], _VALUE_CHARACTERS))
            if values
            else element("dd", "no value", class_="none"),
        )
        for name, values in list(record.kept.items())[:_MOST_VALUES]
    ]
    return element("dl", shown, class_="kept-values")
