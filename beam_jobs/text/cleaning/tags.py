"""HTML tags in documents that are text, not pages; and which "<" begins a tag at all.

A parser of HTML takes every "<" before a letter for a tag, and drops what follows up to a ">" or to
the end: of "x<y and it was" it leaves "x". In text a tag is more: its name, then attributes that
are written name=value or are known to need no value.
"""

from __future__ import annotations

import dataclasses
import re

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Measures, Texts

# The elements of the HTML standard, obsolete ones included, by what their tags become.
_LINES = (  # a line break for either tag
    "address|article|aside|blockquote|body|br|center|details|dialog|dir|div|dl|fieldset|figcaption|"
    "figure|footer|form|frameset|h[1-6]|head|header|hgroup|hr|html|main|menu|nav|ol|p|pre|search|"
    "section|summary|table|title|ul"
)
_ITEMS = "caption|dd|dt|legend|li|optgroup|option|tbody|tfoot|thead|tr"  # for the opening tag
_CELLS = "td|th"  # a blank for the opening tag
_OTHERS = (  # nothing
    "a|abbr|acronym|applet|area|audio|b|base|basefont|bdi|bdo|big|button|canvas|cite|code|col|"
    "colgroup|data|datalist|del|dfn|em|embed|font|frame|i|iframe|img|input|ins|kbd|label|link|map|"
    "mark|marquee|meta|meter|nobr|noembed|noframes|noscript|object|output|param|picture|progress|q|"
    "rp|rt|ruby|s|samp|script|select|slot|small|source|span|strike|strong|style|sub|sup|svg|"
    "template|textarea|time|track|tt|u|var|video|wbr"
)
# Attributes that stand alone; names with a hyphen do too (data-x, v-cloak).
_ALONE = (
    r"(?:allowfullscreen|alt|async|autofocus|autoplay|border|checked|class|compact|controls|"
    r"crossorigin|default|defer|disabled|download|hidden|inert|ismap|itemscope|loop|multiple|muted|"
    r"nomodule|noresize|noshade|novalidate|nowrap|open|playsinline|readonly|required|reversed|"
    r"selected|\w+-[\w-]+)"
)
_NAMED = r"[\w:@.*#()\[\]-]+\s*="
_ATTRIBUTE = rf"""\s+(?:{_NAMED}\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'`=<>]+)|{_ALONE})"""
# Nothing in them matches "<", so a search takes linear time whatever the text is.
_OPENING, _CLOSING = rf"(?:{_ATTRIBUTE})*\s*/?>", r"\s*>"
_COMMENT = r"<!--[^<>]*-->"

# (tags as RE2 finds them, what they become)
_REPLACED = (
    (rf"(?i)<(?:(?:{_LINES}|{_ITEMS}){_OPENING}|/(?:{_LINES}){_CLOSING})", "\n"),
    (rf"(?i)<(?:{_CELLS}){_OPENING}", " "),
    (
        rf"(?i)<(?:(?:{_OTHERS}){_OPENING}|/(?:{_OTHERS}|{_ITEMS}|{_CELLS}){_CLOSING})|{_COMMENT}",
        "",
    ),
)
_ANY_ELEMENT = f"{_LINES}|{_ITEMS}|{_CELLS}|{_OTHERS}"
_ANY = rf"(?i)<(?:(?:{_ANY_ELEMENT}){_OPENING}|/(?:{_ANY_ELEMENT}){_CLOSING})"

# A "<" that begins no tag of any name, nor a comment, a declaration or a processing instruction.
_NO_TAG = re.compile(
    rf"<(?!/[a-z][^\s<>/]*\s*>|[a-z][^\s<>/]*(?:[\s/]+{_ALONE})*(?:[\s/]*>|[\s/]+{_NAMED})"
    r"|!(?:--|doctype|\[)|\?[a-z])",
    re.ASCII | re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Tags(CleaningStep):
    """Removes HTML tags from text, such as `<br />`, and keeps all else as it is.

    Tags of blocks become line breaks, those of table cells blanks. Only names of HTML elements
    count, and only whole tags. Pages, which `html` extracts, are not changed; entities are decoded
    by `ftfy:entities=true`.
    """

    @override
    def __call__(self, texts: Texts) -> None:
        which = texts.measured.containing("<") & ~texts.is_html
        if not which.any():
            return
        mask = pa.array(which)
        text = texts.text.filter(mask)
        for pattern, replacement in _REPLACED:
            text = pc.replace_substring_regex(text, pattern, replacement)
        texts.replace(pc.replace_with_mask(texts.text, mask, text))


def num_with_tags(measures: Measures) -> int:
    """Number of documents in which `Tags` would find a tag."""
    which = measures.containing("<")
    return int(measures.filter(which).matching(_ANY).sum()) if which.any() else 0


def without_loose_brackets(page: str) -> str:
    """HTML in which every "<" begins a tag: others, and all behind the last ">", are entities."""
    end = page.rfind(">") + 1
    return _NO_TAG.sub("&lt;", page[:end]) + page[end:].replace("<", "&lt;")
