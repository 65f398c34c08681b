"""What `shardmill train` prints of an epoch."""

import dataclasses
import io

import pytest

from cli.commands.train import _epoch_line, _numbers, _Show
from cli.console import Bars
from trainer import EpochDone, TrainOptions

EPOCH = EpochDone(
    epoch=3,
    loss=1.25,
    accuracy=0.5,
    val_loss=1.5,
    val_accuracy=0.25,
    learning_rate=0.1,
    examples_per_second=1234.4,
    loss_scale=None,
    input_wait=0.0125,
)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "epoch 3/9: loss 1.250; validation 25.0% right, loss 1.500; 1,234 examples/s; "
            "1.2% of the time waiting for input",
        ),
        (
            {"val_loss": None, "val_accuracy": None, "input_wait": None},
            "epoch 3/9: loss 1.250; 1,234 examples/s",
        ),
        (
            {"val_loss": None, "val_accuracy": None, "input_wait": None, "skipped": 3},
            "epoch 3/9: loss 1.250; 1,234 examples/s; 3 damaged records skipped",
        ),
        (
            {"val_perplexity": 4.5, "perplexity": 4.0, "tokens_per_second": 99.0},
            "epoch 3/9: loss 1.250; validation perplexity 4.50, loss 1.500; 99 tokens/s; "
            "1.2% of the time waiting for input",
        ),
    ],
)
def test_an_epoch_is_a_line(changes, line):
    epoch = dataclasses.replace(EPOCH, **changes)
    assert _epoch_line(epoch, 9) == line
    assert _numbers(epoch)[-1] == ("" if epoch.input_wait is None else "1.2%")


def test_lines_stay_above_the_bars():
    out = io.StringIO()
    with Bars(out) as bars:
        bars.update("train", 1, 4, "steps")
        bars.line(_epoch_line(EPOCH, 9))
        bars.update("train", 4, 4, "steps")
    assert "epoch 3/9: loss 1.250" in out.getvalue().splitlines()[0]


@pytest.mark.parametrize(
    ("asked", "split", "note"),
    [
        ("auto", "validation", ""),
        ("none", None, ""),
        ("auto", None, "data has no split validation, and test is not used to choose a model"),
        ("test", "test", "best.keras is chosen on the split test"),
    ],
)
def test_a_run_says_what_its_best_epoch_is_chosen_on(asked, split, note):
    out = io.StringIO()
    with Bars(out) as bars:
        _Show(bars, TrainOptions("data", "run", validation_split=asked))._note_split(split)
    said = out.getvalue()
    assert said.startswith(f"note: {note}") if note else not said
