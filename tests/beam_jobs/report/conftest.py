"""Shard sets for the report: real builds, and what is added to them afterwards."""

from __future__ import annotations

import dataclasses
import io
import json
import types
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from shard_format import (
    Feature,
    Ledger,
    Schema,
    file_sha256,
    load_build,
    load_manifest,
    naming,
    open_index,
)
from shard_format.checksums import build_text
from shard_format.croissant import write_croissant
from tests.fixtures.sets import write_shard_set

DUPLICATES_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string()),
        pa.field("label", pa.string()),
        pa.field("kept_id", pa.string()),
        pa.field("kept_label", pa.string()),
        pa.field("split", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("similarity", pa.float32()),
        pa.field("conflict", pa.bool_()),
        pa.field("dropped", pa.bool_()),
        pa.field("preview", pa.large_binary()),
    ]
)


def rewrite(directory, **changes):
    """Changes fields of a manifest; what says its root hash is right again afterwards."""
    manifest = dataclasses.replace(load_manifest(directory), **changes)
    (directory / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
    build = load_build(directory)
    (directory / naming.BUILD).write_bytes(build_text(build, manifest))
    write_croissant(directory, manifest)
    return manifest


def add_statistics(directory, **statistics):
    """Adds statistics to the first split, and stages to build.json."""
    manifest = load_manifest(directory)
    splits = dict(manifest.splits)
    name = next(iter(splits))
    merged = {**splits[name].statistics, **statistics}
    splits[name] = dataclasses.replace(splits[name], statistics=merged)
    build = json.loads((directory / naming.BUILD).read_text())
    build["stages"] = [
        {"name": "list", "seconds": 0.1, "records": 324},
        {"name": "stage", "seconds": 1.25, "records": 324},
        {"name": "commit", "seconds": 0.2, "records": 320},
    ]
    (directory / naming.BUILD).write_text(json.dumps(build))
    return rewrite(directory, splits=splits)


def add_duplicates(directory, rows):
    """Writes duplicates.parquet; a row is a dictionary, missing values get defaults."""
    defaults = {
        "label": None,
        "kept_label": None,
        "split": None,
        "kind": "exact",
        "similarity": 1.0,
        "conflict": False,
        "dropped": True,
        "preview": None,
    }
    made = sorted((defaults | row for row in rows), key=lambda r: (r["kept_id"], r["record_id"]))
    path = directory / naming.DUPLICATES
    pq.write_table(pa.Table.from_pylist(made, DUPLICATES_SCHEMA), path, row_group_size=7)
    info = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    return rewrite(directory, files={**load_manifest(directory).files, naming.DUPLICATES: info})


def image_bytes(side=48, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG")
    return sink.getvalue()


def some_duplicates(directory, clusters=5):
    """Rows for some clusters around records that are really in the set."""
    index = open_index(directory / naming.index_file("train"))
    kept = sorted(index["record_id"].to_pylist())[:clusters]
    rows = []
    for number, kept_id in enumerate(kept):
        label = kept_id.split("/")[0]
        conflict = number % 3 == 2
        rows.append(
            {
                "record_id": f"{label}/copy-{number}.jpg",
                "label": "another" if conflict else label,
                "kept_id": kept_id,
                "kept_label": label,
                "conflict": conflict,
                "preview": image_bytes(seed=number),
            }
        )
        if number % 2:
            rows.append(
                rows[-1]
                | {"record_id": f"{label}/near-{number}.jpg", "kind": "near", "similarity": 0.93}
                | {"label": label, "conflict": False, "dropped": False, "split": "train"}
            )
    return rows


def encoded(encoding, pixels):
    """An image as a shard would hold it."""
    if encoding == "raw":
        return pixels.tobytes()
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, encoding.upper())
    return sink.getvalue()


def hand_made(directory, records, classes=(), encoding="jpeg", splits=("train", "test")):
    """Writes a set whose names and labels no build would give it.

    `records` is a list of (record id, label); a label is a number, a list of numbers or None. All
    of them are in the first split.
    """
    many = any(isinstance(label, list) for _, label in records)
    features = [Feature("id", "text"), Feature("image", "image", (-1, -1, 3), encoding)]
    if encoding == "raw":
        features += [Feature("height", "int64"), Feature("width", "int64")]
    if classes:
        shape = (-1,) if many else ()
        features.append(Feature("label", "class_label", shape, class_names=tuple(classes)))
    generator = np.random.default_rng(3)

    def record(number, record_id, label):
        sides = {"height": 20 + number, "width": 30}
        pixels = generator.integers(0, 256, (*sides.values(), 3), np.uint8)
        values = {"id": record_id, "image": encoded(encoding, pixels), "label": label}
        return values | sides, {"record_id": record_id, **sides}

    made = [record(number, *of) for number, of in enumerate(records)]
    flat = [number for _, label in records for number in (label if many else [label])]
    counts = {name: flat.count(number) for number, name in enumerate(classes)}
    none = dict.fromkeys(classes, 0)
    return write_shard_set(
        directory,
        Schema("image", tuple(features)),
        {split: [made] if made and split == splits[0] else [] for split in splits},
        [pa.field("width", pa.int32()), pa.field("height", pa.int32())],
        {split: {"class_counts": counts if split == splits[0] else none} for split in splits},
        name="odd",
        config={"seed": 5},
        files={},
    )


def add_quarantine(directory, rows):
    """Writes a quarantine; a row is (record id, reason, detail, bytes)."""
    (directory / naming.QUARANTINE_DIR).mkdir()
    name = naming.quarantine_file(0)
    columns = ("record_id", "label", "stage", "reason", "detail", "bytes")
    made = [dict(zip(columns, (r[0], None, "prepare", *r[1:]), strict=True)) for r in rows]
    types = [pa.string()] * 5 + [pa.large_binary()]
    schema = pa.schema(list(zip(columns, types, strict=True)))
    pq.write_table(pa.Table.from_pylist(made, schema), directory / name, row_group_size=2)
    manifest, reasons = load_manifest(directory), {}
    for row in rows:
        reasons[row[1]] = reasons.get(row[1], 0) + 1
    kept = manifest.ledger.kept
    info = {"bytes": (directory / name).stat().st_size, "sha256": file_sha256(directory / name)}
    return rewrite(
        directory,
        files={**manifest.files, name: info},
        ledger=Ledger(kept + len(rows), kept, 0, 0, len(rows), reasons),
    )


_EMPTY = {"meta", "img", "br"}


class Page(HTMLParser):
    """A page taken apart, strictly: every tag must be closed where it should be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.sections = [], [], {}
        self._open, self._section = [], None
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        assert len(dict(attributes)) == len(attributes), "an attribute is repeated"
        if tag not in _EMPTY:
            self._open.append(tag)
        if tag == "section":
            self._section = dict(attributes)["id"]

    def handle_startendtag(self, tag, attributes):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "section":
            self._section = None

    def handle_data(self, data):
        self.text.append(data)
        self.sections[self._section] = self.sections.get(self._section, "") + data

    def handle_comment(self, data):
        raise AssertionError("the page has a comment")

    def unknown_decl(self, data):
        raise AssertionError("the page has a declaration")

    def attributes(self, name):
        """Every value of an attribute."""
        return [attrs[name] for _, attrs in self.elements if name in attrs]

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)


@pytest.fixture
def page():
    """Parses a page; fails if it is not well formed."""
    return Page


@pytest.fixture
def sets():
    """The functions above: with --import-mode=importlib tests cannot import each other."""
    functions = (rewrite, add_statistics, add_duplicates, add_quarantine, hand_made)
    functions += (image_bytes, some_duplicates)
    return types.SimpleNamespace(**{function.__name__: function for function in functions})


@pytest.fixture
def clothing(build, samples, tmp_path):
    """The sample images as a shard set with everything a report can show."""
    build(samples, "clothing", resize="shorter:48", num_shards=2)
    directory = tmp_path / "clothing"
    pixels = {"mean": [200.5, 190.25, 180], "std": [60, 55.5, 50.25], "min": [0, 0, 1]}
    names = load_manifest(directory).schema["label"].class_names
    weights = {name: 0.5 + number / 8 for number, name in enumerate(names)}
    add_statistics(
        directory, pixels=pixels | {"max": [255, 255, 254], "count": 12345}, class_weights=weights
    )
    add_duplicates(directory, some_duplicates(directory))
    return directory
