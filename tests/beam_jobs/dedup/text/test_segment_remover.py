"""Segments removed before another builder, whatever that one makes of the records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_jobs.dedup.text.segments import REMOVED_SEGMENTS, SegmentRemover
from beam_jobs.record_types.text import measure
from beam_jobs.staging.examples import BuiltExample, ExampleBuilder, OnePerRecord, StagedRecord
from shard_format import Feature, decode_example, encode_features

FEATURES = [Feature("id", "text"), Feature("text", "text"), Feature("score", "float32")]
TEXTS = ["a b\nc\nd", "e f", "g\nh i j", "k", "l m\nn"]
REMOVED = [[1], [], [0], [], [0, 1]]
LEFT = ["a b\nd", "e f", "h i j", "k", ""]


@pytest.fixture
def table():
    return pa.table(
        {
            REMOVED_SEGMENTS: pa.array(REMOVED, pa.large_list(pa.int32())),
            "chars": [len(text) for text in TEXTS],
            "words": [len(text.split()) for text in TEXTS],
        }
    )


def staged():
    for row, text in enumerate(TEXTS):
        values = {"id": f"r{row}", "text": text, "score": row / 7}
        yield StagedRecord(row, encode_features(FEATURES, values), b"")


def measures(texts):
    return [{"chars": len(text), "words": len(text.split())} for text in texts]


def test_one_example_a_record(table):
    done = list(SegmentRemover(FEATURES, "lines", OnePerRecord(), measure).build(table, staged()))
    examples = [decode_example(one.example) for one in done]
    assert [example["text"][0].decode() for example in examples] == LEFT
    assert [example["id"][0].decode() for example in examples] == [f"r{row}" for row in range(5)]
    assert [example["score"][0] for example in examples] == pytest.approx([r / 7 for r in range(5)])
    assert [one.columns for one in done] == measures(LEFT)


class Twos(ExampleBuilder):
    """Two records an example, and two examples of each two; it reads ahead."""

    def build(self, table, staged):
        records = list(staged)
        for first in range(0, len(records), 2):
            for words in (None, 7):
                columns = {} if words is None else {"words": words}
                entries = b"".join(record.entries for record in records[first : first + 2])
                yield BuiltExample(entries, records[first].row, columns)


def test_columns_of_the_other_builder_take_precedence(table):
    done = list(SegmentRemover(FEATURES, "lines", Twos(), measure).build(table, staged()))
    assert [one.row for one in done] == [0, 0, 2, 2, 4, 4]
    own = measures(LEFT)
    assert [one.columns for one in done[::2]] == own[::2]
    assert [one.columns for one in done[1::2]] == [one | {"words": 7} for one in own[::2]]
