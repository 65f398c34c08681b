"""Archives as people really make them: nothing in them leaves them, and nothing is lost."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tarfile
import zipfile
import zlib

import pyarrow as pa
import pytest

from shard_format import InputError

from .conftest import files_of, kept, reasons, tar_of, zstd_of

PICTURE = b"\xff\xd8\xff" + bytes(range(250)) * 8  # begins as a JPEG does


def zip_of(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.fixture(params=["tar", "tar.gz", "tar.zst", "zip"])
def pack(request, tmp_path):
    """Packs members into an archive of each kind."""

    def make(members, name="a"):
        path = tmp_path / f"{name}.{request.param}"
        if request.param == "zip":
            return zip_of(path, members)
        if request.param == "tar.zst":
            return zstd_of(path, tar_of(tmp_path / "plain", members).read_bytes())
        return tar_of(path, members, "w:gz" if request.param == "tar.gz" else "w")

    return make


def test_webdataset_members_of_one_key_are_one_record(pack, records):
    archive = pack(
        {
            "0.jpg": PICTURE,
            "0.cls": b"7\n",
            "dir.d/1.png": PICTURE + b"1",
            "dir.d/1.json": b'{"label": "hat", "writer": 3, "fold": "val"}',
            "2.txt": b"shoe",
            "2.JPG": PICTURE + b"2",
            "3.seg.png": b"a mask",
            "3.jpeg": PICTURE + b"3",
            "3.cls": "hüte".encode(),
            "3.npy": b"numbers",
        }
    )
    found = records(archive, group_by="writer")
    assert kept(found) == {
        f"{archive.name}/0.jpg": (PICTURE, "7"),
        f"{archive.name}/dir.d/1.png": (PICTURE + b"1", "hat"),
        f"{archive.name}/2.JPG": (PICTURE + b"2", "shoe"),
        f"{archive.name}/3.jpeg": (PICTURE + b"3", "hüte"),
    }
    assert found[f"{archive.name}/dir.d/1.png"].group == "3"
    assert records.ignored == [f"{archive.name}/3.seg.png", f"{archive.name}/3.npy"]
    found = records(archive, split="column:fold")
    assert found[f"{archive.name}/dir.d/1.png"].split == "validation"
    assert reasons(found)[f"{archive.name}/0.jpg"] == "no-split"


def test_webdataset_records_that_are_none(pack, records):
    archive = pack(
        {
            "0.jpg": PICTURE,
            "0.png": PICTURE + b"0",
            "0.cls": b"7",
            "1.jpg": PICTURE + b"1",
            "2.cls": b"2",
            "2.json": b"{}",
            "3.jpg": PICTURE + b"3",
            "3.json": b"{not json",
            "4.jpg": PICTURE + b"4",
            "4.json": b"[1]",
            "5.jpg": PICTURE + b"5",
            "5.cls": b"\xff\xfe",
            "6.jpg": PICTURE + b"6",
            "6.json": b'{"label": ["a", "b"]}',
            "7.jpg": PICTURE + b"7",
            "7.json": b'{"label": "\\ud800"}',
            "8.jpg": PICTURE + b"8",
            "8.json": b'{"label": {"deep": 1}}',
        }
    )
    found = records(archive)
    assert {name.split("/")[1]: reason for name, reason in reasons(found).items()} == {
        "0.jpg": "several-pictures",
        "0.png": "several-pictures",
        "1.jpg": "no-companion",
        "2.cls": "no-picture",
        "2.json": "no-picture",
        "3.jpg": "bad-companion",
        "4.jpg": "bad-companion",
        "5.jpg": "bad-label",
        "6.jpg": "several-labels",
        "7.jpg": "bad-label",
        "8.jpg": "bad-label",
    }
    for name, (_, _, data) in found.items():
        number = name.split("/")[1][:1].encode()
        assert data in (PICTURE, PICTURE + number, b"2", b"{}")
    both = records(archive, multi_label=True)[f"{archive.name}/6.jpg"]
    assert both.label == "a\x1fb"


def test_without_labels_every_picture_is_taken(pack, records):
    archive = pack({"0.jpg": PICTURE, "0.png": PICTURE + b"0", "0.txt": b"x", "1.jpg": b"1"})
    found = records(archive, no_labels=True)
    assert [name.split("/")[1] for name in kept(found)] == ["0.jpg", "0.png", "1.jpg"]
    assert not reasons(found)


def test_class_folders_inside(pack, records):
    archive = pack(
        {
            "./hat/deep/1.jpg": PICTURE,
            "shoe/1.jpg": PICTURE + b"1",
            "shoe//2.jpg": PICTURE + b"2",
            "top.jpg": PICTURE,
            "hat/._1.jpg": b"AppleDouble",
            "__MACOSX/hat/1.jpg": b"x",
            "annotations.json": b"{}",
        }
    )
    found = records(archive)
    assert {name: label for name, (_, label) in kept(found).items()} == {
        f"{archive.name}/hat/deep/1.jpg": "hat",
        f"{archive.name}/shoe/1.jpg": "shoe",
        f"{archive.name}/shoe/2.jpg": "shoe",
    }
    assert set(reasons(found).values()) == {"no-class-folder"}
    assert len(records.ignored) == 2
    with pytest.raises(InputError, match=r"'writer' and none of them in a\."):
        records(archive, group_by="writer")


def test_the_folder_around_all_others_is_no_class(pack, records):
    archive = pack({"photos/hat/1.jpg": PICTURE, "photos/shoe/a/2.jpg": PICTURE})
    assert sorted(label for _, label in kept(records(archive)).values()) == ["hat", "shoe"]
    archive = pack({"train/hat/1.jpg": PICTURE, "val/hat/2.jpg": PICTURE}, "b")
    found = records(archive, split="folders")
    assert [(raw.split, raw.label) for raw in found.values()] == [
        ("train", "hat"),
        ("validation", "hat"),
    ]
    archive = pack({"test/hat/1.jpg": PICTURE, "test/shoe/2.jpg": PICTURE}, "c")
    assert {raw.split for raw in records(archive, split="folders").values()} == {"test"}
    archive = pack({"hat/1.jpg": PICTURE}, "train-0")
    assert {raw.split for raw in records(archive, split="folders").values()} == {"train"}


def test_names_that_are_odd_or_equal(pack, records):
    names = ["two words", "new\nline", "ünïcode", "\N{CAT}", "%s{}'\"", "pipe|=", "a+b:c,d"]
    archive = pack({f"{name}/{name}.jpg": PICTURE + name.encode() for name in names})
    found = kept(records(archive))
    assert [label for _, label in found.values()] == names
    assert [data for data, _ in found.values()] == [PICTURE + name.encode() for name in names]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_equal_names_are_told_apart(kind, tmp_path, records):
    path = tmp_path / f"a.{kind}"
    with pytest.warns(UserWarning) if kind == "zip" else tarfile.open(path, "w") as archive:
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                for number in range(3):
                    archive.writestr("hat/1.jpg", PICTURE + bytes([number]))
        else:
            for number in range(3):
                info = tarfile.TarInfo("hat/1.jpg" if number else "./hat/1.jpg")
                info.size = len(PICTURE) + 1
                archive.addfile(info, io.BytesIO(PICTURE + bytes([number])))
    assert kept(records(path)) == {
        f"a.{kind}/hat/1.jpg": (PICTURE + b"\0", "hat"),
        f"a.{kind}/hat/1.jpg//2": (PICTURE + b"\1", "hat"),
        f"a.{kind}/hat/1.jpg//3": (PICTURE + b"\2", "hat"),
    }


def test_a_name_that_is_no_utf8(tmp_path, records):
    with tarfile.open(
        tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1"
    ) as archive:
        for name in ("hat/\xe9.jpg", "hat/a//xe9.jpg"):
            info = tarfile.TarInfo(name)
            info.size = len(PICTURE)
            archive.addfile(info, io.BytesIO(PICTURE))
    assert list(records(tmp_path / "a.tar")) == ["a.tar/hat///xe9.jpg", "a.tar/hat/a/xe9.jpg"]


def test_nothing_leaves_the_archive(pack, records):
    members = {
        "../../etc/cron.d/x": b"evil",
        "/etc/passwd": b"root",
        "hat/../../x.jpg": PICTURE,
        "hat/fine.jpg": PICTURE,
        "..": b"dots",
    }
    archive = pack(members)
    found = records(archive)
    assert len(found) == 5
    assert list(kept(found)) == [f"{archive.name}/hat/fine.jpg"]
    for name in found:
        assert ".." not in name.split("/") and not name.startswith("/")
        if not name.endswith("fine.jpg"):
            reason, detail, data = found[name]
            assert (reason, data) == ("unsafe-member", members[detail.split("'")[1]])


def test_links_and_devices_are_refused(tmp_path, records):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        kinds = {"s": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "c": tarfile.CHRTYPE}
        for name, kind in (kinds | {"b": tarfile.BLKTYPE, "p": tarfile.FIFOTYPE}).items():
            info = tarfile.TarInfo(f"hat/{name}.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("hat/empty.jpg"))
    found = records(tmp_path / "a.tar")
    assert set(reasons(found).values()) == {"unsafe-member"} and len(reasons(found)) == 5
    assert all(found[name][2] is None for name in reasons(found))
    assert kept(found) == {"a.tar/hat/empty.jpg": (b"", "hat")}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("hat/s.jpg")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert records(tmp_path / "a.zip")["a.zip/hat/s.jpg"][2] == b"/etc/passwd"


@pytest.mark.parametrize("compress", [None, "gzip", "zstd", "bz2", "xz"])
@pytest.mark.parametrize("keep", [0.99, 0.59, 0.31, 0.02])
def test_a_truncated_archive_gives_what_is_there(compress, keep, tmp_path, records):
    noise = random.Random(1)
    members = {f"hat/{number}.jpg": noise.randbytes(3000) for number in range(40)}
    data = tar_of(tmp_path / "whole.tar", members).read_bytes()[: 40 * 3584]
    if compress:
        sink = pa.BufferOutputStream()
        if compress == "xz":
            import lzma

            data = lzma.compress(data)
        else:
            with pa.CompressedOutputStream(sink, compress) as stream:
                stream.write(data)
            data = sink.getvalue().to_pybytes()
    path = tmp_path / "cut.tar"
    path.write_bytes(data[: int(len(data) * keep)])
    found = records(path)
    there = kept(found)
    for name, (picture, label) in there.items():
        assert (picture, label) == (members[name.removeprefix("cut.tar/")], "hat")
    reason, detail, rest = found["cut.tar"]
    assert list(found)[-1] == "cut.tar" and rest is not None
    if not there:
        assert reason == "not-a-tar"
        return
    assert reason == "damaged-archive" and "from byte" in detail
    # gzip gives its data in small blocks, the others in large ones.
    assert len(there) >= 40 * keep - {None: 1, "gzip": 8}.get(compress, 40)
    if not compress:
        assert rest == data[len(there) * 3584 : int(len(data) * keep)]


def test_damage_in_the_middle_loses_no_neighbour(tmp_path, records):
    members = {f"hat/{number}.jpg": PICTURE + bytes([number]) for number in range(9)}
    path = tar_of(tmp_path / "a.tar", members)
    data = bytearray(path.read_bytes())
    for number in (3, 6):
        data[number * 2560 + 130] ^= 1
    path.write_bytes(data)
    found = records(path)
    assert len(kept(found)) == 7
    _, detail, lost = found["a.tar"]
    assert "from byte 7680 on 2560 bytes" in detail and "1 more" in detail
    assert lost == data[7680:10240] + data[15360:17920]


def test_a_flipped_bit_in_a_compressed_archive(tmp_path, records):
    noise = random.Random(1)
    members = {f"hat/{number}.jpg": noise.randbytes(3000) for number in range(200)}
    whole = tar_of(tmp_path / "a.tar.gz", members, "w:gz").read_bytes()
    for at in (0.3, 0.7, 0.999):
        data = bytearray(whole)
        data[int(len(data) * at)] ^= 4
        (tmp_path / "a.tar.gz").write_bytes(data)
        found = records(tmp_path / "a.tar.gz")
        assert "a.tar.gz" in reasons(found)
        assert len(found) >= 2


def test_other_files_and_empty_archives(tmp_path, records):
    tar_of(tmp_path / "tars" / "a.tar", {"hat/1.jpg": PICTURE})
    tar_of(tmp_path / "tars" / "empty.tar", {})
    (tmp_path / "tars" / "nothing.tar").write_bytes(b"")
    (tmp_path / "tars" / "README.md").write_text("# Tars")
    (tmp_path / "tars" / "bad.tar").write_text("no tar at all")
    (tmp_path / "tars" / "bad.tar.gz").write_bytes(gzip.compress(b"no tar at all"))
    found = records(tmp_path / "tars", source="tar")
    assert reasons(found) == {
        "README.md": "not-a-tar",
        "bad.tar": "not-a-tar",
        "bad.tar.gz": "not-a-tar",
    }
    assert found["README.md"][2] == b"# Tars"
    assert len(kept(found)) == 1
    os.mkfifo(tmp_path / "pipe.tar")
    assert reasons(records(tmp_path / "pipe.tar", source="tar")) == {"pipe.tar": "not-a-file"}
    zip_of(tmp_path / "empty.zip", {})
    assert records(tmp_path / "empty.zip") == {}


def test_frames_of_one_archive_and_padding_behind_it(tmp_path, records):
    members = {f"hat/{number}.jpg": PICTURE + bytes([number]) for number in range(9)}
    data = tar_of(tmp_path / "whole.tar", members).read_bytes()
    halves = data[:7000], data[7000:]
    (tmp_path / "a.tar.gz").write_bytes(b"".join(map(gzip.compress, halves)) + bytes(512))
    frames = [zstd_of(tmp_path / f"{n}.zst", half) for n, half in enumerate(halves)]
    (tmp_path / "a.tar.zst").write_bytes(b"".join(frame.read_bytes() for frame in frames))
    for name in ("a.tar.gz", "a.tar.zst"):
        found = records(tmp_path / name)
        assert len(kept(found)) == 9 and not reasons(found)


def test_a_zip_that_lies(tmp_path, records, monkeypatch):
    members = {f"hat/{number}.jpg": PICTURE * (number + 1) for number in range(4)}
    path = zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = [match for match in range(len(data)) if data[match : match + 4] == b"PK\1\2"]
    struct.pack_into("<L", data, at[0] + 24, 10)  # more is packed than declared
    struct.pack_into("<L", data, at[1] + 24, 2**32 - 2)  # as large as a bomb
    struct.pack_into("<L", data, at[2] + 16, 123)  # another checksum
    struct.pack_into("<L", data, at[3] + 42, 5)  # no header there
    path.write_bytes(data)
    found = records(path)
    assert [reason for reason, _, _ in found.values()] == [
        "damaged-record",
        "file-too-large",
        "damaged-record",
        "damaged-record",
    ]
    assert found["a.zip/hat/2.jpg"][2] == PICTURE * 3
    assert zlib.decompress(found["a.zip/hat/0.jpg"][2], -15) == PICTURE


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_methods(method, tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": PICTURE, "hat/2.jpg": PICTURE + b"2"}, method)
    assert [data for data, _ in kept(records(path)).values()] == [PICTURE, PICTURE + b"2"]


def test_an_encrypted_zip_and_one_that_unpacks_itself(tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": PICTURE, "hat/2.jpg": PICTURE + b"2"})
    data = bytearray(b"#!/bin/sh\nunpack\n" + path.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    found = records(path, source="zip")
    assert found["a.zip/hat/1.jpg"][0] == "encrypted"
    assert found["a.zip/hat/1.jpg"][2] == PICTURE
    assert found["a.zip/hat/2.jpg"].data == PICTURE + b"2"


def test_a_large_zip_and_windows_names(tmp_path, records, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("hat/1.jpg", "hat\\2.jpg"):
            info = zipfile.ZipInfo(name)
            info.create_system, info.filename = 0, name
            with archive.open(info, "w", force_zip64=True) as file:
                file.write(PICTURE)
    assert list(kept(records(tmp_path / "a.zip"))) == ["a.zip/hat/1.jpg", "a.zip/hat/2.jpg"]


def test_a_zip_without_its_end(tmp_path, records):
    path = zip_of(tmp_path / "a.zip", {"hat/1.jpg": PICTURE})
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    assert records(path)["a.zip"] == ("not-a-zip", "it has no directory at its end", data[:-30])
    damaged = bytearray(data)
    damaged[data.index(b"PK\1\2")] = 0
    path.write_bytes(damaged)
    found = records(path)
    assert found["a.zip"][0] == "damaged-archive" and found["a.zip"][2] == damaged


def test_the_whole_pipeline_loses_nothing(pictures, build, tmp_path):
    members = {f"p/{name}": data for name, data in files_of(pictures(9)).items()}
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
