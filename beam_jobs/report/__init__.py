"""The report: one page about a finished shard set, for people.

It is made from the set alone, so it can be made again at any time, and it needs nothing but a
browser: no network, no script, every picture inside.

    finished    the set: manifest, index, and records by random access
    choosing    which records stand for a class
    gallery     their pictures, decoded once for all sections
    texts       or the beginnings of their text
    sections/   one file per section; SECTIONS is their order on the page
    markup      the only place where text becomes HTML
    page        the page around the sections
"""

from beam_jobs.report.page import write_report

__all__ = ["write_report"]
