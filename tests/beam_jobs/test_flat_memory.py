"""What a job holds does not grow with the corpus: counted here, measured by benchmarks.memory."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import bounds
from beam_jobs.engine import local
from beam_jobs.engine.processes import worker_processes
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.pipeline import BUILDS, Step
from beam_jobs.run import preprocess
from beam_jobs.staging import item_list, reader
from beam_jobs.staging.units import UNIT_SCHEMA
from beam_jobs.work import Work
from beam_jobs.workspace import Workspace, read_batches, read_table, write_table
from shard_format import frame, unframe


def test_arrow_allocates_with_malloc_during_a_build_only(samples, tmp_path):
    backends = set()
    options = ImageOptions((str(samples),), str(tmp_path / "set"), workers=1)
    before = pa.default_memory_pool().backend_name
    preprocess(options, on_progress=lambda *_: backends.add(pa.default_memory_pool().backend_name))
    assert backends == {"system"}
    assert pa.default_memory_pool().backend_name == before


def test_worker_processes_allocate_with_malloc():
    with worker_processes("image", 1) as processes:
        process = None
        while process is None:
            with processes.one() as process:
                if process is not None:
                    assert process.do(Backend(), None) == ["system"]
                else:
                    time.sleep(0.05)


class Backend(Work):
    def __init__(self):
        pass

    def setup(self, count):
        pass

    def process(self, element):
        yield pa.default_memory_pool().backend_name


def test_memory_is_released_after_every_element(monkeypatch):
    log = []
    monkeypatch.setattr(local, "release_memory", lambda: log.append("released"))

    class Note(Backend):
        def process(self, element):
            log.append(element)
            yield element

        def finish(self):
            pass

    class List(Note):
        def process(self, element):
            yield from range(3)

    steps = [Step("List", List(), BUILDS), Step("Note", Note(), "List", spread="Spread")]
    local.run_here(steps, None, 1)
    assert log == ["released"] * 2 + [0, "released", 1, "released", 2, "released", "released"]


def test_no_pass_over_the_whole_corpus_maps_its_file(build, samples, tmp_path, monkeypatch):
    """Pages of a map count as memory of the job as long as the map is open."""
    mapped = Counter()
    memory_map = pa.memory_map

    def counted(path, *rest):
        mapped[os.path.basename(path)] += 1
        return memory_map(path, *rest)

    monkeypatch.setattr(pa, "memory_map", counted)
    build(samples, tmp_path / "set", resize="shorter:8", no_report=True)
    assert "units.arrow" in mapped
    assert not {"listing.arrow", "items.arrow"} & mapped.keys()
    assert mapped["train.arrow"] <= 1  # for the schema


def test_rows_of_a_unit_of_tiny_documents_wait_in_a_file(tmp_path, monkeypatch):
    lines = (json.dumps({"text": f"document {number}"}) + "\n" for number in range(300))
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(lines))

    def build(name):
        staging = tmp_path / f"units of {name}"
        options = TextOptions(
            (str(source),),
            str(tmp_path / name),
            text_column="text",
            staging=str(staging),
            workers=1,
            no_labels=True,
            no_report=True,
        )
        return preprocess(options).manifest.root_hash, staging / "units"

    in_memory, units = build("held")
    (sidecar,) = units.glob("*.arrow")
    expected = read_table(sidecar)
    assert len(expected) > 250
    monkeypatch.setattr(bounds, "SORTED_BYTES", 4096)
    monkeypatch.setattr(bounds, "JOINED_ROWS", 8)
    monkeypatch.setattr(bounds, "STAGED_RECORDS", 20)
    spooled, units = build("spooled")
    assert spooled == in_memory
    (sidecar,) = units.glob("*.arrow")
    assert read_table(sidecar).equals(expected)
    assert len(list(read_batches(sidecar))) > 4
    payload = sidecar.with_suffix(".tfrecord").read_bytes()
    places = (expected[name].to_pylist() for name in ("offset", "length"))
    for begin, size in zip(*places, strict=True):
        unframe(payload[begin : begin + size], "the unit")


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_items_are_written_in_order_a_range_at_a_time(tmp_path, monkeypatch, count):
    monkeypatch.setattr(item_list, "_BATCH_ROWS", 8)
    hashes = np.random.default_rng(1).integers(0, 2**64, count, np.uint64)
    workspace = Workspace(tmp_path, None)
    workspace.create()
    write_table(workspace, workspace.unit_table, UNIT_SCHEMA.empty_table())
    with item_list.item_hash_writer(workspace) as notes:
        for one in [*hashes.tolist(), *hashes.tolist()]:
            notes.add(one)
            assert len(notes._held) < 8
    names = item_list.write_item_list(workspace, tmp_path)
    (place,) = (tmp_path / name for name in names)
    assert read_table(place)["item"].to_pylist() == np.unique(hashes).tolist()
    assert all(len(batch) <= 8 for batch in read_batches(place))


def test_some_columns_are_read_a_batch_at_a_time(tmp_path):
    table = pa.table({"a": range(10), "b": list("0123456789"), "c": [None] * 10})
    with pa.OSFile(str(tmp_path / "file"), "wb") as sink:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    parts = list(read_batches(tmp_path / "file", ["b"]))
    assert list(map(len, parts)) == [3, 3, 3, 1]
    assert pa.concat_tables(parts) == table.select(["b"])


def test_a_small_split_is_read_in_blocks_of_the_same_size(tmp_path, monkeypatch):
    """Between two records of a tenth are nine that are read and thrown away."""
    payloads = [random.Random(number).randbytes(100) for number in range(2000)]
    frames = list(map(frame, payloads))
    units = np.arange(2000) % 2
    places = [tmp_path / "0.tfrecord", tmp_path / "1.tfrecord"]
    offsets = np.zeros(2000, np.int64)
    for unit, place in enumerate(places):
        rows = np.flatnonzero(units == unit)
        place.write_bytes(b"".join(frames[row] for row in rows))
        offsets[rows] = np.arange(len(rows)) * len(frames[0])
    table = pa.table({"unit": units, "offset": offsets, "length": [len(one) for one in frames]})
    wanted = np.arange(0, 2000, 10)
    sizes, read_column = [], reader._read_ranges

    def measured(units, starts, ends, sources, *, remote):
        sizes.append(int((ends - starts).sum()))
        return read_column(units, starts, ends, sources, remote=remote)

    monkeypatch.setattr(reader, "_read_ranges", measured)
    sources = [reader.Source(place, 0, lambda: None) for place in places]
    read = [
        payload
        for _, block in reader.read_staged(table.take(pa.array(wanted)), sources, local_bytes=4096)
        for payload in block.to_pylist()
    ]
    assert read == [payloads[row] for row in wanted]
    assert len(sizes) > 20
    assert max(sizes) <= 4096 + 20 * len(frames[0])
