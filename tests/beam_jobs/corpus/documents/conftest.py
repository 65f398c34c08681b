"""Documents as they are found and read, with and without a pipeline around them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from beam_jobs.corpus.listing import CorpusListing
from beam_jobs.corpus.reading import CorpusReader
from beam_jobs.corpus.record import IgnoredPart, RawRecord, UnusableRecord
from beam_jobs.options import TextOptions
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.list import resolve_options


class Document(NamedTuple):
    """A document that was read."""

    text: str
    is_html: bool
    encoding: str
    label: str | None
    group: str | None
    split: str | None
    kept: tuple[object, ...]


class Read:
    """What reading a corpus gave."""

    def __init__(self, documents, items, ignored, options):
        self.items, self.ignored, self.options = items, ignored, options
        outcomes = {one.record_id: one for one in documents}
        assert len(outcomes) == len(documents), "record ids must be unique"
        read = {k: v for k, v in outcomes.items() if isinstance(v, RawRecord)}
        self.originals = {k: v.original for k, v in read.items()}
        self.documents = {
            k: Document(v.payload, v.is_html, v.encoding, *v.annotations) for k, v in read.items()
        }
        self.rejects = {
            k: v.rejection for k, v in outcomes.items() if isinstance(v, UnusableRecord)
        }
        self.skipped = [k for k, v in outcomes.items() if isinstance(v, IgnoredPart)]

    @property
    def texts(self):
        return {name: document.text for name, document in self.documents.items()}

    @property
    def reasons(self):
        return {name: reject.reason for name, reject in self.rejects.items()}

    @property
    def labels(self):
        return {name: document.label for name, document in self.documents.items()}

    @property
    def counts(self):
        return Counter(self.reasons.values())


def read_documents(*sources, resolve=True, **options):
    job = TextOptions(tuple(map(str, sources)), "out", **options)
    job = resolve_options(job) if resolve else job
    extractor = RECORD_TYPES["text"](job).extractor
    ignored: list[str] = []
    listing = CorpusListing(job, extractor, ignored.append)
    items = list(listing.items([Path(path) for path in job.sources]))
    first = Path(job.sources[0])
    scratch = first.parent / f"{first.name}.scratch"
    if not first.is_relative_to(Path("/tmp")):
        scratch = Path("scratch")
    with CorpusReader(job, extractor, scratch) as reader:
        documents = [one for item in items for one in reader.read(item)]
    assert not list(scratch.parent.glob(f"{scratch.name}*")), "scratch files must go"
    return Read(documents, items, ignored, job)


@pytest.fixture(scope="session")
def documents():
    """Lists and reads: documents(path, ..., option=value) gives a Read."""
    return read_documents


@pytest.fixture
def file(tmp_path):
    """Writes a file below a folder of its own: file("a/b.txt", bytes or text)."""

    def write(name: str, data: bytes | str) -> Path:
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


def tar_bytes(members, mode="w"):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def zip_bytes(members, method=zipfile.ZIP_DEFLATED):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return sink.getvalue()


@pytest.fixture(scope="session")
def packed():
    """packed(kind, {name: bytes}) is a tar or zip of them."""

    def make(kind, members):
        if kind.startswith("zip"):
            methods = {"zip": 8, "zip-stored": 0, "zip-bz2": 12, "zip-lzma": 14}
            return zip_bytes(members, methods[kind])
        return tar_bytes(members, {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[kind])

    return make


@pytest.fixture
def build_text(tmp_path):
    """Runs a text job in this process; keyword arguments are its options."""
    from beam_jobs.run import preprocess

    def run(source, out="set", /, **options):
        defaults = {"workers": 1, "no_report": True, "clean": "none", "dedup": "off"}
        sources = source if isinstance(source, tuple) else (source,)
        target = out if isinstance(out, Path) else tmp_path / out
        job = TextOptions(tuple(map(str, sources)), str(target), **(defaults | options))
        return preprocess(job)

    return run
