"""Chunks of LitData, as its StreamingDataset reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from reader.conversion.base import ConversionFormat, ConversionPiece, Record
from reader.conversion.plain_values import flat_values
from shard_format import Schema

_RANK = "DATA_OPTIMIZER_GLOBAL_RANK"  # what LitData names the files of a worker by
# The limit of a chunk is in the index, and must be the same in all pieces; they are smaller.
_CHUNK_BYTES = (1 << 32) - 1  # offsets have 32 bits


class LitDataFormat(ConversionFormat):
    """SPLIT/chunk-0-0.bin, ..., one for each piece, and SPLIT/index.json."""

    files = "chunks of LitData"
    reading = (
        "from litdata import StreamingDataset\n\n"
        'records = StreamingDataset("{split}")\nprint(records[0])'
    )
    packages = ("litdata",)

    @override
    def load(self) -> None:
        import litdata  # noqa: F401

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> Any:
        from litdata.streaming.serializers import StringSerializer
        from litdata.streaming.writer import BinaryWriter

        out = folder / piece.split

        class AnyString(StringSerializer):
            # LitData's own takes a text that is the path of a file for that file.
            def can_serialize(self, data: Any) -> bool:
                return isinstance(data, str)

        os.environ[_RANK] = str(piece.number)
        serializers = {"str": AnyString()}
        writer = BinaryWriter(str(out), chunk_bytes=_CHUNK_BYTES, serializers=serializers)
        for number, record in enumerate(records):
            writer.add_item(number, flat_values(schema, record))
        writer.done()
        index = out / f"{piece.number}.index.json"
        content = json.loads(index.read_text())
        index.unlink()
        return content

    @override
    def finish(
        self,
        name: str,
        schema: Schema,
        splits: Mapping[str, Sequence[ConversionPiece]],
        details_of: Callable[[ConversionPiece], Any],
        folder: Path,
    ) -> None:
        from litdata.streaming.writer import BinaryWriter

        for split, pieces in splits.items():
            out = folder / split
            out.mkdir()
            for one in pieces:
                (out / f"{one.number}.index.json").write_text(json.dumps(details_of(one)))
            BinaryWriter(str(out), chunk_bytes=_CHUNK_BYTES).merge(len(pieces))
