"""Groups that are divided over ranges: the splits that one worker assigns."""

from __future__ import annotations

import json

import numpy as np
import pytest

from beam_jobs.options import TextOptions
from beam_jobs.run import preprocess
from shard_format import InputError

FRACTIONS = "train=0.6,validation=0.25,test=0.15"


@pytest.fixture
def rows(tmp_path):
    """Writes rows, in files with a group in the name, some of them without one."""

    def write(split=lambda group, number: None):
        draw = np.random.default_rng(3)
        for part in range(6):
            lines = []
            for number in range(30):
                group = f"g{draw.integers(0, 25)}" if draw.random() < 0.8 else None
                own = {
                    "text": " ".join(f"w{one}" for one in draw.integers(0, 90, 30)),
                    "label": f"class{draw.choice(4, p=(0.5, 0.3, 0.15, 0.05))}",
                    "by": group,
                    "fold": split(group, number),
                }
                lines.append(json.dumps(own))
            (tmp_path / f"team{part // 2}-{part}.jsonl").write_text("\n".join(lines))
        return tmp_path

    return write


def options_of(folder, out, **more):
    return TextOptions(
        (str(folder / "*.jsonl"),), str(folder / out), text_column="text", label_column="label",
        unit_size="2KiB", num_shards=3, no_report=True, **more,
    )  # fmt: skip


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("ranges", [2, 7, pytest.param(40, marks=pytest.mark.proof)])
@pytest.mark.parametrize(
    "job",
    [
        {"group_by": "by", "split": FRACTIONS, "stratify": True},
        {"group_by": "by", "split": FRACTIONS, "stratify": True, "balance": "undersample"},
        {"label_pattern": "(?P<group>team[0-9])", "split": "train=0.5,test=0.5", "stratify": True},
        {"group_by": "by", "split": "column:fold"},
    ],
    ids=["stratified", "balanced", "pattern", "given"],
)
def test_they_are_in_the_same_splits(job, ranges, rows, spread):
    folder = rows(lambda group, number: "test" if group in ("g3", "g4", "g5") else "train")
    expected = preprocess(options_of(folder, "at-once", **job)).manifest
    done = spread(ranges)
    assert preprocess(options_of(folder, "spread", **job)).manifest.root_hash == expected.root_hash
    assert len(done) // ranges >= 8
    assert len(expected.splits) > 1


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("job", [{"group_by": "by"}, {"label_pattern": "(?P<group>team[0-9])"}])
def test_given_splits_that_divide_groups_are_refused(job, rows, spread):
    folder = rows(lambda group, number: ["train", "test", "validation"][number % 3])
    options = {"split": "column:fold", **job}
    with pytest.raises(InputError, match="groups of --group-by are in two splits") as at_once:
        preprocess(options_of(folder, "at-once", **options))
    done = spread(3)
    with pytest.raises(InputError) as in_rounds:
        preprocess(options_of(folder, "spread", **options))
    assert str(in_rounds.value) == str(at_once.value)
    assert done
