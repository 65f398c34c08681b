"""Compressed files are split at their frames, and their records are those of the whole file."""

from __future__ import annotations

import gzip
import random
import shutil
import struct
import subprocess
import zlib

import orjson
import pyarrow as pa
import pytest

from beam_jobs.corpus import frames, listing
from beam_jobs.corpus.formats import lines

EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def pieces(data, generator, most):
    """The data in parts of 1 to `most` bytes."""
    at = 0
    while at < len(data):
        size = generator.randint(1, most)
        yield data[at : at + size]
        at += size


def bgzip(data, generator, most=60_000):
    """As bgzip writes it: gzip members with their size in the field BC."""
    blocks = []
    for part in pieces(data, generator, most):
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = deflate.compress(part) + deflate.flush()
        other = b"XX\1\0y" if generator.random() < 0.1 else b""  # a field of somebody else
        extra = other + b"BC\2\0" + struct.pack("<H", len(other) + len(body) + 25)
        header = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(extra)) + extra
        blocks.append(header + body + struct.pack("<2I", zlib.crc32(part), len(part)))
    return b"".join(blocks) + EOF_BLOCK


def zstd_frames(data, generator, most=60_000):
    return [
        (pa.compress(part, "zstd", asbytes=True), len(part))
        for part in pieces(data, generator, most)
    ]


def zstd(data, generator):
    """Frames, some with a skippable one behind them."""
    skipped = struct.pack("<2I", 0x184D2A53, 5) + b"notes"
    written = (one for one, _ in zstd_frames(data, generator))
    return b"".join(one + skipped * (generator.random() < 0.3) for one in written)


def seekable_zstd(data, generator):
    """With the table of the seekable format, and a checksum of each frame."""
    written = zstd_frames(data, generator)
    table = b"".join(struct.pack("<3I", len(one), size, 7) for one, size in written)
    table += struct.pack("<IBI", len(written), 0x80, 0x8F92EAB1)
    frame = struct.pack("<2I", 0x184D2A5E, len(table))
    return b"".join(one for one, _ in written) + frame + table


def pzstd(data, generator):
    """Frames that do not say how large their content is."""
    parts = []
    for part in pieces(data, generator, 60_000):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(part)
        parts.append(sink.getvalue().to_pybytes())
    return b"".join(parts)


def xz(data, _):
    command = ["xz", "--block-size=40000", "--threads=1", "--stdout"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


PACKED = {
    "bgzip": ("gz", bgzip),
    "zstd": ("zst", zstd),
    "pzstd": ("zst", pzstd),
    "seekable": ("zst", seekable_zstd),
    "xz": ("xz", xz),
}
methods = pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(name == "xz" and not shutil.which("xz"), reason="no xz")
        )
        for name in PACKED
    ],
)


@pytest.fixture(autouse=True)
def small_splits(monkeypatch):
    """Files of kilobytes are split as those of gigabytes are."""
    monkeypatch.setattr(frames, "_LEAST_BYTES", 30_000)
    monkeypatch.setattr(listing, "_MIN_SPLIT_BYTES", 1000)
    monkeypatch.setattr(lines, "_MIN_SPLIT_BYTES", 1 << 15)


def json_lines(generator, count=1500):
    """Lines of 20 bytes to 100 kB, some blank, some no JSON."""
    for number in range(count):
        size = 20_000 if generator.random() < 0.003 else generator.randrange(20)
        text = " ".join(generator.choice(("one", "zwei", "\u4e09", "\n")) for _ in range(size))
        yield orjson.dumps({"text": f"{number} {text}"})
        if generator.random() < 0.01:
            yield generator.choice((b"", b"{", b"\xff"))


def compared(file, documents, data, method, **options):
    """What is read of the packed file, and of the same in one frame."""
    extension, pack = PACKED[method]
    name = f"{options.pop('name', 'a.jsonl')}.{extension}"
    packed = pack(data, random.Random(1))
    framed = documents(file(f"framed/{name}", packed), no_labels=True, **options)
    one = {"gz": gzip.compress, "zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
    alone = one.get(extension, lambda data: xz_alone(data))(data)
    return framed, documents(file(f"whole/{name}", alone), no_labels=True, **options)


def xz_alone(data):
    command = ["xz", "--threads=1", "--stdout"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


@methods
def test_records_are_those_of_the_whole_file(file, documents, method):
    data = b"\n".join(json_lines(random.Random(0)))
    framed, whole = compared(file, documents, data, method)
    assert len(whole.items) == 1 and len(framed.items) > 5
    assert len({item.locator.offset for item in framed.items}) == len(framed.items)
    assert list(framed.documents) == list(whole.documents) and len(whole.documents) == 1500
    assert framed.documents == whole.documents and framed.originals == whole.originals
    assert framed.rejects == whole.rejects and len(whole.rejects) > 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-be", "auto", "cp1252"])
def test_lines_in_any_encoding(file, documents, encoding):
    text = "\n".join(f"Zeile {number} \u00e4\u00f6\u00fc" * 5 for number in range(4000))
    data = text.encode("utf-8" if encoding == "auto" else encoding)
    options = {"per_line": True, "encoding": encoding, "name": "a.txt"}
    framed, whole = compared(file, documents, data, "bgzip", **options)
    assert len(whole.items) == 1 and len(framed.items) > 5 and len(whole.documents) == 4000
    assert framed.documents == whole.documents and list(framed.texts) == list(whole.texts)


@pytest.mark.parametrize("extension", ["gz", "zst"])
def test_a_named_file_of_one_frame_is_split(extension, file, documents, monkeypatch):
    data = b"\n".join(json_lines(random.Random(0), 1000))
    packed = gzip.compress(data) if extension == "gz" else pa.compress(data, "zstd", asbytes=True)
    path = file(f"named/a.jsonl.{extension}", packed)
    whole = documents(path, no_labels=True)
    monkeypatch.setattr(listing, "_MIN_READ_BYTES", 1000)
    read = documents(path, no_labels=True)
    assert (
        len(whole.items) == 1
        and 5 < len(read.items) <= frames._ALONE[{"gz": "gzip", "zst": "zstd"}[extension]]
    )
    assert read.documents == whole.documents and list(read.documents) == list(whole.documents)
    assert read.rejects == whole.rejects
    in_folder = documents(path.parent, no_labels=True)
    assert len(in_folder.items) == 1 and in_folder.documents == whole.documents
    path.write_bytes(packed[: len(packed) // 2])
    assert len(documents(path, no_labels=True).items) == 1


def test_damage_costs_what_is_in_its_split(file, documents):
    data = b"\n".join(json_lines(random.Random(0)))
    packed = bytearray(bgzip(data, random.Random(1)))
    sound = documents(file("sound/a.jsonl.gz", bytes(packed)), no_labels=True)
    packed[len(packed) // 2] ^= 0x55
    results = documents(file("damaged/a.jsonl.gz", bytes(packed)), no_labels=True)
    assert results.items[0].locator.codec == "gzip"
    (damaged,) = (name for name, why in results.reasons.items() if why == "damaged-stream")
    at = int(damaged.rpartition("/")[2])
    # The checksum is at the end of a block, so records of this block may differ before it.
    apart = {
        name: document
        for name, document in results.documents.items()
        if not at - 60_000 < int(name.rpartition("/")[2]) < at
    }
    assert apart.items() <= sound.documents.items()
    behind = [name for name in apart if int(name.rpartition("/")[2]) > at]
    assert len(behind) > 100 and len(apart) > 0.4 * len(sound.documents)


@pytest.mark.parametrize("change", ["cut", "longer", "another member", "zeros"])
def test_other_files_are_read_as_a_whole(file, documents, change):
    data = b"\n".join(json_lines(random.Random(0), 500))
    packed = bgzip(data, random.Random(1), most=20_000)
    packed = {
        "cut": packed[: len(packed) * 3 // 4],
        "longer": packed + b"garbage that is longer than a header",
        "another member": packed + gzip.compress(b'\n{"text": "behind"}'),
        "zeros": packed + bytes(1000),
    }[change]
    read = documents(file("a.jsonl.gz", packed), no_labels=True)
    assert len(read.items) == 1 and len(read.documents) > 50
    assert ("behind" in read.texts.values()) == (change == "another member")


def test_tables_that_lie_are_not_believed(tmp_path):
    packed = bytearray(seekable_zstd(bytes(200_000), random.Random(1)))
    packed[-9:-5] = struct.pack("<I", 1 << 30)
    (tmp_path / "a").write_bytes(packed)
    results = frames.find_frames(bytes(tmp_path / "a"), "zstd")
    assert results is not None and results.end.content == 200_000  # by the frames themselves
    (tmp_path / "a").write_bytes(packed[-17:])
    assert frames.find_frames(bytes(tmp_path / "a"), "zstd") is None
