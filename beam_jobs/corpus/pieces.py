"""Pieces of the walk through a corpus: what one worker walks, and hands on to others.

A piece is a run of neighbours: files and folders of one folder, with all that is below them, or
sources. It names what is needed to go on from there, so it can be written to a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_jobs.corpus.names import has_archive_name
from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.record_extractor import RecordExtractor
from beam_jobs.corpus.source_io import path_of
from beam_jobs.options.formats import FORMATS
from foundation.storage import Place

_LARGE_BYTES = 1 << 20  # 1 MiB: larger files are looked into
# Bytes of a large file that take about as long as a small one.
_WEIGHED_BYTES = 1 << 18  # 256 KiB
_WEIGHED_ARCHIVE_BYTES = 1 << 14  # 16 KiB: all members are listed

_SCHEMA = pa.schema([pa.field("entry", pa.binary(), nullable=False)])
_FOLDER = b"folder"  # in the metadata of the schema


class PieceFolder(NamedTuple):
    """The folder that the entries of a piece are in.

    Attributes:
        root: The source that it is in, as its storage spells it.
        path: The folder.
        prefix: What the record ids below it begin with.
        names: Names of itself and of the folders above, below the root.
        above: Itself and all folders above, without symbolic links.
        shard_set: The folder of the shard set that it is in; b"" for none.
    """

    root: bytes
    path: bytes
    prefix: str
    names: tuple[str, ...]
    above: tuple[bytes, ...]
    shard_set: bytes


class CorpusPiece(NamedTuple):
    """Neighbours in the order of the listing, with all that is below them.

    Attributes:
        folder: Where they are; None for sources.
        entries: Packed entries of the folder; of sources the path, a zero byte, and what the record
            ids below begin with.
    """

    folder: PieceFolder | None
    entries: Sequence[bytes]

    def to_bytes(self) -> bytes:
        """The piece as an Arrow stream; see `of_bytes`."""
        text = json.dumps(self.folder and [_text(value) for value in self.folder])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA.with_metadata({_FOLDER: text})) as writer:
            column = pa.array(self.entries, pa.binary())
            writer.write_batch(pa.record_batch([column], schema=_SCHEMA))
        return sink.getvalue().to_pybytes()

    @classmethod
    def of_bytes(cls, data: bytes) -> CorpusPiece:
        """The piece that `to_bytes` wrote."""
        table = pa.ipc.open_stream(data).read_all()
        said = json.loads(table.schema.metadata[_FOLDER])
        folder = None
        if said is not None:
            root, path, prefix, names, above, shard_set = said
            folder = PieceFolder(
                *(os.fsencode(root), os.fsencode(path), prefix, tuple(names)),
                *(tuple(map(os.fsencode, above)), os.fsencode(shard_set)),
            )
        return cls(folder, table["entry"].to_pylist())

    def divided(self, weights: Sequence[int], least: int) -> Iterator[tuple[CorpusPiece, int]]:
        """The piece as runs of its entries, each with its weight.

        Args:
            weights: Weight of each entry.
            least: Weight of a run, at least, but of the last one.
        """
        begin, weight = 0, 0
        for end, one in enumerate(weights, start=1):
            weight += one
            if weight >= least or end == len(weights):
                yield CorpusPiece(self.folder, self.entries[begin:end]), weight
                begin, weight = end, 0


def listing_weight(file: SourceItem, extractor: RecordExtractor) -> int:
    """How long it takes to list a file, in small files; its name and its size say it alone.

    So a corpus has the same pieces wherever it is, and however many files are read ahead.
    """
    if file.size <= _LARGE_BYTES:
        return 1
    if has_archive_name(os.fsdecode(file.path)):
        return 1 + file.size // _WEIGHED_ARCHIVE_BYTES
    form = FORMATS.get(extractor.known_format(file))
    return 1 if form is not None and form.is_record else 1 + file.size // _WEIGHED_BYTES


def pack_source(prefix: str, root: Place) -> bytes:
    """A source as an entry of a piece."""
    return path_of(root) + b"\0" + prefix.encode()


def unpack_source(entry: bytes) -> tuple[str, bytes]:
    """(what the record ids below begin with, path) of a source."""
    path, _, prefix = entry.partition(b"\0")
    return prefix.decode(), path


def _text(value: str | bytes | tuple[str | bytes, ...]) -> str | list[str]:
    """A value for JSON: any bytes of a path, as `os.fsdecode` spells them."""
    return list(map(os.fsdecode, value)) if isinstance(value, tuple) else os.fsdecode(value)
