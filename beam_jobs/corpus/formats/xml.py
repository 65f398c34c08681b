"""XML: a file is a document, an item of a feed is one, or every element that --xml-element names.

A file is read forwards and not split, since only reading all before shows what is inside of a
comment or of CDATA. The element that is read is the only one in memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from typing_extensions import override

from beam_jobs.corpus.formats.base import (
    INSPECTED_RECORDS,
    FilePart,
    Format,
    Found,
    FoundRecord,
    FoundRejection,
)
from beam_jobs.corpus.formats.html import MAX_NESTED_BOXES, nested_boxes
from beam_jobs.corpus.formats.xml_elements import ElementReader, XmlDamage, XmlElement
from beam_jobs.corpus.formats.xml_parser import RootElement, encoding_of_xml, root_of
from beam_jobs.corpus.formats.xml_text import Fields, TextRules, first_of, local_name
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.streams import InMemory, opened
from beam_jobs.options import TextOptions

_DEFAULT_COLUMNS = ("text",)  # of --text-column: the child <text> if there is one, else all text
_TEI = ("TEI", "TEI.2", "teiCorpus")
_TEI_HEADER = frozenset(("teiHeader",))
_ATOM_ENTRY, _RSS_ITEM = "entry", "item"
# The document of an item: its title, and the first of these that has text.
_TITLE = "title"
_BODIES = ("encoded", "content", "description", "summary")
_MAY_BE_HTML = (_TITLE, *_BODIES)
_FEED_COLUMNS = (*_MAY_BE_HTML, *(f"{name}/@type" for name in _MAY_BE_HTML))
_MARKUP = re.compile(r"<[/!]?[a-zA-Z]|&#?[a-zA-Z0-9]{1,31};")


class _Context(NamedTuple):
    """What is needed to read a record of a file.

    Attributes:
        record: The name of the elements that are records; "" if the file is one.
        rules: How text is made of them.
        encoding: Encoding of the file.
        prolog: The bytes before the first element, which may declare entities.
        is_feed: Whether it is RSS or Atom.
    """

    record: str
    rules: TextRules
    encoding: str
    prolog: bytes
    is_feed: bool


class Xml(Format):
    """A document, the items of a feed, or the elements of a name."""

    options: TextOptions

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        yield from self._find(part, inspects=False)

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        context: _Context = found.context
        element = found.parsed
        if element is None:
            element, context = self._parsed(found.data, context)
        fields = _without_html(element.fields, context)
        annotations = self.annotations.read(fields, part.annotations)
        text = self._text(fields, element.text, context)
        return RawRecord("", found.data, text, annotations, context.encoding)

    @override
    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        # A file that is one record has columns only if one is asked for.
        rows: list[dict[str, Any]] = []
        try:
            for one in self._find(part.beginning(self.limit), inspects=True):
                if not isinstance(one, FoundRecord):
                    continue
                element, context = one.parsed, one.context
                if element is None:
                    if self.extractor.columns == _DEFAULT_COLUMNS and not self.annotations.columns:
                        return []
                    element, _ = self._parsed(one.data, context)
                row: dict[str, Any] = dict(_without_html(element.fields, context))
                if self.extractor.columns == _DEFAULT_COLUMNS:
                    row[_DEFAULT_COLUMNS[0]] = self._text(element.fields, element.text, context)
                rows.append(row)
                if len(rows) == INSPECTED_RECORDS:
                    break
        except Rejection:
            if not rows:
                raise
        return rows

    def _find(self, part: FilePart, *, inspects: bool) -> Iterator[Found]:
        try:
            with part.open() as file:
                encoding = encoding_of_xml(file, self.options.encoding)
                context = self._context(root_of(file, encoding), encoding, inspects=inspects)
        except Rejection as rejection:
            raise rejection.with_data(self.readable_bytes(part)) from None
        if context.record:
            yield from self._elements(part, context)
        else:
            yield FoundRecord("", self.whole(part), context)

    def _context(self, root: RootElement, encoding: str, *, inspects: bool) -> _Context:
        """What the first element of a file decides.

        Raises:
            Rejection: It is a drawing.
        """
        name = local_name(root.name)
        record = _feed_record(name, root)
        is_tei = name in _TEI
        if name == "svg" and self.options.format == "auto" and not self.options.xml_element:
            detail = "it is a drawing (SVG); --format xml takes the text in it"
            raise Rejection("no-documents", detail)
        columns = [
            *self.extractor.columns,
            *self.annotations.columns,
            *_FEED_COLUMNS * bool(record),
        ]
        return _Context(
            self.options.xml_element or record,
            TextRules(
                tuple(dict.fromkeys(columns)),
                all_children=inspects,
                joins_lines=is_tei,
                left_out=_TEI_HEADER if is_tei else frozenset(),
            ),
            encoding,
            root.prolog,
            is_feed=bool(record),
        )

    def _elements(self, part: FilePart, context: _Context) -> Iterator[Found]:
        with part.open() as file:
            reader = ElementReader(
                file, context.encoding, context.record, self.limit, context.rules
            )
            is_empty = True
            try:
                for element in reader:
                    is_empty = False
                    yield self._found(element, context)
            except XmlDamage as damage:
                why = damage.rejection
                if is_empty:
                    raise why.with_data(self.readable_bytes(part)) from None
                yield self.after_damage(damage.offset, why, why.data, context)
                return
        if is_empty:
            names = ", ".join(f"{name!a:.40}" for name in reader.others)
            detail = f"it has no element {context.record!a:.80}; its first elements are {names}"
            raise Rejection("no-documents", detail, data=self.readable_bytes(part))

    def _found(self, element: XmlElement, context: _Context) -> Found:
        rejection = element.rejection
        if rejection is None:
            return FoundRecord(self.place(element.offset), element.data, context, element)
        if rejection.reason == TOO_LARGE and element.size > self.limit:
            return self.too_large(element.offset, element.size, context)
        rejection = rejection.with_data(element.data or None)
        return FoundRejection(self.place(element.offset), rejection, context)

    def _parsed(self, data: bytes, context: _Context) -> tuple[XmlElement, _Context]:
        """A record of which only the bytes are known: a file, or a replacement.

        Raises:
            Rejection: It cannot be used.
        """
        prolog = b""
        if context.record:
            prolog = context.prolog
            data = data.removeprefix(codecs.BOM_UTF8)
            encoding = "utf-8"
        else:
            with opened(InMemory(data)) as file:
                encoding = encoding_of_xml(file, self.options.encoding)
                root = root_of(file, encoding)
                inspects = context.rules.all_children
                context = self._context(root, encoding, inspects=inspects)
        with opened(InMemory(prolog + data)) as file:
            lines = prolog.count(b"\n")
            reader = ElementReader(file, encoding, "", self.limit, context.rules, lines)
            try:
                (element,) = reader
            except XmlDamage as damage:
                raise damage.rejection from None
        if element.rejection is not None:
            raise element.rejection
        return element, context

    def _text(self, fields: Mapping[str, Any], text: str, context: _Context) -> str:
        """The document in a record.

        Raises:
            Rejection: It has no such field.
        """
        columns = self.extractor.columns
        chosen = {name: fields[name] for name in columns if name in fields}
        if columns == _DEFAULT_COLUMNS and not chosen:
            is_item = context.is_feed and context.record in (_ATOM_ENTRY, _RSS_ITEM)
            return _text_of_item(fields) if is_item else text
        joined = {
            name: value if isinstance(value, str) else "\n".join(value)
            for name, value in chosen.items()
        }
        return str(self.extractor.from_fields(joined))


def _feed_record(name: str, root: RootElement) -> str:
    """The elements of a feed that are records; "" if the file is no feed."""
    attributes = zip(root.attributes[::2], root.attributes[1::2], strict=True)
    spaces = [value.lower() for key, value in attributes if key.partition(":")[0] == "xmlns"]
    if name == "rss" or (name == "RDF" and any("purl.org/rss" in space for space in spaces)):
        return _RSS_ITEM
    return _ATOM_ENTRY if name == "feed" and any("atom" in space for space in spaces) else ""


def _without_html(fields: Fields, context: _Context) -> Fields:
    """The fields of an item of a feed, of which some are HTML that was escaped.

    Raises:
        Rejection: The HTML cannot be read.
    """
    if not context.is_feed:
        return fields
    plain = dict(fields)
    for name, value in fields.items():
        if local_name(name) in _MAY_BE_HTML:
            kind = first_of(fields, f"{local_name(name)}/@type")
            texts = [value] if isinstance(value, str) else value
            texts = [
                _text_of_html(text) if _is_html(text, kind, context) else text for text in texts
            ]
            plain[name] = texts[0] if isinstance(value, str) else texts
    return plain


def _is_html(text: str, kind: str, context: _Context) -> bool:
    """Whether a text is HTML: Atom says so, RSS does not."""
    if context.record == _ATOM_ENTRY:
        return kind in ("html", "text/html")
    return _MARKUP.search(text) is not None


def _text_of_html(page: str) -> str:
    depth = nested_boxes(page)
    if depth > MAX_NESTED_BOXES:
        raise Rejection("html-too-deep", f"its boxes are {depth} deep")
    return str(extract_plain_text(page))


def _text_of_item(fields: Mapping[str, Any]) -> str:
    bodies = (first_of(fields, name) for name in _BODIES)
    body = next((body for body in bodies if body.strip()), "")
    return "\n".join(text for text in (first_of(fields, _TITLE), body) if text.strip())
