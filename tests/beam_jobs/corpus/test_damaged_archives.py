"""Archives that are cut, damaged, empty or lie: what can be read is, the rest is kept aside."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import struct
import zipfile
import zlib

import pyarrow as pa
import pytest

from .conftest import JPEG, files_of, kept, reasons, tar_of, zip_of, zstd_of


@pytest.mark.parametrize("compress", [None, "gzip", "zstd", "bz2", "xz"])
@pytest.mark.parametrize("keep", [0.99, 0.59, 0.31, 0.02])
def test_a_truncated_archive_gives_what_is_there(compress, keep, tmp_path, records):
    noise = random.Random(1)
    members = {f"hat/{number}.jpg": noise.randbytes(3000) for number in range(40)}
    data = tar_of(tmp_path / "whole.tar", members).read_bytes()[: 40 * 3584]
    if compress:
        sink = pa.BufferOutputStream()
        if compress == "xz":
            data = lzma.compress(data)
        else:
            with pa.CompressedOutputStream(sink, compress) as stream:
                stream.write(data)
            data = sink.getvalue().to_pybytes()
    path = tmp_path / "cut.tar"
    path.write_bytes(data[: int(len(data) * keep)])
    results = records(path)
    there = kept(results)
    for name, (image, label) in there.items():
        assert (image, label) == (members[name.removeprefix("cut.tar/")], "hat")
    reason, detail, rest = results["cut.tar"]
    assert list(results)[-1] == "cut.tar" and rest is not None
    if not there:
        assert reason == "not-a-tar"
        return
    assert reason == "damaged-archive" and "from byte" in detail
    # gzip gives its data in small blocks, the others in large ones.
    assert len(there) >= 40 * keep - {None: 1, "gzip": 8}.get(compress, 40)
    if not compress:
        assert rest == data[len(there) * 3584 : int(len(data) * keep)]


def test_damage_in_the_middle_loses_no_neighbour(tmp_path, records):
    members = {f"hat/{number}.jpg": JPEG + bytes([number]) for number in range(9)}
    path = tar_of(tmp_path / "a.tar", members)
    data = bytearray(path.read_bytes())
    for number in (3, 6):
        data[number * 2560 + 130] ^= 1
    path.write_bytes(data)
    results = records(path)
    assert len(kept(results)) == 7
    _, detail, lost = results["a.tar"]
    assert "2560 bytes from byte 7680 on" in detail and "1 more" in detail
    assert lost == data[7680:10240] + data[15360:17920]


def test_a_flipped_bit_in_a_compressed_archive(tmp_path, records):
    noise = random.Random(1)
    members = {f"hat/{number}.jpg": noise.randbytes(3000) for number in range(200)}
    whole = tar_of(tmp_path / "a.tar.gz", members, "w:gz").read_bytes()
    for at in (0.3, 0.7, 0.999):
        data = bytearray(whole)
        data[int(len(data) * at)] ^= 4
        (tmp_path / "a.tar.gz").write_bytes(data)
        results = records(tmp_path / "a.tar.gz")
        assert "a.tar.gz" in reasons(results)
        assert len(results) >= 2


def test_other_files_and_empty_archives(tmp_path, records):
    tar_of(tmp_path / "tars" / "a.tar", {"hat/1.jpg": JPEG})
    tar_of(tmp_path / "tars" / "empty.tar", {})
    (tmp_path / "tars" / "nothing.tar").write_bytes(b"")
    (tmp_path / "tars" / "README.md").write_text("# Tars")
    (tmp_path / "tars" / "bad.tar").write_text("no tar at all")
    (tmp_path / "tars" / "bad.tar.gz").write_bytes(gzip.compress(b"no tar at all"))
    results = records(tmp_path / "tars", source="tar")
    assert reasons(results) == {
        "README.md": "not-a-tar",
        "bad.tar": "not-a-tar",
        "bad.tar.gz": "not-a-tar",
        "empty.tar": "no-images",
        "nothing.tar": "no-images",
    }
    assert results["README.md"][2] == b"# Tars"
    assert len(kept(results)) == 1
    os.mkfifo(tmp_path / "pipe.tar")
    assert reasons(records(tmp_path / "pipe.tar", source="tar")) == {"pipe.tar": "not-a-file"}
    zip_of(tmp_path / "empty.zip", {})
    assert reasons(records(tmp_path / "empty.zip")) == {"empty.zip": "no-images"}


def test_frames_of_one_archive_and_padding_behind_it(tmp_path, records):
    members = {f"hat/{number}.jpg": JPEG + bytes([number]) for number in range(9)}
    data = tar_of(tmp_path / "whole.tar", members).read_bytes()
    halves = data[:7000], data[7000:]
    (tmp_path / "a.tar.gz").write_bytes(b"".join(map(gzip.compress, halves)) + bytes(512))
    frames = [zstd_of(tmp_path / f"{n}.zst", half) for n, half in enumerate(halves)]
    (tmp_path / "a.tar.zst").write_bytes(b"".join(frame.read_bytes() for frame in frames))
    for name in ("a.tar.gz", "a.tar.zst"):
        results = records(tmp_path / name)
        assert len(kept(results)) == 9 and not reasons(results)


def test_a_zip_that_is(tmp_path, records, monkeypatch):
    members = {f"hat/{number}.jpg": JPEG * (number + 1) for number in range(4)}
    path = zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = [match for match in range(len(data)) if data[match : match + 4] == b"PK\1\2"]
    struct.pack_into("<L", data, at[0] + 24, 10)  # more is packed than declared
    struct.pack_into("<L", data, at[1] + 24, 2**32 - 2)  # as large as a bomb
    struct.pack_into("<L", data, at[2] + 16, 123)  # another checksum
    struct.pack_into("<L", data, at[3] + 42, 5)  # no header there
    path.write_bytes(data)
    results = records(path)
    assert [reason for reason, _, _ in results.values()] == [
        "damaged-record",
        "file-too-large",
        "damaged-record",
        "damaged-record",
    ]
    assert results["a.zip/hat/2.jpg"][2] == JPEG * 3
    assert zlib.decompress(results["a.zip/hat/0.jpg"][2], -15) == JPEG


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_methods(method, tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": JPEG, "hat/2.jpg": JPEG + b"2"}, method)
    assert [data for data, _ in kept(records(path)).values()] == [JPEG, JPEG + b"2"]


def test_an_encrypted_zip_and_one_that_unpacks_itself(tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": JPEG, "hat/2.jpg": JPEG + b"2"})
    data = bytearray(b"#!/bin/sh\nunpack\n" + path.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    results = records(path, source="zip")
    assert results["a.zip/hat/1.jpg"][0] == "encrypted"
    assert results["a.zip/hat/1.jpg"][2] == JPEG
    assert results["a.zip/hat/2.jpg"].data == JPEG + b"2"


def test_a_large_zip_and_windows_names(tmp_path, records, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("hat/1.jpg", "hat\\2.jpg"):
            info = zipfile.ZipInfo(name)
            info.create_system, info.filename = 0, name
            with archive.open(info, "w", force_zip64=True) as file:
                file.write(JPEG)
    assert list(kept(records(tmp_path / "a.zip"))) == ["a.zip/hat/1.jpg", "a.zip/hat/2.jpg"]


def test_a_zip_without_its_end(tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": JPEG})
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    assert records(path)["a.zip"] == ("not-a-zip", "it has no directory at its end", data[:-30])
    damaged = bytearray(data)
    damaged[data.index(b"PK\1\2")] = 0
    path.write_bytes(damaged)
    results = records(path)
    assert results["a.zip"][0] == "damaged-archive" and results["a.zip"][2] == damaged


def test_the_whole_pipeline_loses_nothing(make_images, build, tmp_path):
    members = {f"p/{name}": data for name, data in files_of(make_images(9)).items()}
    members |= {"p/class0/broken.jpg": b"broken", "../evil.jpg": b"evil", "p/class1/dup.jpg": b""}
    members["p/class1/dup.jpg"] = members["p/class1/001.jpg"]
    path = tar_of(tmp_path / "tars" / "a.tar.gz", members, "w:gz")
    path.write_bytes(path.read_bytes()[:-12])
    (tmp_path / "tars" / "notes.json").write_text(json.dumps({}))
    ledger = build(tmp_path / "tars", source="tar").manifest.ledger
    assert (ledger.read, ledger.kept, ledger.duplicates) == (14, 9, 1)
    assert ledger.reasons == {
        "not-an-image": 1,
        "unsafe-member": 1,
        "damaged-archive": 1,
        "not-a-tar": 1,
    }
