"""One way from a corpus to records: what holds for images holds for documents too."""

from __future__ import annotations

import json
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg

from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from shard_format import Feature, InputError, ShardmillError, decode_example, unframe

from .conftest import tar_of


def images(count):
    generator = np.random.default_rng(3)
    return [
        simplejpeg.encode_jpeg(generator.integers(0, 256, (24, 30, 3), np.uint8), 90)
        for _ in range(count)
    ]


def examples_of(directory, manifest):
    """{record id: features} of a set."""
    results = {}
    for split in manifest.splits.values():
        for shard in split.shards:
            data = (directory / shard.file).read_bytes()
            while data:
                size = 16 + int.from_bytes(data[:8], "little")
                features = decode_example(unframe(data[:size], "shard"))
                results[features["id"][0].decode()] = features
                data = data[size:]
    return results


def test_a_table_of_labels_for_documents(tmp_path):
    root = tmp_path / "docs"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("first document")
    (root / "deep" / "b.txt").write_text("second document")
    (root / "c.txt").write_text("nobody named me")
    with zipfile.ZipFile(root / "d.zip", "w") as archive:
        archive.writestr("e.txt", "inside of an archive")
    rows = ["path,label,year", "a.txt,good,1999", "deep/b.txt,bad,2001", "d.zip/e.txt,good,2002"]
    (tmp_path / "labels.csv").write_text("\n".join([*rows, "none.txt,good,1"]) + "\n")
    options = TextOptions(
        (str(root),), str(tmp_path / "set"), labels=str(tmp_path / "labels.csv"),
        keep_columns="year:int64", workers=1, no_report=True, clean="none",
    )  # fmt: skip
    manifest = preprocess(options).manifest
    assert dict(manifest.ledger.reasons) == {"missing-file": 1, "no-row": 1}
    results = examples_of(tmp_path / "set", manifest)
    assert {name: list(one["year"]) for name, one in results.items()} == {
        "a.txt": [1999], "deep/b.txt": [2001], "d.zip/e.txt": [2002],
    }  # fmt: skip
    assert {name: one["label"][0] for name, one in results.items()} == {
        "a.txt": 1, "deep/b.txt": 0, "d.zip/e.txt": 1,
    }  # fmt: skip


def _table(tmp_path, data):
    root = tmp_path / "flat"
    root.mkdir()
    lines = ["path,label,caption,score"]
    for number, image in enumerate(data):
        (root / f"{number}.jpg").write_bytes(image)
        lines.append(f"{number}.jpg,c{number % 2},a caption of {number},{number}.5")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    return root, {"labels": str(tmp_path / "labels.csv")}


def _parquet(tmp_path, data):
    columns = {
        "image": data,
        "label": [f"c{number % 2}" for number in range(len(data))],
        "caption": [f"a caption of {number}" for number in range(len(data))],
        "score": [number + 0.5 for number in range(len(data))],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    return tmp_path / "a.parquet", {}


def _webdataset(tmp_path, data):
    members = {}
    for number, image in enumerate(data):
        fields = {"label": f"c{number % 2}", "caption": f"a caption of {number}"}
        members[f"{number:04d}.json"] = json.dumps(fields | {"score": number + 0.5}).encode()
        members[f"{number:04d}.jpg"] = image
    return tar_of(tmp_path / "a.tar", members), {}


@pytest.mark.parametrize("make", [_table, _parquet, _webdataset])
def test_kept_columns_of_images(make, tmp_path):
    source, options = make(tmp_path, images(6))
    job = ImageOptions(
        (str(source),), str(tmp_path / "set"), keep_columns="caption,score:float32",
        split="train=1", resize="none", workers=1, **options,
    )  # fmt: skip
    manifest = preprocess(job).manifest
    names = [feature.name for feature in manifest.schema.features]
    assert names == ["id", "image", "caption", "score", "label"]
    assert manifest.schema.features[2] == Feature("caption", "text")
    results = examples_of(tmp_path / "set", manifest)
    assert len(results) == 6
    for features in results.values():
        (caption,) = features["caption"]
        number = int(caption.decode().rpartition(" ")[2])
        assert caption == f"a caption of {number}".encode()
        assert features["score"][0] == number + 0.5
        assert features["label"] == (number % 2,) or list(features["label"]) == [number % 2]


def test_a_caption_next_to_each_image(tmp_path):
    members = {}
    for number, image in enumerate(images(4)):
        members |= {f"{number}.jpg": image, f"{number}.cls": b"%d" % (number % 2)}
        members[f"{number}.txt"] = f"caption {number}\n".encode()
    source = tar_of(tmp_path / "a.tar.gz", members, "w:gz")
    job = ImageOptions(
        (str(source),), str(tmp_path / "set"), keep_columns="txt", split="train=1", workers=1,
        no_report=True,
    )  # fmt: skip
    results = examples_of(tmp_path / "set", preprocess(job).manifest)
    assert {name: one["txt"][0] for name, one in results.items()} == {
        f"a.tar.gz/{number}.jpg": f"caption {number}".encode() for number in range(4)
    }


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_column_that_no_companion_has_is_refused(mode, tmp_path):
    members = {}
    for number, image in enumerate(images(3)):
        fields = {"label": "a", "score": number} | ({"caption": "x"} if number == 2 else {})
        members |= {f"{number}.jpg": image, f"{number}.json": json.dumps(fields).encode()}
    source, out = tar_of(tmp_path / "a.tar", members, mode), tmp_path / "set"

    def job(**options):
        return ImageOptions((str(source),), str(out), workers=1, no_report=True, **options)

    for options in (
        {"keep_columns": "caption,scor:float32"},
        {"group_by": "scor"},
        {"label_column": "label,scor"},
    ):
        with pytest.raises(InputError, match=r"0.jpg, like 2 records .* no column 'scor'") as info:
            preprocess(job(**options))
        assert "'label', 'score', 'caption'. Did you mean 'score'?" in str(info.value)
        assert not out.exists()
    report = preprocess(job(keep_columns="caption,score:float32"))
    assert report.manifest.ledger.kept == 3
    assert report.build["notes"] == [
        "--keep-columns caption: 2 of 3 records have no value, and store an empty text"
    ]


def test_a_column_of_what_has_none_is_refused(tmp_path):
    members = {f"{number}/a.jpg": image for number, image in enumerate(images(2))}
    for name, data in members.items():
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(data)
    for source, error in (
        (tmp_path / "photos", "'nope', but class folders have none"),
        (tar_of(tmp_path / "a.tar", members), "no .json files next to its images with .* 'nope'"),
    ):
        job = ImageOptions((str(source),), str(tmp_path / "set"), keep_columns="nope")
        with pytest.raises(ShardmillError, match=error):
            preprocess(job)
        assert not (tmp_path / "set").exists()


def test_a_bad_value_of_a_kept_column_costs_its_record(tmp_path):
    table = pa.table({"image": images(3), "label": ["a"] * 3, "n": ["1", "x", "3"]})
    pq.write_table(table, tmp_path / "a.parquet")
    job = ImageOptions(
        (str(tmp_path / "a.parquet"),), str(tmp_path / "set"), keep_columns="n:int64", workers=1,
        no_report=True,
    )  # fmt: skip
    assert dict(preprocess(job).manifest.ledger.reasons) == {"bad-value": 1}
    job = ImageOptions(
        (str(tmp_path / "a.parquet"),), str(tmp_path / "other"), keep_columns="m", workers=1
    )
    with pytest.raises(InputError, match=r"no column 'm' \(--keep-columns\)"):
        preprocess(job)


def test_links_out_of_the_source_are_not_followed(kind, build, tmp_path):
    corpus = kind.make(6)
    outside = tmp_path / "outside"
    outside.mkdir()
    first = corpus / "class0" / kind.file("000")
    os.rename(first, outside / first.name)
    first.symlink_to(outside / first.name)
    (corpus / "class1" / "inside").symlink_to(corpus / "class1" / kind.file("001"))
    results = build(corpus, "set").manifest.ledger
    assert results.reasons["outside-link"] == 1
    assert build(corpus, "followed", follow_links=True).manifest.ledger.quarantined == 0


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_document_that_decompresses_to_too_much(method, tmp_path):
    """300 MB of zeros in 300 kB: refused by its declared size, and by its content if that lies."""
    import resource

    root = tmp_path / "docs"
    root.mkdir()
    with zipfile.ZipFile(root / "a.zip", "w", method) as archive:
        archive.writestr("good.txt", "a good document")
        with archive.open("bomb.txt", "w") as member:
            for _ in range(200 if method == zipfile.ZIP_DEFLATED else 40):
                member.write(b"a" * (1 << 20))
    job = TextOptions(
        (str(root),), str(tmp_path / "set"), max_record_bytes="8MiB", no_labels=True, workers=1,
        no_report=True,
    )  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ledger = preprocess(job).manifest.ledger
    assert (ledger.kept, dict(ledger.reasons)) == (1, {"file-too-large": 1})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
