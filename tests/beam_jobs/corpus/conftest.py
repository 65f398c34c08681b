"""Corpora in every form, and sources without a pipeline around them."""

from __future__ import annotations

import gzip
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs.corpus.listing import CorpusListing
from beam_jobs.corpus.reading import CorpusReader
from beam_jobs.corpus.record import RawRecord
from beam_jobs.options import ImageOptions
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.list import resolve_options
from shard_format import Feature, Schema, encode_example, frame

JPEG = b"\xff\xd8\xff" + bytes(range(250)) * 8  # begins as a JPEG does

EXAMPLE = Schema("image", (Feature("image", "bytes"), Feature("label", "bytes")))


class Raw(NamedTuple):
    """A record that was read."""

    data: bytes
    label: str | None = None
    group: str | None = None
    split: str | None = None


@pytest.fixture
def corpus(tmp_path):
    """A folder of files of a few bytes."""

    def make(*names, folder="photos", data=JPEG):
        for name in names:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return tmp_path / folder

    return make


@pytest.fixture
def records(tmp_path):
    """Lists and reads a corpus: {record id: Raw or (reason, detail, data)}, and the ignored ids."""

    def run(*sources, **options):
        job = resolve_options(ImageOptions(tuple(map(str, sources)), "out", **options))
        extractor = RECORD_TYPES["image"](job).extractor
        ignored: list[str] = []
        listing = CorpusListing(job, extractor, ignored.append)
        items = list(listing.items([Path(path) for path in job.sources]))
        with CorpusReader(job, extractor, tmp_path / "scratch") as reader:
            results = [one for item in items for one in reader.read(item)]
        outcomes = {one.record_id: _outcome(one) for one in results}
        assert len(outcomes) == len(results), "record ids must be unique"
        assert not list(tmp_path.glob("scratch*"))
        run.items, run.ignored, run.source = items, ignored, job.source
        return outcomes

    return run


def _outcome(result):
    if not isinstance(result, RawRecord):
        return result.rejection.reason, result.rejection.detail, result.rejection.data
    return Raw(result.payload, *result.annotations[:3])


def reasons(outcomes):
    """{record id: reason} of all that were refused."""
    return {name: raw[0] for name, raw in outcomes.items() if type(raw) is tuple}


def kept(outcomes):
    """{record id: (bytes, label)} of all others."""
    return {name: (raw.data, raw.label) for name, raw in outcomes.items() if type(raw) is not tuple}


def files_of(corpus: Path) -> dict[str, bytes]:
    """{path below the corpus: bytes}, sorted."""
    return {
        str(path.relative_to(corpus)): path.read_bytes()
        for path in sorted(corpus.rglob("*"))
        if path.is_file()
    }


def tar_of(path: Path, members: dict[str, bytes], mode: str = "w", **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode, **options) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, _stream(data))
    return path


def zip_of(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _stream(data):
    import io

    return io.BytesIO(data)


def zstd_of(path: Path, data: bytes) -> Path:
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(data)
    return path


def framed(examples: list[dict[str, object]], schema: Schema = EXAMPLE) -> bytes:
    return b"".join(frame(encode_example(schema, example)) for example in examples)


def columns_of(corpus: Path) -> pa.Table:
    files = files_of(corpus)
    labels = [name.split("/")[0] for name in files]
    return pa.table({"image": pa.array(files.values(), pa.binary()), "label": labels})


def hugging_face_of(corpus: Path) -> pa.Table:
    files = files_of(corpus)
    names = sorted({name.split("/")[0] for name in files})
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table(
        {
            "image": [{"bytes": data, "path": name} for name, data in files.items()],
            "label": pa.array([names.index(name.split("/")[0]) for name in files], pa.int64()),
        }
    )
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return table.replace_schema_metadata(metadata)


def _class_folders(corpus, out):
    return corpus, {}


def _table(corpus, out):
    folder = out / "flat"
    folder.mkdir(parents=True)
    rows = ["path,label"]
    for name, data in files_of(corpus).items():
        label, base = name.split("/")
        (folder / f"{label} {base}").write_bytes(data)
        rows.append(f"{label} {base},{label}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder, {"labels": str(folder / "labels.csv")}


def _tar(mode, suffix):
    def make(corpus, out):
        files = list(files_of(corpus).items())
        for number in range(2):
            tar_of(out / "tars" / f"{number}{suffix}", dict(files[number::2]), mode)
        return out / "tars", {}

    return make


def _tar_zst(corpus, out):
    plain = tar_of(out / "plain.tar", files_of(corpus))
    return zstd_of(out / "corpus.tar.zst", plain.read_bytes()), {}


def _webdataset(corpus, out):
    members = {}
    for number, (name, data) in enumerate(files_of(corpus).items()):
        members[f"{number:05d}.jpg"] = data
        if number % 2:
            members[f"{number:05d}.cls"] = name.split("/")[0].encode()
        else:
            members[f"{number:05d}.json"] = json.dumps({"label": name.split("/")[0]}).encode()
    return tar_of(out / "shard.tar", members), {}


def _zip(corpus, out):
    out.mkdir(parents=True)
    with zipfile.ZipFile(out / "corpus.zip", "w") as archive:
        for number, (name, data) in enumerate(files_of(corpus).items()):
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if number % 2 else None)
    return out / "corpus.zip", {}


def _parquet(table_of):
    def make(corpus, out):
        out.mkdir(parents=True)
        pq.write_table(table_of(corpus), out / "train-00000.parquet", row_group_size=5)
        return out, {}

    return make


def _arrow(opener, table_of, **options):
    def make(corpus, out):
        out.mkdir(parents=True)
        table = table_of(corpus)
        with opener(str(out / "data.arrow"), table.schema, **options) as writer:
            writer.write_table(table, max_chunksize=5)
        return out, {}

    return make


def _tfrecord(compress, name):
    def make(corpus, out):
        out.mkdir(parents=True)
        examples = [
            {"image": data, "label": path.split("/")[0]} for path, data in files_of(corpus).items()
        ]
        (out / name).write_bytes(compress(framed(examples)))
        return out, {}

    return make


FORMS: dict[str, Callable[[Path, Path], tuple[Path, dict[str, str]]]] = {
    "class-folders": _class_folders,
    "table": _table,
    "tar": _tar("w", ".tar"),
    "tar.gz": _tar("w:gz", ".tar.gz"),
    "tar.zst": _tar_zst,
    "webdataset": _webdataset,
    "zip": _zip,
    "parquet": _parquet(columns_of),
    "parquet, Hugging Face": _parquet(hugging_face_of),
    "arrow file": _arrow(pa.ipc.new_file, columns_of),
    "arrow stream, Hugging Face": _arrow(pa.ipc.new_stream, hugging_face_of),
    "feather, compressed": _arrow(
        pa.ipc.new_file, columns_of, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ),
    "tfrecord": _tfrecord(bytes, "a.tfrecord"),
    "tfrecord, gzip": _tfrecord(gzip.compress, "a.tfrecord-00000-of-00001"),
}
