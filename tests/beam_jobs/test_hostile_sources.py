"""What went wrong once with sources, found by people who tried to break them."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs.corpus.listing import CorpusListing
from beam_jobs.corpus.reading import CorpusReader
from beam_jobs.corpus.record import LABEL_SEPARATOR
from beam_jobs.images.encode import decode_stored
from beam_jobs.options import ImageOptions
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.list import resolve_options
from shard_format import InputError


def listed(*sources, **options):
    """Every item of the sources."""
    job = resolve_options(ImageOptions(tuple(map(str, sources)), "out", **options))
    roots = [type(sources[0])(path) for path in job.sources]
    extractor = RECORD_TYPES["image"](job).extractor
    return list(CorpusListing(job, extractor, lambda ignored: None).items(roots))


def read(tmp_path, *sources, **options):
    """What reading every item gives."""
    job = resolve_options(ImageOptions(tuple(map(str, sources)), "out", **options))
    extractor = RECORD_TYPES["image"](job).extractor
    with CorpusReader(job, extractor, tmp_path / "scratch") as reader:
        return [one for item in listed(*sources, **options) for one in reader.read(item)]


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize("other", ["photos/LICENSE.txt", "README.md", "photos/labels.csv"])
def test_a_file_next_to_the_class_folders_does_not_make_one_class_of_all(write, other, tmp_path):
    """As in flower_photos.tgz: every image was of the class "photos"."""
    write(tmp_path / "a", {other: b"text", "photos/hat/1.jpg": b"1", "photos/shoe/2.jpg": b"2"})
    items = {item.record_id: item for item in listed(tmp_path / "a")}
    assert items["a/photos/hat/1.jpg"].label == "hat"
    assert items["a/photos/shoe/2.jpg"].label == "shoe"
    assert items[f"a/{other}"].reason == "no-class-folder"


def test_a_file_next_to_the_split_folders_does_not_hide_them(tmp_path):
    members = {"data/README": b"text", "data/train/hat/1.jpg": b"1", "data/val/hat/2.jpg": b"2"}
    write_tar(tmp_path / "a", members)
    pairs = [(item.split, item.label) for item in listed(tmp_path / "a", split="folders")]
    assert pairs == [(None, None), ("train", "hat"), ("validation", "hat")]


def test_the_folder_around_images_without_extension(tmp_path):
    write_tar(tmp_path / "a", {"photos/hat/1": b"1", "photos/shoe/2": b"2"})
    assert [item.label for item in listed(tmp_path / "a")] == ["hat", "shoe"]
    write_tar(tmp_path / "b", {"hat/1.jpg": b"1", "photos/shoe/2.jpg": b"2"})
    assert [item.label for item in listed(tmp_path / "b")] == ["hat", "photos"]


def test_links_in_circles_next_to_images(tmp_path):
    """Looking what lies there raised OSError: too many levels of symbolic links."""
    folder = tmp_path / "corpus" / "hat"
    folder.mkdir(parents=True)
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "loop").symlink_to(".")
    (folder / "self.jpg").symlink_to("self.jpg")
    (folder / "dead.jpg").symlink_to("nowhere")
    reasons = {item.record_id: item.reason for item in listed(folder.parent, split="train=1")}
    assert reasons == {
        "hat/1.jpg": "",
        "hat/dead.jpg": "broken-link",
        "hat/loop": "link-cycle",
        "hat/self.jpg": "broken-link",
    }


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("twice", ["image", "label"])
def test_two_columns_of_one_name_are_reported(form, twice, tmp_path):
    names = ["image", "label", twice]
    values = {"image": pa.array([b"x"]), "label": pa.array(["a"])}
    table = pa.Table.from_arrays([values[name] for name in names], names)
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    (record,) = read(tmp_path, path)
    assert record.rejection.reason == "repeated-column"
    assert f"{twice!r} 2 times" in record.rejection.detail


def test_idx_images_without_pixels_are_counted(tmp_path):
    shape = struct.pack(">4B3I", 0, 0, 8, 3, 2, 0, 28)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(shape)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">4BI2B", 0, 0, 8, 1, 2, 1, 2))
    (record,) = read(tmp_path, tmp_path)
    assert record.rejection.reason == "not-pictures"


def test_class_names_of_a_hugging_face_table_of_labels(tmp_path):
    """Classes were called "0" and "1", and "unknown" was a class "-1"."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(b"x")
    features = {"label": {"names": ["hat", "shoe"], "_type": "ClassLabel"}}
    table = pa.table({"path": ["a", "b", "c"], "label": [1, 0, -1]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    pq.write_table(table, tmp_path / "labels.parquet")
    items = listed(folder, labels=str(tmp_path / "labels.parquet"))
    assert [item.label for item in items] == ["shoe", "hat", None]
    assert items[2].reason == "no-label"


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_several_names_in_a_cell(suffix, tmp_path):
    """In CSV and TSV "hat|shoe" was the name of one class."""
    folder = tmp_path / "photos"
    folder.mkdir()
    rows = {"a": "hat|shoe", "b": "shoe| hat |", "c": " | ", "d": "hat"}
    between = "," if suffix == "csv" else "\t"
    lines = [f"path{between}label", *(f"{path}{between}{label}" for path, label in rows.items())]
    if suffix == "jsonl":
        lines = [json.dumps({"path": path, "label": label}) for path, label in rows.items()]
    (tmp_path / f"labels.{suffix}").write_text("\n".join(lines) + "\n")
    for name in rows:
        (folder / name).write_bytes(b"x")
    items = listed(folder, labels=str(tmp_path / f"labels.{suffix}"), multi_label=True)
    both = LABEL_SEPARATOR.join(["hat", "shoe"])
    assert [item.label for item in items] == [both, both, None, "hat"]


def test_several_names_in_a_webdataset(tmp_path):
    write_tar(tmp_path / "a.tar", {"1.jpg": b"x", "1.cls": b"hat|shoe\n"})
    (record,) = read(tmp_path, tmp_path / "a.tar", multi_label=True)
    assert record.annotations.label == LABEL_SEPARATOR.join(["hat", "shoe"])


def test_an_absolute_path_in_a_table_is_called_so(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"x")
    (tmp_path / "labels.csv").write_text(f"path,label\n{folder}/a.jpg,hat\n")
    items = listed(folder, labels=str(tmp_path / "labels.csv"))
    assert any("is not relative to SRC" in item.detail for item in items)


def test_a_workbook_for_a_table_leaves_the_terminal_as_it_is(tmp_path):
    (tmp_path / "labels.xlsx").write_bytes(b"PK\3\4\x1b]0;title\x07,\0\n\x1b[2J\0\n,,\x9b\n" * 20)
    with pytest.raises(InputError) as caught:
        listed(tmp_path, labels=str(tmp_path / "labels.xlsx"))
    assert str(caught.value).isprintable()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("source", ["tar", "zip", "parquet", "arrow", "tfrecord", "idx"])
def test_a_pipe_is_not_waited_for(source, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (item,) = listed(tmp_path / "pipe", source=source)
    assert item.reason == "not-a-file"
    with pytest.raises(InputError, match="a pipe or a device"):
        listed(tmp_path, labels=str(tmp_path / "pipe"))


def test_a_shard_set_of_raw_pixels_is_a_source(make_images, build, tmp_path):
    """Every image of it was refused: no header told what the bytes are."""
    raw = build(make_images(), tmp_path / "raw", encoding="raw").manifest
    again = build(tmp_path / "raw", tmp_path / "again", encoding="raw", resize="none").manifest
    assert (again.ledger.kept, again.ledger.quarantined) == (raw.ledger.kept, 0)
    assert seen(tmp_path / "again", again) == seen(tmp_path / "raw", raw)


def seen(folder, manifest):
    """The pixels of every record with their class, in no order."""
    from shard_format import decode_example

    (label,) = (one for one in manifest.schema.features if one.name == "label")
    images = set()
    for split in manifest.splits.values():
        for shard in split.shards:
            data, at = (folder / shard.file).read_bytes(), 0
            while at < len(data):
                (size,) = struct.unpack_from("<Q", data, at)
                example = decode_example(data[at + 12 : at + 12 + size])
                name = label.class_names[example["label"][0]]
                images.add((name, decode_stored(example, "raw").tobytes()))
                at += 16 + size
    return images


@pytest.fixture
def into(repository):
    """Runs the command line with its stdout in a file; (exit code, stderr)."""

    def run(stdout, *arguments):
        command = [sys.executable, "-m", "cli.main", *map(str, arguments)]
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=repository
        )
        return done.returncode, done.stderr

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["inspect"], ["inspect", "--json"]])
def test_a_full_disk_behind_the_output_is_reported(arguments, make_images, build, into, tmp_path):
    """It ended in a traceback and the exit code 1, or 120."""
    if "inspect" in arguments:
        build(make_images())
        arguments = [*arguments, tmp_path / "set"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        code, stderr = into(full, *arguments)
    assert (code, stderr.count("\n")) == (3, 1), stderr
    assert stderr.startswith("error: No space left while writing ")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_of_the_output_may_leave(options, make_images, build, into, tmp_path):
    """`shardmill inspect set | head -1` exited with 1."""
    build(make_images())
    read, write = os.pipe()
    os.close(read)
    try:
        assert into(write, "inspect", *options, tmp_path / "set") == (0, "")
    finally:
        os.close(write)


def test_a_closed_stderr_is_no_matter(repository, make_images, tmp_path):
    """As under some schedulers; it raised, and left native libraries to write into any file."""
    command = [sys.executable, "-m", "cli.main", "preprocess", "images", make_images(), "--json"]
    line = " ".join(map(str, [*command, "--out", tmp_path / "set", "--no-report"]))
    done = subprocess.run(
        ["sh", "-c", f"{line} 2>&-"], stdout=subprocess.PIPE, text=True, check=False, cwd=repository
    )
    assert (done.returncode, json.loads(done.stdout)["kept"]) == (0, 12)


@pytest.mark.parametrize("year", [1, 1677, 1969, 2263, 2400, 20_000])
def test_files_and_folders_of_any_date(year, make_images, build, tmp_path):
    """As far as the file system has it: 2446 is the last year of ext4."""
    corpus, seconds = make_images(6), round((year - 1970) * 365.2425 * 24 * 3600)
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as file:
        file.add(corpus, "")
    expected = build(corpus, "usual").manifest.root_hash
    for place in (*corpus.rglob("*"), corpus, archive):
        os.utime(place, (seconds, seconds))
    assert build(corpus, staging=str(tmp_path / "staging")).manifest.root_hash == expected
    assert build(corpus).already_built
    assert build(archive, "of-archive").manifest.ledger.kept == 6
    image = corpus / "class0" / "000.jpg"
    second = 10**9 if year < 2000 else -(10**9)  # to a time that the file system has
    os.utime(image, ns=(0, image.stat().st_mtime_ns + second))
    with pytest.raises(InputError, match="holds another set"):
        build(corpus)
