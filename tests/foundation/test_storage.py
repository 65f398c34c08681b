"""The storage layer: what its interface promises, of every kind of storage."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from foundation import storage
from shard_format import UsageError


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path, memory):
    return tmp_path if request.param == "local" else storage.Url("memory://bucket")


def _names(root):
    return sorted(entry.name for entry in storage.list_folder(root))


def test_a_file_is_written_whole_and_read_in_ranges(root):
    place = root / "file"
    storage.write_bytes(place, bytes(range(100)), durable=True)
    assert storage.read_bytes(place) == bytes(range(100))
    assert storage.read_range(place, 10, 5) == bytes(range(10, 15))
    assert storage.read_range(place, 95, 10) == bytes(range(95, 100))  # it ends before
    assert list(storage.read_ranges(place, [(50, 1), (0, 2)])) == [b"\x32", b"\0\1"]
    with storage.open_input(place) as file:
        file.seek(98)
        assert file.read() == b"bc"


def test_a_file_appears_at_the_end_or_not_at_all(root):
    place = root / "file"
    with storage.create(place) as file:
        file.write(b"one")
        assert storage.stat(place) is None
    assert storage.stat(place).size == 3
    with pytest.raises(KeyError), storage.create(place) as file:
        file.write(b"another one")
        raise KeyError
    assert storage.read_bytes(place) == b"one"
    assert _names(root) == ["file"]


def test_a_file_is_replaced_unless_only_a_new_one_is_wanted(root):
    place = root / "file"
    storage.write_bytes(place, b"one", if_absent=True)
    with pytest.raises(FileExistsError):
        storage.write_bytes(place, b"two", if_absent=True)
    assert storage.read_bytes(place) == b"one"
    storage.write_bytes(place, b"two")
    assert storage.read_bytes(place) == b"two"
    assert _names(root) == ["file"]


def test_one_of_many_creates_a_file(root):
    won = []

    def race(number):
        try:
            storage.write_bytes(root / "lease", b"%d" % number, if_absent=True)
        except FileExistsError:
            return
        won.append(b"%d" % number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [storage.read_bytes(root / "lease")]


def test_a_folder_is_listed_one_level_deep(root):
    for name in ("b", "a", "folder/c", "folder/deep/d"):
        storage.make_folder((root / name).parent)
        storage.write_bytes(root / name, b"123")
    entries = sorted(storage.list_folder(root))
    assert [(entry.name, entry.kind) for entry in entries] == [
        ("a", storage.FILE),
        ("b", storage.FILE),
        ("folder", storage.FOLDER),
    ]
    assert [entry.stat.size for entry in entries[:2]] == [3, 3]
    assert entries[0].stat == storage.stat(root / "a")
    assert storage.stat(root / "folder") is None
    assert [storage.is_folder(root / name) for name in ("a", "folder", "nothing")] == [0, 1, 0]


def test_files_and_folders_are_deleted(root):
    storage.make_folder(root / "folder")
    for name in ("one", "folder/two", "folder/three"):
        storage.write_bytes(root / name, b"")
    storage.delete(root / "one")
    storage.delete(root / "one")
    assert _names(root) == ["folder"]
    storage.delete_tree(root / "folder")
    storage.delete_tree(root / "folder")
    assert _names(root) == []


def test_what_is_not_there_is_said_in_one_way(root):
    for read in (
        storage.read_bytes,
        storage.open_input,
        lambda place: storage.read_range(place, 0, 1),
        lambda place: storage.read_file(place, 1, 1),
        lambda place: storage.open_random(place).read_at(0, 1),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            read(root / "nothing")
        assert str(caught.value.filename) == str(root / "nothing")
    assert storage.stat(root / "nothing") is None


def test_arrow_writes_and_reads(root):
    table = pa.table({"n": range(1000), "text": ["word"] * 1000})
    with storage.create_arrow(root / "t", durable=True) as sink:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    assert pa.ipc.open_file(storage.open_arrow(root / "t")).read_all() == table
    assert _names(root) == ["t"]


def test_a_local_file_waits_in_the_scratch_folder(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with storage.create(tmp_path / "file", scratch=scratch) as file:
        file.write(b"1")
        assert _names(tmp_path) == ["scratch"] and len(_names(scratch)) == 1
    assert _names(tmp_path) == ["file", "scratch"] and not _names(scratch)


def test_a_missing_folder_is_an_error_and_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.write_bytes(tmp_path / "gone" / "file", b"")
    assert _names(tmp_path) == []


def test_a_link_that_leads_nowhere_is_listed_and_is_no_file(tmp_path):
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    (entry,) = storage.list_folder(tmp_path)
    assert (entry.name, entry.kind, entry.is_link) == ("link", storage.OTHER, True)
    assert storage.stat(tmp_path / "link") is None


def test_kinds_of_local_entries(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"1")
    for name in ("pipe", "folder", "file"):
        os.symlink(tmp_path / name, tmp_path / f"{name}-link")
    kinds = {"pipe": storage.OTHER, "folder": storage.FOLDER, "file": storage.FILE}
    for entry in storage.list_folder(tmp_path):
        name = entry.name.removesuffix("-link")
        assert (entry.kind, entry.is_link) == (kinds[name], name != entry.name)


def test_what_cannot_be_looked_at_is_listed(tmp_path, monkeypatch):
    """It must not vanish from a corpus because a file system fails for a moment."""
    (tmp_path / "file").write_bytes(b"1")
    scandir = os.scandir

    class Failing:
        def __init__(self, entry):
            self.name, self.is_symlink = entry.name, entry.is_symlink

        def stat(self):
            raise OSError(5, "Input/output error")

    @contextlib.contextmanager
    def failing(folder):
        with scandir(folder) as entries:
            yield map(Failing, entries)

    monkeypatch.setattr(os, "scandir", failing)
    assert [(e.name, e.kind) for e in storage.list_folder(tmp_path)] == [("file", storage.UNKNOWN)]


def test_a_file_is_read_at_any_place(root):
    place = root / "file"
    storage.write_bytes(place, bytes(range(100)))
    file = storage.open_random(place)
    assert (file.size, file.read_at(98, 10), file.read_at(100, 1)) == (100, b"bc", b"")
    buffer = bytearray(4)
    assert (file.read_into(97, memoryview(buffer)), bytes(buffer)) == (3, b"abc\0")
    file.close()


@pytest.mark.parametrize("listed", [0, 99, 100, 1000])
def test_a_small_file_is_read_whole_whatever_was_listed(root, listed):
    place = root / "file"
    storage.write_bytes(place, bytes(range(100)))
    assert storage.read_file(place, listed, 1000) == bytes(range(100))


def test_a_place_is_a_path_or_a_url(memory):
    assert storage.place_of("a/b") == storage.Path("a/b")
    assert storage.place_of("file:///a%20b/c") == storage.Path("/a b/c")
    url = storage.place_of("memory://bucket/folder/") / "file"
    assert (str(url), url.name, str(url.parent)) == (
        "memory://bucket/folder/file",
        "file",
        "memory://bucket/folder",
    )
    assert storage.local_path(url) is None
    assert storage.local_path(storage.Path("a")) == storage.Path("a")


@pytest.mark.parametrize("text", ["oss://bucket/set", "FTP://bucket"])
def test_an_unknown_scheme_names_those_there_are(text):
    with pytest.raises(
        UsageError, match=r"No storage for \w+://.*begins with file://, gs://, s3://"
    ):
        storage.place_of(text)
    with pytest.raises(UsageError, match="No storage"):
        storage.read_bytes(storage.Url(text))


def test_a_file_url_names_this_machine():
    with pytest.raises(UsageError, match="names the host 'elsewhere'"):
        storage.place_of("file://elsewhere/set")


@pytest.mark.parametrize("there", [True, False])
def test_a_durable_file_goes_to_the_disk_while_it_is_written(tmp_path, monkeypatch, there):
    """Where the system can be asked to; elsewhere fsync does it all."""
    begun = []

    def begin(descriptor, *_):
        begun.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr("foundation.storage.local._sync_file_range", begin if there else None)
    with storage.create(tmp_path / "file", durable=True) as file:
        for _ in range(8):
            file.write(bytes(1 << 20))
        # The last MiB is still in the buffer.
        assert begun == ([size << 20 for size in range(1, 8)] if there else [])
    assert storage.stat(tmp_path / "file").size == 8 << 20
    storage.write_bytes(tmp_path / "other", bytes(8 << 20))
    assert len(begun) <= 8  # without `durable`, the system decides


def test_times_fit_into_an_int64():
    """Usual ones stay what they are, and none becomes that of another one of today."""
    usual = [0, 1, -1, 1_700_000_000_123_456_789, (1 << 63) - 1, -(1 << 63)]
    assert [storage.Stat.of(7, time) for time in usual] == [(7, time) for time in usual]
    others = [1 << 63, 10**19, 13 * 10**18, -(1 << 63) - 1, 1 << 80]
    times = [storage.Stat.of(7, time).mtime_ns for time in others]
    assert len({*times}) == len(others)
    assert all(-(1 << 63) <= time < 1 << 63 for time in times)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("s3:/bucket/set", "Write s3://bucket/set. "),
        ("gs:bucket/set", "Write gs://bucket/set. "),
        ("S3:", "Write s3://BUCKET/FOLDER. "),
        ("file:/data/set", "Write file:///data/set. "),
        ("hdfs:/host/set", "Write hdfs://host/set. "),
        ("ftp:/host/set", ""),
        ("C:/set", ""),
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_what_begins_like_a_url_is_no_path(kind, text, remedy):
    """A folder of this name appeared; pathlib makes it of a URL, too."""
    message = f"{text} begins like a URL, which has '://' behind its scheme. {remedy}A local path"
    with pytest.raises(UsageError, match=re.escape(message)):
        storage.place_of(kind(text))
    whole = Path.cwd() / text
    assert storage.place_of(kind(whole)) == whole


@pytest.mark.parametrize("text", ["s3://", "gs:///set", "abfs://", "s3:///"])
def test_a_url_without_a_bucket(text):
    scheme = text.partition(":")[0]
    with pytest.raises(UsageError, match=f"names no bucket. Write {scheme}://BUCKET"):
        storage.place_of(text)


def test_a_url_of_hdfs_without_a_host():
    assert str(storage.place_of("hdfs:///folder")) == "hdfs:///folder"
    with pytest.raises(UsageError, match="names no host"):
        storage.place_of("hdfs://")


def test_names_with_a_colon_are_paths():
    for text in ("a:b", "2026-11-23T10:00/set", "./s3:/set", "a/s3:/b", "no_scheme:/x"):
        assert storage.place_of(text) == Path(text)


def test_a_local_place(tmp_path):
    assert storage.local_place_of(tmp_path) == tmp_path
    assert storage.local_place_of(f"file://{tmp_path}") == tmp_path
    for text in ("s3://bucket/run", "s3:/bucket/run", "ftp://host/run"):
        with pytest.raises(UsageError, match="can only be a local file or folder"):
            storage.local_place_of(text)
