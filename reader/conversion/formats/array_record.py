"""ArrayRecord, as TensorFlow Datasets and Grain read it: each record is its tf.train.Example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from reader.conversion.base import ConversionFormat, ConversionPiece, Record
from shard_format import Schema
from shard_format.tfds_metadata import array_record_files

# Records are found one by one, as Grain asks for them; compressed images would not get smaller.
_OPTIONS = "group_size:1,uncompressed"


class ArrayRecordFormat(ConversionFormat):
    """NAME-SPLIT.array_record-00000-of-00004, with features.json and dataset_info.json."""

    files = "ArrayRecord"
    reading = (
        "import tensorflow_datasets as tfds\n\n"
        'records = tfds.builder_from_directory(".").as_data_source("{split}")\nprint(records[0])'
    )
    packages = ("array_record",)
    decodes = False

    @override
    def load(self) -> None:
        import array_record.python.array_record_module  # noqa: F401

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> int:
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(str(folder / file_of(name, piece)), _OPTIONS)
        size = 0
        try:
            for record in records:
                writer.write(bytes(record.example))
                size += len(record.example)
        finally:
            writer.close()
        return size

    @override
    def finish(
        self,
        name: str,
        schema: Schema,
        splits: Mapping[str, Sequence[ConversionPiece]],
        details_of: Callable[[ConversionPiece], Any],
        folder: Path,
    ) -> None:
        lengths = {
            split: ([one.records for one in pieces], sum(map(details_of, pieces)))
            for split, pieces in splits.items()
        }
        for file, content in array_record_files(name, schema, lengths).items():
            (folder / file).write_bytes(content)


def file_of(name: str, piece: ConversionPiece) -> str:
    """The file of a piece, as TensorFlow Datasets expects it."""
    return f"{name}-{piece.split}.array_record-{piece.number:05d}-of-{piece.pieces:05d}"
