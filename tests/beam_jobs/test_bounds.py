"""No bound of memory decides what is built: with all of them lowered, every byte is the same."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_jobs import bounds
from beam_jobs.dedup.images import candidates
from beam_jobs.dedup.images.hash_format import BANDS
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.stages.plan import merge_levels
from beam_jobs.staging import reordering
from beam_jobs.workspace import read_table
from shard_format import naming, open_split_index
from shard_format.fingerprint_files import parts_at, whole_file
from tests.fixtures.proofs import proof

NAMES = [name for name in vars(bounds) if name.isupper()]


def documents(folder: Path) -> Any:
    """Rows with repeated, nearly repeated and repeated parts of documents."""
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(300)]
    texts = ["\n".join(" ".join(random.choice(words, 12)) for _ in range(4)) for _ in range(900)]
    texts += texts[:60]
    texts += [f"{text}\nA line of many documents, which has no other words." for text in texts[:90]]
    texts += [text.replace("word7", "word8", 1) for text in texts[200:260]]
    rows = [{"text": text, "label": f"class{number % 3 % 2}"} for number, text in enumerate(texts)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return TextOptions(
        (str(folder / "rows.jsonl"),), str(folder / "set"), text_column="text", dedup="near",
        dedup_parts="lines", stratify=True, balance="oversample", split="train=0.8,test=0.2",
        shard_size="32KiB", unit_size="32KiB", no_report=True, workers=1,
    )  # fmt: skip


def images(folder: Path) -> Any:
    """Small images with copies, brighter copies and flat ones."""
    random = np.random.default_rng(0)
    for number in range(240):
        if number % 6 != 1:  # else the one before again
            small = random.integers(0, 255, (6, 6, 3), np.uint8)
        image = Image.fromarray(small).resize((32, 32), Image.Resampling.BICUBIC)
        if number % 12 == 1:
            image = image.point(lambda value: min(255, value + 3))
        if number % 40 == 39:
            image = Image.new("RGB", (32, 32), (number, 0, 0))
        content = io.BytesIO()
        image.save(content, "png")
        path = folder / "photos" / f"class{number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.getvalue())
    return ImageOptions(
        (str(folder / "photos"),), str(folder / "set"), dedup="near", balance="undersample",
        stratify=True, split="train=0.8,test=0.2", shard_size="64KiB", unit_size="32KiB",
        no_report=True, workers=1,
    )  # fmt: skip


def built(options: Any) -> dict[str, Any]:
    """The files of a new build, without those that describe the run.

    What later generations need has no order that matters, nor has its division into batches.
    """
    preprocess(options)
    return files_of(Path(options.out))


def files_of(out: Path) -> dict[str, Any]:
    """The files of a set, without those that describe the run; `fingerprints/` without parts."""
    files: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if not path.is_file() or path.name in ("build.json", "counters.json"):
            continue
        if path.suffix != ".arrow":
            files[name] = path.read_bytes()
        elif path.parent.name != naming.FINGERPRINTS_DIR:
            files[name] = read_table(path)
        elif (whole := whole_file(name)) not in files:
            rows = pa.concat_tables(map(read_table, parts_at(out / whole)))
            files[whole] = rows.sort_by(rows.column_names[0])
    return files


def kept_up(folder: Path) -> dict[str, Any]:
    """The files of a set of documents that was appended to, and compacted without some of them."""
    first, second = (
        TextOptions(
            (str(folder / f"{name}.jsonl"),), str(folder / "set"), text_column="text",
            dedup="near", split="train=0.8,test=0.2", shard_size="4KiB", unit_size="16KiB",
            no_report=True, workers=1, append=name == "second", id_prefix=name,
        )
        for name in ("first", "second")
    )  # fmt: skip
    preprocess(first)
    appended = append(second, {"id_prefix"})
    assert appended.own.ledger.duplicates > 60
    rows = open_split_index(folder / "set", appended.manifest, "train")["record_id"].to_pylist()
    compact(first.out, [*rows[:3], *rows[-3:]])
    return files_of(folder / "set")


@pytest.mark.parametrize("factor", [pytest.param(100, marks=proof), 20_000])
def test_lower_bounds_keep_up_the_same_bytes(tmp_path, monkeypatch, factor):
    random = np.random.default_rng(1)
    words = [f"word{number}" for number in range(300)]
    texts = [" ".join(random.choice(words, 40)) for _ in range(400)]
    near = [text.replace("word7", "word8", 1) for text in texts[:90]]
    for name, own in (("first", texts[:300]), ("second", [*texts[300:], *near, *texts[90:120]])):
        rows = [{"text": text, "label": f"class{number % 3}"} for number, text in enumerate(own)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = kept_up(tmp_path)
    (tmp_path / "set").rename(tmp_path / "before")
    for name in NAMES:
        monkeypatch.setattr(bounds, name, max(1, getattr(bounds, name) // factor))
    assert kept_up(tmp_path) == expected


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (documents, 100),
        pytest.param(documents, 10_000, marks=proof),
        pytest.param(images, 100, marks=proof),
        (images, 20_000),
    ],
)
def test_lower_bounds_build_the_same_bytes(tmp_path, monkeypatch, make, factor):
    options = make(tmp_path)
    expected = built(options)
    Path(options.out).rename(tmp_path / "before")
    kinds = pq.read_table(tmp_path / "before" / "duplicates.parquet", columns=["kind"])["kind"]
    assert set(kinds.to_pylist()) == {"exact", "near"}
    spilled: Counter[str] = Counter()

    def counting(kind, name, applies=lambda self: True):
        real = getattr(kind, name)

        def method(self, *arguments):
            spilled[kind.__name__] += bool(applies(self))
            return real(self, *arguments)

        monkeypatch.setattr(kind, name, method)

    counting(reordering.RowSorter, "_write_run")
    counting(reordering.Partitions, "_flush", lambda self: self._held_rows)
    counting(reordering.Spool, "close", lambda self: self._file is not None)
    counting(candidates._BucketTable, "__init__")
    for name in NAMES:
        monkeypatch.setattr(bounds, name, max(1, getattr(bounds, name) // factor))
    limits = merge_levels.MergeLimits(bounds.BLOCK_BYTES, bounds.BLOCK_ROW_BYTES)
    monkeypatch.setattr(merge_levels, "LIMITS", limits)
    assert built(options) == expected
    assert spilled["Spool"]
    if factor >= 10_000 or make is documents:
        assert spilled["RowSorter"] > 3 and spilled["Partitions"] > 3
    if factor > 10_000:
        assert spilled["_BucketTable"] > BANDS  # ranges of every band
