"""The report: one page about a finished shard set, for people.

It is generated from the set only, so it can be generated again at any time. It needs only a
browser: no network, no script, and every image is in the page.

    page          the page of a set
    frame         the page around sections, with its style (style.css)
    sections/     one file per section; SECTIONS is their order on the page
    charts        histograms, bars and legends, as sections use them
    markup        the only module that turns text into HTML
    finished_set  the set: manifest, index, and records by random access
    sampling      the first records of every class, read once for all sections
    previews      thumbnails and excerpts of records and of refused bytes
"""

from beam_jobs.report.page import write_report

__all__ = ["write_report"]
