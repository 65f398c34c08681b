"""Parts taken out before another finisher, whatever that one makes of the records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_jobs.dedup.text.segment_removal import DROPPED_PARTS, PartsDropped
from beam_jobs.record_types.base import Finished, Finisher, OnePerRecord, Staged
from shard_format import Feature, decode_example, encode_features

FEATURES = [Feature("id", "text"), Feature("text", "text"), Feature("score", "float32")]
TEXTS = ["a b\nc\nd", "e f", "g\nh i j", "k", "l m\nn"]
DROPPED = [[1], [], [0], [], [0, 1]]
LEFT = ["a b\nd", "e f", "h i j", "k", ""]


@pytest.fixture
def table():
    return pa.table(
        {
            DROPPED_PARTS: pa.array(DROPPED, pa.large_list(pa.int32())),
            "chars": [len(text) for text in TEXTS],
            "words": [len(text.split()) for text in TEXTS],
        }
    )


def staged():
    for row, text in enumerate(TEXTS):
        values = {"id": f"r{row}", "text": text, "score": row / 7}
        yield Staged(row, encode_features(FEATURES, values), b"")


def measures(texts):
    return [{"chars": len(text), "words": len(text.split())} for text in texts]


def test_one_example_a_record(table):
    done = list(PartsDropped(FEATURES, "lines", OnePerRecord()).finish(table, staged()))
    examples = [decode_example(one.example) for one in done]
    assert [example["text"][0].decode() for example in examples] == LEFT
    assert [example["id"][0].decode() for example in examples] == [f"r{row}" for row in range(5)]
    assert [example["score"][0] for example in examples] == pytest.approx([r / 7 for r in range(5)])
    assert [one.columns for one in done] == measures(LEFT)


class Twos(Finisher):
    """Two records an example, and two examples of each two; it reads ahead."""

    def finish(self, table, staged):
        records = list(staged)
        for first in range(0, len(records), 2):
            for words in (None, 7):
                columns = {} if words is None else {"words": words}
                entries = b"".join(record.entries for record in records[first : first + 2])
                yield Finished(entries, records[first].row, columns)


def test_what_the_other_finisher_says_goes_first(table):
    done = list(PartsDropped(FEATURES, "lines", Twos()).finish(table, staged()))
    assert [one.row for one in done] == [0, 0, 2, 2, 4, 4]
    own = measures(LEFT)
    assert [one.columns for one in done[::2]] == own[::2]
    assert [one.columns for one in done[1::2]] == [one | {"words": 7} for one in own[::2]]
