"""All scores of a job, and the records for which one of them fails."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from beam_jobs.corpus.kept_values import kept_value
from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.options.scores import ScoreSpec, parse_scores
from beam_jobs.options.values import parse_kept
from beam_jobs.scores.base import Scorer, version_of
from foundation.errors import ShardmillError
from foundation.extras import naming_extras
from foundation.members import Members
from foundation.wording import did_you_mean
from shard_format import Feature, UsageError

# Each is created from its score, and whether the records are texts.
SCORERS: Members[Callable[[ScoreSpec, bool], Scorer]] = Members(
    {
        "fasttext": "beam_jobs.scores.fast_text:FastText",
        "ngram": "beam_jobs.scores.ngram:Perplexity",
        "ngram-of": "beam_jobs.scores.ngram_of:ReferencePerplexity",
        "onnx": "beam_jobs.scores.onnx:OnnxModel",
        "python": "beam_jobs.scores.python:PythonFunction",
    }
)
FAILED = "score-failed"
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")  # of an object, another one in every run
_MOST_DETAIL = 200  # characters

Row = tuple[Any, ...]


class ScoreColumns:
    """The columns of --score.

    Args:
        options: The job.
        measures: Columns of what the record type measures itself, by name.
        groups: Names that stand for several of them.
        is_text: Whether records are texts; else images.

    Raises:
        UsageError: A score is unknown, has the name of another column, or its model cannot be
            loaded or does not fit.

    Attributes:
        measures: Names of the measures of the job.
        features: The columns: those of the measures, then those of models.
    """

    def __init__(
        self,
        options: ImageOptions | TextOptions,
        measures: Mapping[str, Feature],
        groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        is_text: bool,
    ) -> None:
        specs = parse_scores("--score", options.score) if options.score else ()
        self._scorers = [_load(one, is_text) for one in specs if one.scorer in SCORERS]
        named = [
            (name, _measured(one, name, measures))
            for one in specs
            if one.scorer not in SCORERS
            for name in groups.get(one.scorer, (one.scorer,))
        ]
        self.measures = tuple(name for name, _ in named)
        self._measured = tuple(feature for _, feature in named)
        of_models = (feature for scorer in self._scorers for feature in scorer.features)
        self.features = (*self._measured, *of_models)
        self._specs = [one for one in specs if one.scorer in SCORERS]
        taken = [one.name for one in (*parse_kept(options.keep_columns), *self.features)]
        for name in taken:
            if taken.count(name) > 1:
                raise UsageError(
                    f"--score {name!r} has the name of another column of --score or "
                    "--keep-columns. Rename it: NAME=SCORE."
                )

    def described(self) -> list[dict[str, Any]]:
        """What decides the values, for the manifest and keys of units."""
        measured = zip(self.measures, self._measured, strict=True)
        return [
            *({"column": feature.name, "measure": name} for name, feature in measured),
            *(
                {"column": spec.column, "scorer": spec.scorer, **scorer.described()}
                for spec, scorer in zip(self._specs, self._scorers, strict=True)
            ),
        ]

    def rows(
        self, records: Sequence[Any], measured: Sequence[Sequence[Any]]
    ) -> list[Row | Rejection]:
        """The values of `features` of every record, or why it has none.

        Args:
            records: [n] images or texts.
            measured: [n] values for each of `measures`.
        """
        rows: list[Row | Rejection] = [() for _ in records]
        if measured:
            typed = [
                np.asarray(values, feature.type.dtype).tolist()
                for values, feature in zip(measured, self._measured, strict=True)
            ]
            rows = list(zip(*typed, strict=True))
        for scorer in self._scorers:
            for i, values in enumerate(_scored(scorer, records)):
                own = rows[i]
                if not isinstance(own, Rejection):
                    rows[i] = values if isinstance(values, Rejection) else (*own, *values)
        return rows

    def named(self, row: Row) -> dict[str, Any]:
        """The values of a record by column."""
        return {feature.name: value for feature, value in zip(self.features, row, strict=True)}


def _measured(spec: ScoreSpec, name: str, measures: Mapping[str, Feature]) -> Feature:
    if name not in measures:
        known = [*measures, *SCORERS]
        raise UsageError(
            f"--score names the unknown score {name!r}. "
            f"{did_you_mean(name, known) or 'Choose another one. '}Scores: "
            f"{', '.join(measures)}; and COLUMN=SCORER:... with {', '.join(SCORERS)}."
        )
    if spec.kind or spec.parameters or (spec.column and name != spec.scorer):
        raise UsageError(
            f"--score {spec}: this takes neither a kind nor parameters, and a group of measures no "
            f"name. Write {spec.scorer}."
        )
    return dataclasses.replace(measures[name], name=spec.column or measures[name].name)


def _load(spec: ScoreSpec, is_text: bool) -> Scorer:
    """The scorer with its model, which a process loads once.

    Raises:
        UsageError: It cannot be loaded, or does not fit.
    """
    with naming_extras():
        files = filter(None, (spec.file, dict(spec.parameters).get("tokenizer")))
        return _loaded(spec, is_text, tuple(map(version_of, files)))


@functools.lru_cache(maxsize=32)
def _loaded(spec: ScoreSpec, is_text: bool, versions: tuple[tuple[int, ...], ...]) -> Scorer:
    try:
        return SCORERS[spec.scorer](spec, is_text)
    except (ShardmillError, ModuleNotFoundError):
        raise
    except Exception as error:  # of a library, which has its own types
        said = _said(error).rstrip(".")
        raise UsageError(
            f"--score {spec}: the model cannot be used: {said}. Name a whole file of this kind."
        ) from error


def _scored(scorer: Scorer, records: Sequence[Any]) -> list[Row | Rejection]:
    """The values of some records; if a batch fails, those of each record alone."""
    if not len(records):
        return []
    try:
        columns = [list(values) for values in scorer(records)]
        for values in columns:
            if len(values) != len(records):
                raise ValueError(f"{len(values)} values for {len(records)} records")
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of Rust is not an Exception
        if len(records) > 1:
            return [row for one in records for row in _scored(scorer, [one])]
        return [_failed(f"{scorer.features[0].name!r}: {_said(error)}")]
    return [_checked(row, scorer.features) for row in zip(*columns, strict=True)]


def _checked(row: Row, features: Sequence[Feature]) -> Row | Rejection:
    """The values as the record has them."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in row]
    try:
        return tuple(
            kept_value({feature.name: value}, feature)
            for feature, value in zip(features, plain, strict=True)
        )
    except Rejection as rejection:
        return _failed(rejection.detail)


def _failed(detail: str) -> Rejection:
    return Rejection(FAILED, _ADDRESS.sub("0x...", detail)[:_MOST_DETAIL], stage="prepare")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
