"""What was found, in plain words and as commands."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping

from foundation.storage import place_of
from trainer.diagnosis.advice import Advice, Attempt
from trainer.diagnosis.verdict import Verdict
from trainer.options import TrainOptions, flags_of

# What a stage is called in a sentence.
NOUNS = {
    "storage": "storage",
    "parse": "parsing records",
    "decode": "decoding images",
    "augment": "augmentation",
    "batch": "putting batches together",
    "copy": "copying batches to the device",
    "step": "the model's step",
    "cores": "the number of CPU cores",
    "input": "the input pipeline",
}
# Of no part in what is measured.
_LEFT_OUT = ("data", "run_dir")


def sentence(verdict: Verdict, advice: tuple[Advice, ...]) -> str:
    """The bottleneck in one sentence, with its reason where one was found."""
    reasons = [each.attempt.because for each in advice if each.attempt.stage == verdict.stage]
    if reasons:
        return f"The bottleneck is {NOUNS[verdict.stage]}: {reasons[0]}."
    if verdict.stage == "step":
        return (
            f"Nothing on the input: the model is the limit, and the input pipeline has "
            f"{verdict.headroom:.1f} x headroom."
        )
    return (
        f"The bottleneck is {NOUNS[verdict.stage]}: it takes {verdict.share:.0%} of the time that "
        "holds the job back, and nothing that was tried makes it cheaper."
    )


def command(asked: TrainOptions, attempt: Attempt) -> str:
    """What to run for a change to take effect, one command a line."""
    if not attempt.command.startswith("shardmill"):
        return f"{attempt.command} {_train_command(asked, attempt.options)}".lstrip()
    # It builds another set, next to this one.
    words = shlex.split(attempt.command)
    place = words.index("--out") + 1
    words[place] = words[place].replace("DIR", str(asked.data), 1)
    train = _train_command(dataclasses.replace(asked, data=place_of(words[place])), attempt.options)
    return f"{shlex.join(words)}\n{train}"


def _train_command(asked: TrainOptions, changes: Mapping[str, str]) -> str:
    """`shardmill train` with the options that were given, and the changes."""
    given = {
        field.name: getattr(asked, field.name)
        for field in dataclasses.fields(TrainOptions)
        if field.name not in _LEFT_OUT and getattr(asked, field.name) != field.default
    }
    flags = [part for pair in (flags_of(given) | dict(changes)).items() for part in pair]
    words = ["shardmill", "train", str(asked.data), *(flag for flag in flags if flag)]
    return shlex.join(words)
