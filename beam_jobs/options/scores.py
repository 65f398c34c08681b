"""The form of --score: MEASURE, or COLUMN[:KIND]=SCORER:ARGUMENT[:NAME=VALUE...], with commas."""

from __future__ import annotations

import re
from typing import NamedTuple

from beam_jobs.options.python_names import file_of_module
from beam_jobs.options.values import RESERVED_FEATURES, parse_features
from foundation import storage
from foundation.options import Form
from shard_format import UsageError

_COMMA = re.compile(r",(?![^\[\]]*\])")  # not one inside of a shape
_PARAMETER = re.compile(r":(?=[a-z]+=)")
_OF_FILES = ("fasttext", "ngram", "ngram-of", "onnx")  # whose argument is a file
_PYTHON = "python"


class ScoreSpec(NamedTuple):
    """One score as it is written.

    Attributes:
        column: Name of its column; empty for that of the measure.
        kind: Kind of the column; empty for that of the scorer.
        scorer: A measure, or the scorer that has the argument.
        argument: A file, for fastText with "#" and a label; or "module:function".
        parameters: (name, value) of further ones.
    """

    column: str
    kind: str
    scorer: str
    argument: str = ""
    parameters: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        kind = f":{self.kind}" if self.kind else ""
        column = f"{self.column}{kind}=" if self.column else ""
        further = [f"{name}={value}" for name, value in self.parameters]
        return column + ":".join(filter(None, [self.scorer, self.argument, *further]))

    @property
    def file(self) -> str:
        """Its file; empty without one."""
        if self.scorer in _OF_FILES:
            return self.argument.partition("#")[0]
        return dict(self.parameters).get("file", "")

    @property
    def label(self) -> str:
        """What is behind the "#" of the file."""
        return self.argument.partition("#")[2]


def parse_scores(flag: str, text: str) -> tuple[ScoreSpec, ...]:
    """The scores of "sharpness,quality=onnx:model.onnx".

    Raises:
        UsageError: One is malformed, or two have the same column.
    """
    specs = tuple(_parsed(flag, part.strip()) for part in _COMMA.split(text))
    columns = [spec.column or spec.scorer for spec in specs]
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"{flag} names the column {column!r} twice. Name a column once.")
    return specs


def _parsed(flag: str, text: str) -> ScoreSpec:
    named, equals, score = text.partition("=")
    head, *parameters = _PARAMETER.split(score if equals else text)
    scorer, colon, argument = head.partition(":")
    column, _, kind = named.partition(":") if equals else ("", "", "")
    with_argument = scorer in (*_OF_FILES, _PYTHON)
    if not scorer or (equals and not column) or with_argument != bool(colon and argument):
        raise UsageError(
            f"{flag} has {text!r}, which is neither a measure nor COLUMN=SCORER:FILE. Write for "
            "instance quality=fasttext:model.bin#good."
        )
    if with_argument and not column:
        raise UsageError(f"{flag} has {text!r} without a column. Write NAME={text}.")
    if column:
        parse_features(flag, f"{column}:{kind or 'float32'}", RESERVED_FEATURES)
    pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in parameters))
    return ScoreSpec(column, kind, scorer, argument, pairs)


def _absolute(text: str) -> str:
    return ",".join(str(_with_absolute_files(spec)) for spec in parse_scores("--score", text))


def _with_absolute_files(spec: ScoreSpec) -> ScoreSpec:
    """The score as processes in any working directory understand it."""
    parameters = dict(spec.parameters)
    if "tokenizer" in parameters:
        parameters["tokenizer"] = storage.absolute(parameters["tokenizer"])
    argument = spec.argument
    if spec.scorer in _OF_FILES:
        argument = storage.absolute(spec.file) + argument.removeprefix(spec.file)
    elif spec.scorer == _PYTHON and "file" not in parameters:
        parameters["file"] = file_of_module(argument.partition(":")[0])
    return spec._replace(argument=argument, parameters=tuple(parameters.items()))


SCORES = Form("SCORE,...", parse_scores, _absolute)
