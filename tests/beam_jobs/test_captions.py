"""Images with captions: cleaned, filtered, tokenized, and compared by either."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg

import reader
from beam_jobs.dedup.both_near import common_pairs, near_in_both
from beam_jobs.dedup.clusters import NearPairs
from beam_jobs.generations.append import append
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from shard_format import UsageError, file_sha256, load_manifest, verify


def photo(seed: int) -> bytes:
    """Coarse noise, which no two seeds share."""
    noise = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    return simplejpeg.encode_jpeg(np.kron(noise, np.ones((8, 8, 1), np.uint8)), 90)


def write_parquet(folder: Path, captions: list[Any], name: str = "caption") -> Path:
    folder.mkdir(exist_ok=True)
    rows = [{"image": photo(number), name: own} for number, own in enumerate(captions)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "pairs.parquet")
    return folder


def write_webdataset(folder: Path, captions: list[Any], name: str = "caption") -> Path:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "pairs.tar", "w") as tar:
        for number, own in enumerate(captions):
            text = json.dumps({name: own}).encode()
            for ending, data in (("jpg", photo(number)), ("json", text)):
                member = tarfile.TarInfo(f"{number:03d}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return folder


def write_table(folder: Path, captions: list[Any], name: str = "caption") -> Path:
    folder.mkdir(exist_ok=True)
    lines = []
    for number, own in enumerate(captions):
        (folder / f"{number:03d}.jpg").write_bytes(photo(number))
        lines.append(json.dumps({"path": f"{number:03d}.jpg", name: own}))
    (folder.parent / "captions.jsonl").write_text("\n".join(lines) + "\n")
    return folder


WRITE = {"parquet": write_parquet, "tar": write_webdataset, "table": write_table}
CAPTIONS = [f"a photograph number {number} of something" for number in range(12)]


def job(source: Path, **options: Any) -> ImageOptions:
    own: dict[str, Any] = {
        "split": "train=1",
        "workers": 1,
        "no_report": True,
        "no_labels": True,
        "resize": "none",
        "caption_column": "caption",
    }
    if (source.parent / "captions.jsonl").exists():
        own["labels"] = str(source.parent / "captions.jsonl")
    return ImageOptions((str(source),), str(source.parent / "set"), **(own | options))


def captions_of(source: Path) -> list[Any]:
    directory = source.parent / "set"
    assert not verify(directory)[1]
    return [one["caption"] for one in reader.random_access(directory, "train")]


@pytest.mark.parametrize("kind", WRITE)
def test_captions_come_from_every_source(tmp_path: Path, kind: str) -> None:
    given = ["  a\u00a0 dog \n on grass  ", *CAPTIONS, "", "Cafe\u0301"]
    source = WRITE[kind](tmp_path / "source", given)
    done = preprocess(job(source))
    ledger = done.manifest.ledger
    assert ledger.kept == len(given) - 1 and ledger.reasons == {"no-caption": 1}
    assert sorted(captions_of(source)) == sorted(["a dog\non grass", *CAPTIONS, "Café"])
    stream = reader.load(tmp_path / "set", batch_size=4, features=("caption",), epochs=1)
    batch = next(iter(stream))
    assert batch["image"].shape == (4, 64, 64, 3) and batch["caption"].shape == (4,)


def test_captions_are_filtered_as_documents_are(tmp_path: Path) -> None:
    given = [
        "two words",
        "a dog runs over the green grass of a large garden",
        "ein Hund läuft über die grüne Wiese eines großen Gartens",
    ]
    source = write_parquet(tmp_path / "source", given)
    done = preprocess(job(source, clean_captions="nfc,length:min_words=3,language:only=en"))
    assert captions_of(source) == given[1:2]
    assert done.manifest.ledger.filtered == 2 and set(done.manifest.ledger.reasons) == {
        "few-words",
        "language",
    }


def test_several_captions_stay_together(tmp_path: Path) -> None:
    given = [["one caption", "another  caption"], ["short", "a longer caption"], [], ["x", "y"]]
    source = write_parquet(tmp_path / "source", given, "captions")
    options = {
        "caption_column": "captions[*]",
        "clean_captions": "whitespace:blanks=true,length:min_words=2",
    }
    done = preprocess(job(source, **options))
    assert sorted(captions_of(source)) == [["a longer caption"], ["one caption", "another caption"]]
    assert done.manifest.ledger.reasons == {"no-caption": 1, "few-words": 1}
    stream = reader.load(tmp_path / "set", batch_size=2, features=("caption",), list_size=2)
    batch = next(iter(stream))
    assert batch["caption"].shape == (2, 2) and sorted(batch["caption_count"].tolist()) == [1, 2]


def test_a_list_of_captions_is_not_taken_for_one(tmp_path: Path) -> None:
    source = write_webdataset(tmp_path / "source", ["one", ["first", "second"]])
    done = preprocess(job(source))
    assert captions_of(source) == ["one"]
    assert done.manifest.ledger.reasons == {"several-captions": 1}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": one}) + "\n" for one in CAPTIONS))
    options = TextOptions(
        (str(source),),
        str(tmp_path / "texts"),
        train_tokenizer="bpe:300",
        split="train=1",
        no_labels=True,
        workers=1,
        no_report=True,
    )
    preprocess(options)
    return tmp_path / "texts/tokenizer.json"


@pytest.mark.parametrize("several", [False, True])
def test_captions_are_tokenized_to_a_length(tmp_path: Path, tokenizer: Path, several: bool) -> None:
    from tokenizers import Tokenizer

    given: list[Any] = [[one, f"{one} again"] for one in CAPTIONS] if several else CAPTIONS
    source = write_parquet(tmp_path / "source", given)
    options = {"tokenizer": str(tokenizer), "max_caption_tokens": 9}
    column = "caption[*]" if several else "caption"
    done = preprocess(job(source, caption_column=column, **options))
    reference = Tokenizer.from_file(str(tokenizer))
    assert (tmp_path / "set/tokenizer.json").read_bytes() == tokenizer.read_bytes()
    assert done.manifest.config["vocabulary"]["size"] == reference.get_vocab_size()
    for record in reader.random_access(tmp_path / "set", "train"):
        captions = record["caption"] if several else [record["caption"]]
        tokens = record["caption_tokens"].reshape(-1, 9)
        lengths = np.atleast_1d(record["caption_length"]).tolist()
        for caption, ids, length in zip(captions, tokens, lengths, strict=True):
            expected = reference.encode(caption).ids[:9]
            assert length == len(expected) and ids[:length].tolist() == expected
            assert not ids[length:].any()  # <pad> is 0
    stream = reader.load(tmp_path / "set", batch_size=4, features=("caption_tokens",), epochs=1)
    tokens = next(iter(stream))["caption_tokens"]
    if several:
        assert [one.shape for one in tokens] == [(2, 9)] * 4
    else:
        assert tokens.shape == (4, 9) and tokens.dtype == np.int64
    # What is appended later has the tokenizer of the set, wherever the first one went.
    tokenizer.unlink()
    last = [["one more"]] if several else ["one more"]
    more = write_parquet(tmp_path / "more", [*given, *last])
    added = job(more).sources
    append(ImageOptions(added, str(tmp_path / "set"), workers=1, no_report=True), given=[])
    assert load_manifest(tmp_path / "set").ledger.kept == 13
    # A repair has the tokenizer of the set too.
    shards = sorted((tmp_path / "set").rglob("*.tfrecord-*"))
    digests = [file_sha256(shard) for shard in shards]
    assert len(shards) == 2
    for shard in shards:
        shard.unlink()
    assert repair(tmp_path / "set", [str(source), str(more)]).left == []
    assert [file_sha256(shard) for shard in shards] == digests


NEAR = "a red double decker bus drives over the long bridge in the middle of the city {}"


@pytest.mark.parametrize(("near_by", "kept"), [("image", 4), ("caption", 4), ("both", 5)])
def test_near_duplicates_by_image_by_caption_or_by_both(
    tmp_path: Path, near_by: str, kept: int
) -> None:
    different = [f"{word} " * 12 for word in ("alpha", "beta", "gamma", "delta")]
    rows = [
        (1, NEAR.format("today")),  # 0: the image of 1 and the caption of 2
        (1, different[0]),
        (2, NEAR.format("now")),
        (3, "some white cat sleeps on an old sofa near the window of a small house at noon"),
        # Both alike:
        (3, "some white cat sleeps on an old sofa near the window of a small house at night"),
        (4, different[1]),
    ]
    images = [photo(seed) for seed, _ in rows]
    images[1], images[4] = (recompressed(one) for one in (images[1], images[4]))
    table = [{"image": one, "caption": text} for one, (_, text) in zip(images, rows, strict=True)]
    (tmp_path / "source").mkdir()
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "source/a.parquet")
    options = {"dedup": "near", "near_by": near_by, "near_threshold": 0.6}
    done = preprocess(job(tmp_path / "source", **options))
    assert done.manifest.ledger.kept == kept
    # All are near duplicates of what the set has.
    (tmp_path / "more").mkdir()
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "more/b.parquet")
    added = ImageOptions(str(tmp_path / "more"), str(tmp_path / "set"), workers=1, no_report=True)
    later = append(added, given=[])
    assert later.own.ledger.kept == 0 and later.own.ledger.duplicates == len(rows)


def recompressed(data: bytes) -> bytes:
    return simplejpeg.encode_jpeg(simplejpeg.decode_jpeg(data), 70)


def pairs_of(*pairs: tuple[int, int]) -> NearPairs:
    return NearPairs(np.array(pairs, np.int64).reshape(-1, 2), np.full(len(pairs), 0.9, np.float32))


def test_clusters_are_intersected_not_pairs() -> None:
    one = pairs_of((0, 1), (1, 2), (2, 3), (7, 8))
    other = pairs_of((0, 3), (3, 5), (7, 9), (8, 9))
    both = near_in_both(one, other)
    assert both.pairs.tolist() == [[0, 3], [7, 8]]
    assert not len(near_in_both(one, pairs_of()).pairs)
    assert common_pairs(one, pairs_of((1, 2), (2, 1), (7, 8))).pairs.tolist() == [[1, 2], [7, 8]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"caption_column": None, "tokenizer": "a"}, "--tokenizer is for captions"),
        ({"caption_column": None, "near_by": "both"}, "--near-by is for captions"),
        ({"caption_column": "[*]"}, "without a name"),
        ({"clean_captions": "washing"}, "unknown step 'washing'"),
    ],
)
def test_options_of_captions(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    source = write_parquet(tmp_path / "source", CAPTIONS)
    with pytest.raises(UsageError, match=message):
        preprocess(job(source, **options))
