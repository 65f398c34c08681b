"""From a folder of photographs to the form of a library: decoded, resized and encoded as by others.

Each follows the parallel way of its documentation, with a process for every core: by Pillow, as
there, or by the kernels of shardmill.
"""

from __future__ import annotations

import functools
import importlib
import io
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2

from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare
from benchmarks.subjects.photo_kernels import QUALITY, SIDE, encoded, resized

Photo = tuple[str, int]  # path, class number
Prepare = Callable[[str], bytes]

_WORKERS = len(os.sched_getaffinity(0))
_SHARD_BYTES = 64 << 20


def by_kernels(path: str) -> bytes:
    """The JPEG that is stored of a photograph."""
    cv2.setNumThreads(1)
    return encoded(resized(path))


def by_pillow(path: str) -> bytes:
    """The same by Pillow, with the filter that it uses where none is named."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    shorter, buffer = min(image.size), io.BytesIO()
    width, height = (round(side * SIDE / shorter) for side in image.size)
    image.resize((width, height), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


PREPARE: dict[str, Callable[[str], bytes]] = {"pillow": by_pillow, "kernels": by_kernels}


def write_mosaicml(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    """MDS: a writer in each process, and their indexes merged."""
    from streaming.base.util import merge_index

    _each_part(functools.partial(_write_mds, prepared), photos, out)
    merge_index(str(out), keep_local=True)


def _write_mds(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    import streaming

    columns = {"jpg": "bytes", "cls": "int"}
    with streaming.MDSWriter(out=str(out), columns=columns, size_limit=_SHARD_BYTES) as writer:
        for path, label in photos:
            writer.write({"jpg": prepared(path), "cls": label})


def write_webdataset(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    """Tar files: a ShardWriter in each process."""
    _each_part(functools.partial(_write_tars, prepared), photos, out)


def _write_tars(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    import webdataset as wds

    out.mkdir(exist_ok=True)
    pattern = str(out / "train-%06d.tar")
    with wds.ShardWriter(pattern, maxsize=_SHARD_BYTES, verbose=0) as writer:
        for path, label in photos:
            key = Path(path).stem
            writer.write({"__key__": key, "jpg": prepared(path), "cls": str(label)})


def write_litdata(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    """Chunks of LitData, by `optimize`."""
    _optimize(prepared, photos, out, mode="overwrite")


def write_litdata_with_checkpoints(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    """The same, with the option to go on after an interruption."""
    _optimize(prepared, photos, out, use_checkpoint=True)


def _optimize(prepared: Prepare, photos: Sequence[Photo], out: Path, **options: Any) -> None:
    import litdata

    litdata.optimize(
        functools.partial(_litdata_record, prepared),
        list(photos),
        output_dir=str(out),
        num_workers=_WORKERS,
        chunk_bytes=_SHARD_BYTES,
        verbose=False,
        **options,
    )


def _litdata_record(prepared: Prepare, photo: Photo) -> dict[str, Any]:
    return {"jpeg": prepared(photo[0]), "label": photo[1]}


def write_datasets(prepared: Prepare, photos: Sequence[Photo], out: Path) -> None:
    """Parquet, by `Dataset.map`."""
    import datasets

    paths, labels = zip(*photos, strict=True)
    features = datasets.Features(
        {"jpeg": datasets.Value("binary"), "label": datasets.Value("int64")}
    )
    whole = datasets.Dataset.from_dict({"path": list(paths), "label": list(labels)})
    done = whole.map(
        functools.partial(_datasets_record, prepared),
        remove_columns=["path"],
        features=features,
        num_proc=_WORKERS,
        cache_file_name=str(out / "cache.arrow"),
    )
    done.to_parquet(str(out / "train.parquet"))


def _datasets_record(prepared: Prepare, row: dict[str, Any]) -> dict[str, Any]:
    return {"jpeg": prepared(row["path"])}


def _each_part(write: Callable[..., None], photos: Sequence[Photo], out: Path) -> None:
    parts = [photos[number::_WORKERS] for number in range(_WORKERS)]
    with multiprocessing.Pool(_WORKERS) as pool:
        pool.starmap(write, [(part, out / f"{number:02d}") for number, part in enumerate(parts)])


# The module that is imported before the clock begins, and what writes.
WRITERS: dict[str, tuple[str, Callable[[Prepare, Sequence[Photo], Path], None]]] = {
    "streaming": ("streaming", write_mosaicml),
    "webdataset": ("webdataset", write_webdataset),
    "litdata": ("litdata", write_litdata),
    "litdata, checkpoints": ("litdata", write_litdata_with_checkpoints),
    "datasets": ("datasets", write_datasets),
}


def photos_in(source: Path) -> list[Photo]:
    """Every photograph in class folders, and the number of its class."""
    names = sorted(path.name for path in source.iterdir())
    return [(str(p), names.index(p.parent.name)) for p in sorted(source.rglob("*.jpg"))]


def main() -> None:
    """Arguments: LIBRARY KERNELS SOURCE OUT; KERNELS is a key of `PREPARE`."""
    library, kernels, source, out = sys.argv[1:]
    prepare(Path(out))
    Path(out).mkdir(parents=True, exist_ok=True)
    module, write = WRITERS[library]
    importlib.import_module(module)
    photos = photos_in(Path(source))

    def build() -> int:
        write(PREPARE[kernels], photos, Path(out))
        return len(photos)

    measure(build)


if __name__ == "__main__":
    main()
