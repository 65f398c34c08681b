"""Plain files: images in folders of their classes, everything else as JSON Lines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from reader.conversion.base import CHECKSUM, ConversionFormat, ConversionPiece, Record
from reader.conversion.images import as_file, ending_of
from reader.conversion.plain_values import class_name_of, nested, plain, value_at
from shard_format import Feature, InputError, Schema

# What a name of a folder cannot have on some system, and "%", so that no two names become one.
_UNSAFE = re.compile(r'^$|^\.|[\x00-\x1f\x7f/\\:*?"<>|%]|[. ]$')
_MOST_BYTES = 200
_METADATA = "metadata.jsonl"  # where Hugging Face's ImageFolder looks for what belongs to a file


class FilesFormat(ConversionFormat):
    """Of images SPLIT/CLASS/000000000.jpg and SPLIT/metadata.jsonl; of texts SPLIT-000000.jsonl.

    Without labels the folder is the number of the piece.
    """

    files = "plain files"
    reading = (
        "import json\nfrom pathlib import Path\n\n"
        'for path in sorted(Path().rglob("*.jsonl")):\n'
        '    print(json.loads(path.read_text(encoding="utf-8").partition("\\n")[0]))'
    )

    @override
    def has_file_per_record(self, schema: Schema) -> bool:
        return any(feature.kind == "image" for feature in schema.features)

    @override
    def check(self, schema: Schema) -> None:
        for feature in schema.features:
            if feature.kind == "bytes":
                raise InputError(
                    f"Feature {feature.name!r} is bytes, which are neither an image nor JSON. "
                    "Convert to 'parquet' or 'webdataset'."
                )

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> list[str] | None:
        images = [feature for feature in schema.features if feature.kind == "image"]
        if not images:
            with open(folder / f"{piece.name}.jsonl", "w", encoding="utf-8") as file:
                file.writelines(_line(schema, record, {}) for record in records)
            return None
        return [_write_images(schema, images, piece, record, folder) for record in records]

    @override
    def finish(
        self,
        name: str,
        schema: Schema,
        splits: Mapping[str, Sequence[ConversionPiece]],
        details_of: Callable[[ConversionPiece], Any],
        folder: Path,
    ) -> None:
        for split, pieces in splits.items():
            if details_of(pieces[0]) is None:
                continue
            (folder / split).mkdir()
            with open(folder / split / _METADATA, "w", encoding="utf-8") as file:
                for one in pieces:
                    file.writelines(details_of(one))


def _write_images(
    schema: Schema, images: Sequence[Feature], piece: ConversionPiece, record: Record, folder: Path
) -> str:
    """Writes the images of a record, and returns its line of the metadata."""
    names: dict[str, Any] = {}
    own = _class_folder(schema, piece, record)
    target = f"{folder}/{piece.split}"
    if not os.path.exists(f"{target}/{own}"):
        os.makedirs(f"{target}/{own}")
    for feature in images:
        value = value_at(record.values, schema.paths[feature.name])
        several = value if feature.dims else [value]
        files = []
        for number, one in enumerate(several):
            parts = [f"{record.number:09d}"]
            parts += [] if feature.name == "image" else [feature.name.replace("/", ".")]
            parts += [str(number)] if feature.dims else []
            file = f"{own}/{'.'.join(parts)}.{ending_of(feature, one)}"
            with open(f"{target}/{file}", "wb") as image:
                image.write(as_file(feature, one, record.values))
            files.append(file)
        key = "file_name" if feature.name == "image" else f"{feature.name}_file_name"
        names[key] = files if feature.dims else files[0]
    return _line(schema, record, names)


def _class_folder(schema: Schema, piece: ConversionPiece, record: Record) -> str:
    """The folder of a record: the name of its class as that of a folder, or its piece."""
    label = next((one for one in schema.labels if not one.shape), None)
    if label is None:
        return f"{piece.number:05d}"
    number = record.values[label.name]
    name = _UNSAFE.sub(_escaped, label.class_names[number])
    return name if len(name.encode()) <= _MOST_BYTES else f"%{number}"


def _escaped(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}" if match[0] else "%"


def _line(schema: Schema, record: Record, names: Mapping[str, Any]) -> str:
    values: dict[str, Any] = {}
    for feature in schema.features:
        if feature.kind == "image":
            continue
        value = value_at(record.values, schema.paths[feature.name])
        values[feature.name] = plain(value)
        if feature.kind == "class_label" and not feature.shape:
            values[class_name_of(feature.name)] = feature.class_names[value]
    line = {**names, **nested(schema, values), CHECKSUM: record.checksum}
    return json.dumps(line, ensure_ascii=False) + "\n"
