"""Damage: of files in the corpus, and of one byte in a set."""

from __future__ import annotations

import functools
import mmap
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, SubjectFailure, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail
from benchmarks.scorecard.rows.kills import Writer, writers
from benchmarks.scorecard.rows.read_images import make_form
from shard_format import naming

_COUNT, _SMALL_COUNT = 840, 64
_EMPTY, _CUT = "empty.jpg", "cut.jpg"  # the names of damaged files
_SAID = 90  # characters of a message that the table has
_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b.*:")


def _damaged_corpus(bench: Bench) -> tuple[Path, int]:
    """Photographs, an empty file and one that ends early; and how many are whole."""
    count = _SMALL_COUNT if bench.is_small else _COUNT
    photos, out = make_corpus(bench.work, count), bench.work / f"damaged-{count}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(photos, out)
    first = min(out.rglob("*.jpg"))
    (first.parent / _EMPTY).write_bytes(b"")
    (first.parent / _CUT).write_bytes(first.read_bytes()[:2000])
    return out, count


def _build(bench: Bench, writer: Writer) -> Run:
    """Builds a set of a corpus with damaged files."""
    (photos, count), out = _damaged_corpus(bench), bench.work / "of damaged"
    shutil.rmtree(out, ignore_errors=True)
    arguments = (*writer.arguments, photos, out, *writer.last)
    python, error = writer.python(bench), ""
    try:
        build = run(writer.module, *arguments, python=python)
        kept = run("peer_records", writer.records, out, python=python)
        error, records = kept.details["error"], kept.details["distinct"]
    except SubjectFailure as failure:
        build, error, records = Run(count, 1, 1, 0, 0, {}, failure.command), str(failure), 0
    reports = error + "".join(_texts(out)) + "".join(_quarantined(out))
    details = {
        "kept": 100 * records / count,
        "named": sum(name in reports for name in (_EMPTY, _CUT)),
        "says": _said(error),
    }
    return Run(count, build.seconds, build.cpu_seconds, 0, 0, details, build.command)


def _texts(out: Path) -> list[str]:
    """What a build wrote for people and programs to read."""
    files = [path for path in out.rglob("*.json*") if path.is_file()]
    return [path.read_text(errors="replace") for path in files]


def _quarantined(out: Path) -> list[str]:
    """The ids of records that shardmill left out."""
    files = sorted((out / naming.QUARANTINE_DIR).glob("*.parquet"))
    return [one for path in files for one in pq.read_table(path).column("record_id").to_pylist()]


def _said(error: str) -> str:
    """The last line that names an error, else the last one: other lines follow as processes end."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [""])[-1].replace("|", "/")[:_SAID]


def _sources(bench: Bench) -> list[Subject]:
    return [
        Subject(name, whose, functools.partial(_build, bench, writer), writer.environment, page)
        for name, whose, writer, page in writers()
    ]


# (name, whose, key in benchmarks.subjects.peer_records, form of the set)
_READERS = (
    ("shardmill", OURS, "shardmill", "shardmill"),
    ("tf.data", "tf.data", "tensorflow", "shardmill"),
    ("TFDS", "TFDS", "tfds", "shardmill"),
    ("MosaicML Streaming", "MosaicML Streaming", "streaming", "mosaicml"),
    ("WebDataset", "WebDataset", "webdataset", "webdataset"),
    ("LitData", "LitData", "litdata", "litdata"),
    ("Hugging Face datasets", "Hugging Face datasets", "datasets", "parquet"),
    ("Grain, ArrayRecord", "Grain", "array_records", "array_records"),
)


def _read_damaged(bench: Bench, library: str, form: str) -> Run:
    """Changes a byte of a photograph in a set, and has it read."""
    intact, copy = make_form(bench, form), bench.work / "damaged set"
    python = sys.executable if form == "shardmill" else bench.python("readers")
    expected = bench.work / "expected" / f"{library}.json"
    if not expected.exists():
        expected.parent.mkdir(exist_ok=True)
        run("peer_records", library, intact, expected, python=python)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(intact, copy)
    file = _change_byte(copy, _photograph(make_form(bench, "webdataset")))
    done = run("peer_records", library, copy, expected, python=python)
    error = done.details["error"]
    details = {
        "wrong": done.details["wrong"],
        "noticed": "yes" if error else "no",
        "named": "yes" if file.name in error else "no",
        "says": _said(error),
    }
    return Run(done.records, done.seconds, done.cpu_seconds, 0, 0, details, done.command)


def _photograph(tars: Path) -> bytes:
    """One of the photographs that all forms have."""
    with tarfile.open(min(tars.glob("*.tar"))) as tar:
        name = [name for name in tar.getnames() if name.endswith(".jpg")][-1]
        content = tar.extractfile(name)
        assert content is not None
        return content.read()


def _change_byte(folder: Path, photograph: bytes) -> Path:
    """Changes a byte in the middle of a photograph wherever a set has it; the file."""
    middle = len(photograph) // 2
    needle = photograph[middle : middle + 64]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.stat().st_size < len(photograph):
            continue
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
            if (place := data.find(needle)) >= 0:
                data[place + 32] ^= 0x55
                return path
    raise SystemExit(f"No file of {folder} has the photograph as it is.")


def _sets(bench: Bench) -> list[Subject]:
    return [
        Subject(
            name,
            whose,
            functools.partial(_read_damaged, bench, library, form),
            "" if form == "shardmill" else "readers",
        )
        for name, whose, library, form in _READERS
    ]


DAMAGED_FILES = Row(
    "damaged-files",
    "an empty and a cut photograph in the corpus",
    """
The job of the row "photographs" on a corpus that also has an empty file and one that ends early, by
scripts that do not catch errors, as those of each documentation. "Kept" is the share of whole
photographs that the set has then. "Files named" says how many names of the two damaged files the
message, or a file beside the set, has; who stops at the first can name one.
""",
    (
        Column("kept, %", detail("kept"), "more", 1),
        Column("files named, of 2", detail("named"), "more"),
        Column("what it says", detail("says")),
    ),
    _sources,
    turns=1,
)
DAMAGED_SET = Row(
    "damaged-set",
    "one byte of a set has changed",
    """
A byte in the middle of one photograph is changed in the files of a set, and every record is read as
it is stored. A JPEG with a wrong byte mostly decodes: what a reader does not notice, a model
learns. "Named" says whether the message has the name of the file.
""",
    (
        Column("wrong records handed out", detail("wrong"), "less"),
        Column("noticed", detail("noticed")),
        Column("file named", detail("named")),
        Column("what it says", detail("says")),
    ),
    _sets,
    turns=1,
)
