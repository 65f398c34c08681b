"""What a section of the report is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from beam_jobs.report.sampling import ReportedSet

# The values of the template of a section, templates/ANCHOR.html, which also has `reported`. A set
# that has nothing to show there gets a sentence that says so: nobody should have to guess whether
# something went wrong. None leaves out a section that has no meaning for a kind of record.
Content = dict[str, Any] | str | None


class Section(NamedTuple):
    """One part of the page.

    Attributes:
        anchor: The target of links to it, and the name of its template.
        title: Its heading.
        content: Computes what it shows.
    """

    anchor: str
    title: str
    content: Callable[[ReportedSet], Content]
