"""The report: one page about a finished shard set, for people.

It is generated from the set only, so it can be generated again at any time. It needs only a
browser: no network, no script, and every image is in the page.

    page          the page of a set
    sections/     one file per section; SECTIONS is their order on the page
    templates/    the page and its sections as Jinja2 templates; frame.html is around all pages
    charts        shapes of histograms and curves
    markup        renders templates, in which text of a corpus is escaped
    finished_set  the set: manifest, index, and records by random access
    sampling      the first records of every class, read once for all sections
    previews      thumbnails and excerpts of records and of refused bytes
"""

from beam_jobs.report.page import write_report

__all__ = ["write_report"]
