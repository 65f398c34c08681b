"""Archives as people really make them: nothing in them leaves them, and nothing is lost."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from shard_format import InputError

from .conftest import JPEG, kept, reasons, tar_of, zip_of, zstd_of


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
            "0.jpg": JPEG,
            "0.cls": b"7\n",
            "dir.d/1.png": JPEG + b"1",
            "dir.d/1.json": b'{"label": "hat", "writer": 3, "fold": "val"}',
            "2.txt": b"shoe",
            "2.JPG": JPEG + b"2",
            "3.seg.png": b"a mask",
            "3.jpeg": JPEG + b"3",
            "3.cls": "hüte".encode(),
            "3.npy": b"numbers",
        }
    )
    results = records(archive, group_by="writer")
    assert kept(results) == {
        f"{archive.name}/0.jpg": (JPEG, "7"),
        f"{archive.name}/dir.d/1.png": (JPEG + b"1", "hat"),
        f"{archive.name}/2.JPG": (JPEG + b"2", "shoe"),
        f"{archive.name}/3.jpeg": (JPEG + b"3", "hüte"),
    }
    assert results[f"{archive.name}/dir.d/1.png"].group == "3"
    assert records.ignored == [f"{archive.name}/3.seg.png", f"{archive.name}/3.npy"]
    results = records(archive, split="column:fold")
    assert results[f"{archive.name}/dir.d/1.png"].split == "validation"
    assert reasons(results)[f"{archive.name}/0.jpg"] == "no-split"


def test_webdataset_records_that_are_none(pack, records):
    archive = pack(
        {
            "0.jpg": JPEG,
            "0.png": JPEG + b"0",
            "0.cls": b"7",
            "1.jpg": JPEG + b"1",
            "2.cls": b"2",
            "2.json": b"{}",
            "3.jpg": JPEG + b"3",
            "3.json": b"{not json",
            "4.jpg": JPEG + b"4",
            "4.json": b"[1]",
            "5.jpg": JPEG + b"5",
            "5.cls": b"\xff\xfe",
            "6.jpg": JPEG + b"6",
            "6.json": b'{"label": ["a", "b"]}',
            "7.jpg": JPEG + b"7",
            "7.json": b'{"label": "\\ud800"}',
            "8.jpg": JPEG + b"8",
            "8.json": b'{"label": {"deep": 1}}',
        }
    )
    results = records(archive)
    assert {name.split("/")[1]: reason for name, reason in reasons(results).items()} == {
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
    for name, (_, _, data) in results.items():
        number = name.split("/")[1][:1].encode()
        assert data in (JPEG, JPEG + number, b"2", b"{}")
    both = records(archive, multi_label=True)[f"{archive.name}/6.jpg"]
    assert both.label == "a\x1fb"


def test_a_key_that_was_asked_for_is_the_label_and_not_cls(pack, records):
    archive = pack(
        {
            "0.jpg": JPEG + b"0",
            "0.cls": b"7",
            "0.json": b'{"name": "hat", "label": "other"}',
            "1.jpg": JPEG + b"1",
            "1.cls": b"8",
        }
    )
    for options, labels in [({}, ["7", "8"]), ({"label_column": "name"}, ["hat", "8"])]:
        assert [label for _, label in kept(records(archive, **options)).values()] == labels


def test_without_labels_every_image_is_taken(pack, records):
    archive = pack({"0.jpg": JPEG, "0.png": JPEG + b"0", "0.txt": b"x", "1.jpg": b"1"})
    results = records(archive, no_labels=True)
    assert [name.split("/")[1] for name in kept(results)] == ["0.jpg", "0.png", "1.jpg"]
    assert not reasons(results)


def test_class_folders_inside(pack, records):
    archive = pack(
        {
            "./hat/deep/1.jpg": JPEG,
            "shoe/1.jpg": JPEG + b"1",
            "shoe//2.jpg": JPEG + b"2",
            "top.jpg": JPEG,
            "hat/._1.jpg": b"AppleDouble",
            "__MACOSX/hat/1.jpg": b"x",
            "annotations.json": b"{}",
        }
    )
    results = records(archive)
    assert {name: label for name, (_, label) in kept(results).items()} == {
        f"{archive.name}/hat/deep/1.jpg": "hat",
        f"{archive.name}/shoe/1.jpg": "shoe",
        f"{archive.name}/shoe/2.jpg": "shoe",
    }
    assert set(reasons(results).values()) == {"no-class-folder"}
    assert len(records.ignored) == 2
    with pytest.raises(InputError, match=r"a\..* has no \.json files.*'writer'"):
        records(archive, group_by="writer")


def test_the_folder_around_all_others_is_no_class(pack, records):
    archive = pack({"photos/hat/1.jpg": JPEG, "photos/shoe/a/2.jpg": JPEG})
    assert sorted(label for _, label in kept(records(archive)).values()) == ["hat", "shoe"]
    archive = pack({"train/hat/1.jpg": JPEG, "val/hat/2.jpg": JPEG}, "b")
    results = records(archive, split="folders")
    assert [(raw.split, raw.label) for raw in results.values()] == [
        ("train", "hat"),
        ("validation", "hat"),
    ]
    archive = pack({"test/hat/1.jpg": JPEG, "test/shoe/2.jpg": JPEG}, "c")
    assert {raw.split for raw in records(archive, split="folders").values()} == {"test"}
    archive = pack({"hat/1.jpg": JPEG}, "train-0")
    assert {raw.split for raw in records(archive, split="folders").values()} == {"train"}


def test_names_that_are_odd_or_equal(pack, records):
    names = ["two words", "new\nline", "ünïcode", "\N{CAT}", "%s{}'\"", "pipe|=", "a+b:c,d"]
    archive = pack({f"{name}/{name}.jpg": JPEG + name.encode() for name in names})
    results = kept(records(archive))
    assert [label for _, label in results.values()] == names
    assert [data for data, _ in results.values()] == [JPEG + name.encode() for name in names]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_equal_names_are_reported_apart(kind, tmp_path, records):
    path = tmp_path / f"a.{kind}"
    with pytest.warns(UserWarning) if kind == "zip" else tarfile.open(path, "w") as archive:
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                for number in range(3):
                    archive.writestr("hat/1.jpg", JPEG + bytes([number]))
        else:
            for number in range(3):
                info = tarfile.TarInfo("hat/1.jpg" if number else "./hat/1.jpg")
                info.size = len(JPEG) + 1
                archive.addfile(info, io.BytesIO(JPEG + bytes([number])))
    assert kept(records(path)) == {
        f"a.{kind}/hat/1.jpg": (JPEG + b"\0", "hat"),
        f"a.{kind}/hat/1.jpg//2": (JPEG + b"\1", "hat"),
        f"a.{kind}/hat/1.jpg//3": (JPEG + b"\2", "hat"),
    }


def test_a_name_that_is_no_utf8(tmp_path, records):
    with tarfile.open(
        tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1"
    ) as archive:
        for name in ("hat/\xe9.jpg", "hat/a//xe9.jpg"):
            info = tarfile.TarInfo(name)
            info.size = len(JPEG)
            archive.addfile(info, io.BytesIO(JPEG))
    assert list(records(tmp_path / "a.tar")) == ["a.tar/hat///xe9.jpg", "a.tar/hat/a/xe9.jpg"]


def test_nothing_leaves_the_archive(pack, records):
    members = {
        "../../etc/cron.d/x": b"evil",
        "/etc/passwd": b"root",
        "hat/../../x.jpg": JPEG,
        "hat/fine.jpg": JPEG,
        "..": b"dots",
    }
    archive = pack(members)
    results = records(archive)
    assert len(results) == 5
    assert list(kept(results)) == [f"{archive.name}/hat/fine.jpg"]
    for name in results:
        assert ".." not in name.split("/") and not name.startswith("/")
        if not name.endswith("fine.jpg"):
            reason, detail, data = results[name]
            assert (reason, data) == ("unsafe-member", members[detail.split("'")[1]])


def test_links_and_devices_are_refused(tmp_path, records):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        kinds = {"s": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "c": tarfile.CHRTYPE}
        for name, kind in (kinds | {"b": tarfile.BLKTYPE, "p": tarfile.FIFOTYPE}).items():
            info = tarfile.TarInfo(f"hat/{name}.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("hat/empty.jpg"))
    results = records(tmp_path / "a.tar")
    assert set(reasons(results).values()) == {"unsafe-member"} and len(reasons(results)) == 5
    assert all(results[name][2] is None for name in reasons(results))
    assert kept(results) == {"a.tar/hat/empty.jpg": (b"", "hat")}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("hat/s.jpg")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert records(tmp_path / "a.zip")["a.zip/hat/s.jpg"][2] == b"/etc/passwd"
