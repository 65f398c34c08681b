from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reader
from reader.cache.choosing import default_cache_dir, free_disk_bytes
from reader.cache.copying import Copies, Wanted
from reader.cache.store import Store
from shard_format import DamageError, UsageError, load_manifest, verify


def copied(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.glob("*/*tfrecord*")}


def flip(path: Path, place: int = 100) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("special", ["a*[b]?\\c", pytest.param("cache", marks=pytest.mark.proof)])
def test_copies_are_made_while_the_source_is_read(
    tiny: Path, tmp_path: Path, batches: Any, same: Any, special: str
) -> None:
    """Also in a directory whose name is a pattern to TensorFlow."""
    cache = tmp_path / special
    plain, _ = batches(tiny, cache="off")
    with mock.patch("reader.cache.copying._copy", side_effect=OSError("not yet")):
        first, stream = None, None
        with pytest.warns(UserWarning, match=r"is read from its source"), pytest.raises(OSError):
            first, stream = batches(tiny, cache="disk", cache_dir=cache)
    assert first is None and copied(cache) == {}
    during, stream = batches(tiny, cache="disk", cache_dir=cache)
    assert stream.copies[0].error is None
    assert stream.copies[0].copied_bytes == stream.info.stored_bytes
    assert stream.copies[0].total_bytes == stream.info.stored_bytes
    files = [shard.file for shard in load_manifest(tiny).splits["train"].shards]
    assert copied(cache) == {file: (tiny / file).read_bytes() for file in files}
    after, later = batches(tiny, cache="disk", cache_dir=cache)
    assert later.copies == ()
    assert same(plain, during) and same(plain, after)


def test_one_data_set_goes_over_to_the_copies(make_set: Any, tmp_path: Path, same: Any) -> None:
    """Seen by what is in them: the source is made unreadable once they are there."""
    directory = make_set({"train": (20, 20)})
    options = {"batch_size": 10, "image_size": 8, "epochs": 3, "cache_dir": tmp_path / "c"}
    plain = [x.numpy() for x, _ in reader.load(directory, cache="off", **options).dataset]
    stream = reader.load(directory, cache="disk", **options)
    stream.copies[0].wait()
    for shard in directory.glob("*tfrecord*"):
        shard.write_bytes(b"")
    assert same([plain], [[x.numpy() for x, _ in stream.dataset]])


def test_what_does_not_fit_is_read_where_it_is(
    tiny: Path, tmp_path: Path, batches: Any, same: Any
) -> None:
    plain, _ = batches(tiny, cache="off")
    limit = load_manifest(tiny).splits["train"].bytes - 1
    for _ in range(2):
        cached, stream = batches(tiny, cache="disk", cache_dir=tmp_path, cache_limit=limit)
        assert same(plain, cached)
        assert "; 3 of its 4 shards fit into the limit of" in stream.info.cache_reason
        assert len(copied(tmp_path)) == 3
    cached, stream = batches(tiny, cache="disk", cache_dir=tmp_path, cache_limit="1 B")
    assert "; 0 of its 4 shards" in stream.info.cache_reason and same(plain, cached)


def test_what_a_killed_process_left_is_replaced(tiny: Path, tmp_path: Path, batches: Any) -> None:
    manifest = load_manifest(tiny)
    target = tmp_path / manifest.root_hash
    target.mkdir()
    file = manifest.splits["train"].shards[0].file
    (target / f"{file}.part").write_bytes(b"half of it")
    (target / file).write_bytes(b"short")
    batches(tiny, cache="disk", cache_dir=tmp_path)
    assert (target / file).read_bytes() == (tiny / file).read_bytes()
    assert not list(tmp_path.rglob("*.part"))


def test_a_copy_that_was_cut_is_not_read(make_set: Any, tmp_path: Path, batches: Any) -> None:
    """Its name is there all the same, which is what the graph looks at."""
    directory, options = make_set({"train": (20,)}), {"cache": "disk", "cache_dir": tmp_path / "c"}
    plain, _ = batches(directory, 2, **options)
    (copy,) = (tmp_path / "c").glob("*/*tfrecord*")
    copy.write_bytes(copy.read_bytes()[:500])
    options |= {"batch_size": 20, "image_size": 16, "augment": "standard", "seed": 3}
    with mock.patch("reader.cache.copying._copy", side_effect=OSError("not yet")):
        with pytest.warns(UserWarning, match="copying it failed"):
            stream = reader.load(directory, **options)
            images = [image.numpy() for image, _ in stream.dataset.take(2)]
            stream.copies[0]._thread.join()
    assert [image.tolist() for image in images] == [image.tolist() for image, _ in plain]


def test_who_waits_for_the_copy_of_another_process_can_be_stopped(tmp_path: Path) -> None:
    """Else a program would end only when that one has copied its shard, or never."""
    (tmp_path / "source").write_bytes(b"12345")
    with (tmp_path / "copy.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        wanted = Wanted("source", tmp_path / "copy", 5, "")
        copies = Copies(tmp_path, [wanted])
        copies.stop()
        copies._thread.join(timeout=20)
        assert not copies._thread.is_alive()


def test_damage_is_not_cached(make_set: Any, tmp_path: Path, batches: Any) -> None:
    directory = make_set({"train": (25, 25)})
    shard = directory / load_manifest(directory).splits["train"].shards[1].file
    flip(shard)
    options = {"batch_size": 5, "image_size": 8, "cache": "disk", "cache_dir": tmp_path / "c"}
    with (
        pytest.warns(UserWarning, match=r"copying it failed"),
        pytest.raises(DamageError, match=f"SHA-256 differs from the manifest in {shard}"),
    ):
        batches(directory, 0, **options)
    assert len(copied(tmp_path / "c")) == 1


def test_no_room_at_all_is_no_error(tiny: Path, tmp_path: Path, batches: Any, same: Any) -> None:
    usage = mock.Mock(free=1000)
    with mock.patch("shutil.disk_usage", return_value=usage):
        cached, stream = batches(tiny, cache="disk", cache_dir=tmp_path)
    assert "0 of its 4 shards" in stream.info.cache_reason
    assert same(cached, batches(tiny, cache="off")[0])


def test_a_cache_directory_that_cannot_be_made(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"Cannot write to the cache directory"):
        reader.load(tiny, batch_size=4, image_size=8, cache="disk", cache_dir=tmp_path / "file")


@pytest.mark.parametrize("fails", ["fcntl.flock", "os.write"])
def test_a_cache_directory_that_cannot_be_written_to(
    tiny: Path, tmp_path: Path, fails: str
) -> None:
    """It is there, but the disk is full, or its lock is another user's."""
    with (
        mock.patch(fails, side_effect=OSError(errno.ENOSPC, "No space left on device")),
        pytest.raises(
            UsageError, match=r"Cannot write to the cache directory .*No space left on device"
        ),
    ):
        reader.load(tiny, batch_size=4, image_size=8, cache="disk", cache_dir=tmp_path)


def test_a_home_that_may_not_be_looked_into_is_none(tiny: Path, tmp_path: Path) -> None:
    """In a container the user may have no home, or that of root; most streams need none."""
    refused = mock.patch("pathlib.Path.stat", side_effect=PermissionError(errno.EACCES, "denied"))
    with refused:
        assert free_disk_bytes(tmp_path / "private" / "cache") > 0
    homeless = {"XDG_CACHE_HOME": ""}
    with (
        mock.patch("pathlib.Path.home", side_effect=RuntimeError),
        mock.patch.dict(os.environ, homeless),
    ):
        assert default_cache_dir().parent == Path(tempfile.gettempdir())
        reader.load(tiny, batch_size=4, image_size=8, cache="off")


def test_a_lease_lasts_as_long_as_anybody_may_read(tiny: Path, tmp_path: Path) -> None:
    import gc

    stream = reader.load(tiny, batch_size=4, image_size=8, cache="disk", cache_dir=tmp_path)
    stream.copies[0].wait()
    dataset = stream.dataset.map(lambda x, y: y).take(3)
    del stream
    gc.collect()
    assert all(entry.in_use for entry in Store(tmp_path).entries())
    batches = iter(dataset)
    del dataset
    gc.collect()
    assert all(entry.in_use for entry in Store(tmp_path).entries())
    assert len(list(batches)) == 3
    del batches
    gc.collect()
    assert not any(entry.in_use for entry in Store(tmp_path).entries())


def test_a_copy_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(64 << 20))
    wanted = Wanted("source", tmp_path / "copy", 64 << 20, "")
    with mock.patch("reader.cache.copying._BLOCK_BYTES", 1 << 10):
        copies = Copies(tmp_path, [wanted])
        copies.stop()
        copies.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_program_does_not_wait_for_copies_at_its_end(tmp_path: Path) -> None:
    """Nor does it abort: a thread inside PyArrow must not be killed there."""
    program = (
        "import sys, time; from pathlib import Path\n"
        "from reader.cache import copying\n"
        "from foundation import storage\n"
        "class Slow:\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *error): pass\n"
        "    def read(self, size): time.sleep(0.01); return b'x' * 1000\n"
        "class Endless:\n"
        "    def open_input(self, place): return Slow()\n"
        "storage.STORAGES['endless'] = Endless()\n"
        "root = Path(sys.argv[1])\n"
        "wanted = copying.Wanted('source', root / 'copy', 5, '')\n"
        "copies = copying.Copies(storage.place_of('endless://set'), [wanted])\n"
        "time.sleep(0.1)\n"
        "print(copies.copied_bytes > 0)\n"
    )
    (tmp_path / "source").write_bytes(b"12345")
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert "rror" not in done.stderr and "terminate" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_the_copies_of_a_whole_set_are_what_the_manifest_says(
    tiny: Path, tmp_path: Path, batches: Any, remote: Any
) -> None:
    url, _ = remote(tiny)
    for split in ("train", "test"):
        batches(url, split=split, cache="disk", cache_dir=tmp_path)
    manifest, damages = verify(tmp_path / load_manifest(tiny).root_hash)
    assert manifest.root_hash == load_manifest(tiny).root_hash and damages == []


@pytest.mark.parametrize("shuffle", ["window", "full"])
def test_a_window_is_read_from_few_files(
    tiny: Path, batches: Any, same: Any, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    """Few files are open at a time."""
    expected = batches(tiny, cache="off", shuffle=shuffle)[0]
    for name, value in {"_EXPECTED": 2, "_OPEN_FILES": 1}.items():
        monkeypatch.setattr(f"reader.cache.checked_records.{name}", value)
    assert same(batches(tiny, cache="off", shuffle=shuffle)[0], expected)
