"""What a section of the report is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from beam_jobs.report.finished import FinishedSet
from beam_jobs.report.gallery import ClassSample, sample_classes
from beam_jobs.report.markup import Html, element


class Facts(FinishedSet):
    """A finished set, with what more than one section shows of it and is costly to make."""

    @functools.cached_property
    def samples(self) -> list[ClassSample]:
        """A sample of every class."""
        return sample_classes(self)


class Section(NamedTuple):
    """One part of the page.

    Attributes:
        anchor: By which links find it.
        title: Its heading.
        content: Makes everything below the heading. A set that has nothing to show there is told
            so in a sentence: nobody should have to guess whether something went wrong.
        applies: Whether the page of this set has it: what has no meaning for a kind of record is
            left out.
    """

    anchor: str
    title: str
    content: Callable[[Facts], Html]
    applies: Callable[[Facts], bool] = lambda facts: True


def tile(picture: object, caption: object, *, kind: str = "") -> Html:
    """A picture, or what stands in its place, with a few words below it."""
    frame = element("div", picture, class_="frame")
    return element("figure", frame, element("figcaption", caption), class_=f"tile {kind}".strip())


def legend(splits: Iterable[str]) -> Html:
    """Which colour stands for which split."""
    marks = [
        element("span", element("span", class_=f"mark s{number % 6}"), name)
        for number, name in enumerate(splits)
    ]
    return element("p", marks, class_="legend")


def tiles(made: Iterable[Html]) -> Html:
    """Tiles beside each other, as many as the width allows."""
    return element("div", list(made), class_="tiles")
