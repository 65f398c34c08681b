"""WebDataset: tar files in which the members of a record have one key."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from reader.access.examples import Values
from reader.conversion.base import CHECKSUM, ConversionFormat, ConversionPiece, Record
from reader.conversion.images import as_file, ending_of
from reader.conversion.plain_values import class_name_of, nested, plain, value_at
from shard_format import Feature, Schema

# The features that other programs look for under these endings.
_USUAL = {"label": "cls", "text": "txt", "caption": "txt"}


class WebDatasetFormat(ConversionFormat):
    """SPLIT-000000.tar, with KEY.jpg, KEY.cls, KEY.txt, and KEY.json for the rest of a record.

    Arrays are KEY.NAME.npy, further images KEY.NAME.png. The key is the number of the record.
    """

    files = "tar files of WebDataset"
    reading = (
        "import glob\n\nimport webdataset\n\n"
        'tars = sorted(glob.glob("{split}-*.tar"))\n'
        "records = webdataset.WebDataset(tars, shardshuffle=False)\nprint(next(iter(records)))"
    )
    packages = ("webdataset",)

    @override
    def load(self) -> None:
        import webdataset  # noqa: F401

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> None:
        from webdataset import TarWriter

        path = folder / f"{piece.name}.tar"
        # Without times and users: the same records are the same bytes.
        with open(path, "wb") as file, TarWriter(file, "", "", mtime=0, encoder=False) as tar:
            for record in records:
                tar.write({"__key__": f"{record.number:09d}", **_members(schema, record)})


def _members(schema: Schema, record: Record) -> dict[str, bytes]:
    """The members of a record, by their endings."""
    members: dict[str, bytes] = {}
    rest: dict[str, Any] = {}
    for feature in schema.features:
        path = schema.paths[feature.name]
        value = value_at(record.values, path)
        ending = ".".join(path)
        if feature.kind in ("image", "bytes"):
            several = value if feature.dims else [value]
            for number, one in enumerate(several):
                own = f"{ending}.{number}" if feature.dims else ending
                members[_named(feature, own, one)] = _content(feature, one, record.values)
        elif isinstance(value, np.ndarray) and len(path) == 1:
            members[f"{ending}.npy"] = _npy(value)
        elif feature.name in _USUAL and not feature.shape:
            members[_USUAL[feature.name]] = str(value).encode()
        else:
            rest[feature.name] = plain(value)
        if feature.kind == "class_label" and not feature.shape:
            rest[class_name_of(feature.name)] = feature.class_names[value]
    rest[CHECKSUM] = record.checksum
    members["json"] = json.dumps(nested(schema, rest), ensure_ascii=False).encode()
    return members


def _named(feature: Feature, ending: str, value: bytes) -> str:
    if feature.kind == "bytes":
        return f"{ending}.bin"
    suffix = ending_of(feature, value)
    return suffix if feature.name == "image" else f"{ending}.{suffix}"


def _content(feature: Feature, value: bytes, values: Values) -> bytes:
    return value if feature.kind == "bytes" else as_file(feature, value, values)


def _npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
    return content.getvalue()
