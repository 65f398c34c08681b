"""HTML to text."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from typing_extensions import override

from beam_jobs.corpus.formats.html import MAX_NESTED_BOXES, nested_boxes
from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts
from beam_jobs.text.cleaning.tags import without_loose_brackets


@dataclasses.dataclass(frozen=True)
class HtmlToText(CleaningStep):
    """Extracts the text of HTML, without menus, headers, footers and scripts, by resiliparse.

    Other documents are not changed. Pages without text are left out.

    Attributes:
        all: Whether to treat every document as HTML, whatever its source says. In those that the
            source does not call HTML, a "<" that begins no tag stays.
        boilerplate: Whether to keep menus, headers and footers too.
        title: Whether the title of the page becomes the first paragraph.
        links: Whether to keep the targets of links, in brackets.
        alt_texts: Whether to keep the descriptions of images.
        comments: Whether to keep the comments of readers.
    """

    all: bool = False
    boilerplate: bool = False
    title: bool = False
    links: bool = False
    alt_texts: bool = False
    comments: bool = True
    packages: ClassVar[tuple[str, ...]] = ("resiliparse",)

    @override
    @property
    def version(self) -> int:
        return 2 if self.all else 1  # other texts than before for documents that are no HTML

    @override
    def __call__(self, texts: Texts) -> None:
        which = np.ones(len(texts), bool) if self.all else texts.is_html.copy()
        if not which.any():
            return
        if self.all:
            texts.replace_where(~texts.is_html, without_loose_brackets)
        pages = texts.text.filter(pa.array(which)).to_pylist()
        depths = np.zeros(len(texts), np.int64)
        depths[which] = [nested_boxes(page) for page in pages]
        deep = depths > MAX_NESTED_BOXES
        texts.replace_where(which & ~deep, self._text)
        bare = pc.equal(pc.utf8_trim_whitespace(texts.text), "").to_numpy(zero_copy_only=False)
        texts.is_html = texts.is_html & ~which
        texts.leave_out(
            Rule("html-too-deep", deep, lambda i: f"its boxes are {depths[i]} deep", "prepare"),
            Rule("no-text-in-html", which & bare, lambda i: "nothing but markup is there"),
        )

    def _text(self, page: str) -> str:
        tree = HTMLTree.parse(page)
        text = extract_plain_text(
            tree,
            main_content=not self.boilerplate,
            links=self.links,
            alt_texts=self.alt_texts,
            comments=self.comments,
        )
        if self.title and tree.title and not text.startswith(tree.title):
            return f"{tree.title.strip()}\n\n{text}"
        return text
