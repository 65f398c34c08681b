"""What a corpus is made of: items, the records read from them, and why one is rejected.

SourceItem   a file, a member of an archive or a part of a large file, as listed
Locator    where its bytes are
RawRecord    one record, read but not prepared
Rejection    why a record cannot be used, or was filtered out
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

# The stage of a rejection by a rule that the user chose; all others are of unusable records.
FILTER = "filter"
NO_ROW = "no-row"  # the reason of a file that the table of --labels does not name
# Between the names of a record with several labels, which are sorted (ASCII's unit separator).
LABEL_SEPARATOR = "\x1f"


class Rejection(Exception):
    """A record cannot be used, or a rule filters it out.

    Args:
        reason: A short constant name, counted in the ledger: "truncated", "not-an-image", ...
        detail: What exactly was found; it never differs from run to run.
        stage: "list", "read", "prepare", or FILTER for usable data that a rule of the user's
            choice filters out; "" until `at` sets it.
        data: The original bytes, where they are at hand.
    """

    def __init__(
        self, reason: str, detail: str, *, stage: str = "", data: bytes | None = None
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.stage = stage
        self.data = data

    def at(self, stage: str) -> Rejection:
        """This rejection, with a stage if it had none."""
        self.stage = self.stage or stage
        return self

    def with_data(self, data: bytes | None) -> Rejection:
        """A copy with these bytes as the original."""
        return Rejection(self.reason, self.detail, stage=self.stage, data=data)

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"

    def _key(self) -> tuple[object, ...]:
        return self.reason, self.detail, self.stage, self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rejection) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class ByteRange(NamedTuple):
    """Bytes [offset, offset + size) of a file, or of its decompressed content."""

    offset: int
    size: int


class Locator(NamedTuple):
    """Where in its file an item is; the default is the whole file.

    Attributes:
        container: "tar" or "zip" for a member of an archive.
        codec: Compression around the whole tar archive, or of a file that was split.
        offset: First byte of the member in the decompressed archive; of a zip member its local
            header; of a compressed file that was split, the stored byte where the frame begins
            whose content begins at `seek`.
        size: Bytes of the member, or of the content of a compressed file that was split; -1 means
            that the member has none (a link, a device).
        stored_size: Bytes that a zip member occupies in the archive; of a compressed file that was
            split, those before the end of its last frame.
        crc: CRC-32 of a zip member.
        method: Compression method of a zip member; -1 for bytes that cannot be decompressed.
        gaps: Ranges of a damaged archive that belong to no member.
        companions: (extension, locator) of members with the same key in WebDataset form.
        format: Format of a file that was split.
        start: First position of the split: a byte of a file of lines, else a record number.
        end: One past the last; -1 is the end of the file. A record that begins before it is part
            of this split to its last byte.
        seek: Where reading begins, in the words of the format: a byte, a row group, a batch.
        context: A hash of what else decides the records: class names next to the file, and
            replacements for records of this split; "" if there is neither.
    """

    container: str = ""
    codec: str = ""
    offset: int = 0
    size: int = 0
    stored_size: int = 0
    crc: int = 0
    method: int = 0
    gaps: tuple[ByteRange, ...] = ()
    companions: tuple[tuple[str, Locator], ...] = ()
    format: str = ""
    start: int = 0
    end: int = -1
    seek: int = 0
    context: str = ""

    @property
    def is_split(self) -> bool:
        """Whether the file was split."""
        return self.start > 0 or self.end >= 0


WHOLE_FILE = Locator()


class Annotations(NamedTuple):
    """What a corpus says about a record besides its payload; None where it says nothing.

    Attributes:
        label: Its class; several are joined by `LABEL_SEPARATOR`.
        group: Value of --group-by.
        split: The split it is assigned to.
        kept: Values of `labels.kept_columns`, in their order; empty if the record has no columns.
    """

    label: str | None = None
    group: str | None = None
    split: str | None = None
    kept: tuple[Any, ...] = ()


def join_labels(names: Iterable[str]) -> str:
    """The distinct names of a record with several labels, sorted, as one text.

    Raises:
        Rejection: A name holds the separator.
    """
    return LABEL_SEPARATOR.join(checked_label(name) for name in sorted(set(names)))


def checked_label(name: str) -> str:
    """The name of a class, which would be two with the separator in it.

    Raises:
        Rejection: It holds the separator.
    """
    if LABEL_SEPARATOR in name:
        raise Rejection("bad-label", f"the name {name!r} holds the character 0x1f")
    return name


class SourceItem(NamedTuple):
    """One entry of the listing, not read yet.

    Attributes:
        record_id: The path relative to the source root (after the root's name if there are
            several), plus member or split; the same wherever the corpus is mounted.
        path: The file, as the file system spells it.
        label: The class name, or None where there is none or reading decides.
        size: Bytes of the item, as far as listing knows; units are cut by it.
        mtime_ns: Time of last change in nanoseconds; part of the unit's content identity.
        reason: Why the item cannot be used, where listing alone decides that; else "".
        detail: What was found then.
        locator: Where in the file it is.
        block: Neighbours with the same number other than 0 stay in one unit: to read one means to
            read all before it (a compressed archive).
        group: Value of --group-by, or None.
        split: The split it was assigned to, or None.
        kept: Values of `labels.kept_columns` in a label table, in their order; empty without them.
        replacement: A file whose bytes replace the item's own, or b"".
    """

    record_id: str
    path: bytes
    label: str | None
    size: int
    mtime_ns: int
    reason: str = ""
    detail: str = ""
    locator: Locator = WHOLE_FILE
    block: int = 0
    group: str | None = None
    split: str | None = None
    kept: tuple[Any, ...] = ()
    replacement: bytes = b""

    def rejected(self, rejection: Rejection) -> SourceItem:
        """The item, marked as unusable."""
        return self._replace(reason=rejection.reason, detail=rejection.detail)

    def annotated(self, said: Annotations) -> SourceItem:
        """The item with what a table or its companions say; a split given before is kept."""
        return self._replace(
            label=said.label, group=said.group, split=said.split or self.split, kept=said.kept
        )


class RawRecord(NamedTuple):
    """A record as read from the corpus.

    Attributes:
        record_id: Its identity, equal wherever the corpus is.
        original: Its bytes in the source, which quarantine keeps if it is rejected later.
        payload: What the record type prepares: the bytes of an image, the text of a document.
        annotations: Label, group, split and kept columns.
        encoding: Character encoding that text was decoded from, as Python names it.
        is_html: Whether the text is HTML.
        size: Bytes that it takes in memory, where it has no original.
    """

    record_id: str
    original: bytes
    payload: Any
    annotations: Annotations = Annotations()
    encoding: str = ""
    is_html: bool = False
    size: int = 0


class UnusableRecord(NamedTuple):
    """A record that cannot be used.

    Attributes:
        record_id: Its identity.
        rejection: Why, with the original bytes where they are at hand.
        label: Its class, if known.
    """

    record_id: str
    rejection: Rejection
    label: str | None = None


class IgnoredPart(NamedTuple):
    """A part of a file that is not meant to be a record, such as a request in a WARC file."""

    record_id: str


ReadResult = RawRecord | UnusableRecord | IgnoredPart
