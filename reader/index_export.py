"""The index in the form of other readers of TFRecord, which cannot jump without one.

To add a form: write a function that makes the content of one file, and add a line to
`INDEX_FORMATS`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foundation import storage
from foundation.options import check_choice
from foundation.storage import Place, Url, place_of
from reader.records.split_files import check_sizes, checked_index
from shard_format import DamageError, InputError, Manifest, load_manifest
from shard_format.naming import INDEX_DIR

Int64Array = npt.NDArray[np.int64]

_WHERE = "reader.export_index"


@dataclasses.dataclass(frozen=True)
class IndexFormat:
    """How another reader wants the index of one shard.

    Attributes:
        suffix: The name of the file is that of the shard, with this behind.
        content: ([records] byte offsets of the frames, [records] bytes of each) -> the file.
    """

    suffix: str
    content: Callable[[Int64Array, Int64Array], bytes]


def offset_and_size(offsets: Int64Array, sizes: Int64Array) -> bytes:
    """A line "OFFSET SIZE" for every record, the frame's header and footer in its size.

    What DALI's tfrecord2idx writes: https://github.com/NVIDIA/DALI/blob/main/tools/tfrecord2idx
    """
    pairs = zip(offsets.tolist(), sizes.tolist(), strict=True)
    return "".join(f"{offset} {size}\n" for offset, size in pairs).encode()


INDEX_FORMATS = {
    "dali": IndexFormat(".idx", offset_and_size),  # nvidia.dali.fn.readers.tfrecord(index_path=)
}


@dataclasses.dataclass(frozen=True)
class IndexExport:
    """What was written.

    Attributes:
        folder: Where.
        root_hash: Root hash of the set; the files are of no use with another one.
        files: Files of every split, in the order of its shards.
        records: Lines of all files.
    """

    folder: Place
    root_hash: str
    files: dict[str, list[Place]]
    records: int


def export_index(
    directory: str | os.PathLike[str] | Url,
    format: str = "dali",
    out: str | os.PathLike[str] | Url | None = None,
) -> IndexExport:
    """Writes the index of every shard as a file that another reader of TFRecord understands.

    It is made from the index of the set. No shard is read; each is seen to be there and to have the
    size at which its last record ends. For NVIDIA DALI:

        files = reader.export_index("data/clothing").files["train"]
        data = fn.readers.tfrecord(
            path=[f"data/clothing/{file.stem}" for file in files],
            index_path=[str(file) for file in files],
            features={
                "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
            },
            random_shuffle=True,
        )
        images = fn.decoders.image(data["image"], device="mixed")

    Args:
        directory: The shard set, or its URL.
        format: One of `INDEX_FORMATS`.
        out: The folder to write to, or its URL; it is made where it is missing. None is the folder
            of the set's own index: verification ignores them there, and building the set again
            removes them.

    Raises:
        UsageError: There is no such format.
        ShardSetError: There is no shard set, or a shard is missing.
        DamageError: The index does not say what the manifest says, or a shard has another size.
        InputError: The files cannot be written there.
    """
    check_choice("format", format, INDEX_FORMATS, _WHERE)
    root = place_of(directory)
    manifest = load_manifest(root)
    folder = root / INDEX_DIR if out is None else place_of(out)
    folder = folder.expanduser() if isinstance(folder, Path) else folder
    files: dict[str, list[Place]] = {}
    for name, split in manifest.splits.items():
        files[name] = []
        check_sizes(root, split)
        frames = _frames(root, manifest, name)
        for shard, (offsets, sizes) in zip(split.shards, frames, strict=True):
            target = folder / f"{shard.file}{INDEX_FORMATS[format].suffix}"
            _write(target, INDEX_FORMATS[format].content(offsets, sizes))
            files[name].append(target)
    records = sum(split.records for split in manifest.splits.values())
    return IndexExport(folder, manifest.root_hash, files, records)


def _frames(root: Place, manifest: Manifest, split: str) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Offsets and sizes of the frames of every shard, which fill it from its begin to its end.

    Raises:
        DamageError: They do not.
    """
    index = checked_index(root, manifest, split).select(["shard", "offset", "length"])
    first = 0
    for number, shard in enumerate(manifest.splits[split].shards):
        numbers, offsets, sizes = _columns(index.slice(first, shard.records))
        ends = np.cumsum(sizes)
        begins = ends - sizes
        if (numbers != number).any() or (begins != offsets).any() or ends[-1] != shard.bytes:
            raise DamageError(
                f"The records of {shard.file} do not fill its {shard.bytes} bytes in "
                f"{root / manifest.index_file(split)}. Run 'shardmill verify'."
            )
        yield offsets, sizes
        first += shard.records


def _columns(rows: pa.Table) -> list[Int64Array]:
    return [np.asarray(rows[name].to_numpy(), np.int64) for name in rows.column_names]


def _write(target: Place, content: bytes) -> None:
    """Writes a whole file.

    Raises:
        InputError: It cannot be written.
    """
    try:
        storage.make_folder(target.parent)
        storage.write_bytes(target, content)
    except OSError as error:
        raise InputError(
            f"Cannot write to {target}: '{error.strerror}'. Choose another place with --out (out= "
            "in Python)."
        ) from error
