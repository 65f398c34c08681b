"""Random documents with copies of known likeness, and builds of documents."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.dedup.text.near_duplicates import near_duplicates
from benchmarks.table_sidecars import sidecars_of_texts


@pytest.fixture
def column():
    """Makes a column of texts."""
    return lambda texts: pa.array(texts, pa.large_string())


@pytest.fixture
def random_texts():
    """Makes documents of random words; of every third one there are copies with other words."""

    def make(count, seed=0, words=60, vocabulary=4000):
        generator = np.random.default_rng(seed)
        texts: list[str] = []
        while len(texts) < count:
            own = [f"w{number}" for number in generator.integers(0, vocabulary, words)]
            texts.append(" ".join(own))
            for _ in range(int(generator.integers(0, 4)) if len(texts) % 3 == 0 else 0):
                changed = list(own)
                for place in generator.integers(0, words, int(generator.integers(0, 4))):
                    changed[place] = f"x{generator.integers(0, 10**6)}"
                texts.append(" ".join(changed))
        return texts[:count]

    return make


@pytest.fixture
def near_pairs(column, tmp_path):
    """Finds the near duplicates among texts, in units of 7 documents."""

    def run(texts, threshold, threads=1):
        sidecars = sidecars_of_texts(column(texts), tmp_path, unit_rows=7)
        return near_duplicates(sidecars, threshold, threads)

    return run


@pytest.fixture
def build_texts(tmp_path):
    """Builds a set of rows in some JSONL files, the same ones for one list; (manifest, folder)."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    def run(rows, out="set", files=3, **options):
        source = tmp_path / f"{out}-source"
        source.mkdir(exist_ok=True)
        for number in range(files):
            text = "".join(json.dumps(row) + "\n" for row in rows[number::files])
            file = source / f"{number}.jsonl"
            if not file.exists():  # its time of change is part of what a unit is known by
                file.write_text(text)
        folder = tmp_path / out
        defaults = {"workers": 1, "no_report": True, "no_labels": True, "clean": "none"}
        report = preprocess(
            TextOptions(sources=(str(source),), out=str(folder), **(defaults | options))
        )
        return report.manifest, folder

    return run


@pytest.fixture
def texts_in():
    """Reads {split: [(record id, text)]} of a set, and checks the index against the texts."""
    from shard_format import decode_example, load_manifest, naming, open_index, read_records

    def read(folder):
        rows_of = {}
        for split, info in load_manifest(folder).splits.items():
            rows = []
            for shard in info.shards:
                for _, record in read_records(folder / shard.file):
                    example = decode_example(record)
                    rows.append((example["id"][0].decode(), example["text"][0].decode()))
            index = open_index(folder / naming.index_file(split))
            assert index["record_id"].to_pylist() == [record_id for record_id, _ in rows]
            assert index["chars"].to_pylist() == [len(text) for _, text in rows]
            assert index["words"].to_pylist() == [len(text.split()) for _, text in rows]
            rows_of[split] = rows
        return rows_of

    return read
