"""A supervised fastText classifier: NAME=fasttext:FILE[#LABEL]."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Sequence
from typing import Any

import fasttext
from typing_extensions import override

from beam_jobs.options.scores import ScoreSpec
from beam_jobs.package_versions import module_versions
from beam_jobs.scores.base import Scorer, check_parameters, column, digest, local_file
from foundation.wording import did_you_mean
from shard_format import UsageError

_MAGIC, _VERSIONS, _SUPERVISED = 793712314, (11, 12), 3
_LABEL = "__label__"
_ENTRY = re.compile(rb"([^\0]*)\0.{8}([\0\1])", re.DOTALL)  # a word or label, count, which of them
_DIGITS = 6  # the last bits of exp and log differ between processors


class FastText(Scorer):
    """The model, computed by fastText's own code.

    With a label, its probability; without one, the most likely label and its probability.
    """

    def __init__(self, spec: ScoreSpec, is_text: bool) -> None:
        check_parameters(spec)
        if not is_text:
            raise UsageError(f"--score {spec}: fastText scores texts, not images. Leave it out.")
        self._path, self._label = spec.file, spec.label
        with local_file(self._path) as path:
            labels = _labels(path)
            self._model = fasttext.load_model(path).f
        if self._label and self._label not in labels:
            raise UsageError(
                f"--score {spec}: the model has no label {self._label!r}. "
                f"{did_you_mean(self._label, labels)}Its labels: {', '.join(labels[:20])}"
                f"{', ...' if labels[20:] else ''}."
            )
        if self._label:
            self.features = (column(spec, "float32"),)
        else:
            self.features = (column(spec, "text"), column(spec, "float32", "_score"))

    @override
    def described(self) -> dict[str, Any]:
        return {
            "sha256": digest(self._path),
            "label": self._label,
            **module_versions("fasttext"),
        }

    @override
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        lines = [f"{text}\n" for text in (text.replace("\n", " ") for text in records)]
        most = -1 if self._label else 1
        predicted = [self._model.predict(line, most, 0.0, "strict") for line in lines]
        if self._label:
            label = _LABEL + self._label
            return ([_rounded(dict(map(reversed, one)).get(label, 0.0)) for one in predicted],)
        best = [one[0] if one else (0.0, "") for one in predicted]
        names = [name.removeprefix(_LABEL) for _, name in best]
        return names, [_rounded(score) for score, _ in best]


def _rounded(score: float) -> float:
    return round(min(score, 1.0), _DIGITS)  # fastText adds 1e-5 before it takes logarithms


def _labels(path: str) -> list[str]:
    """The labels of a model, whose file is checked: fastText reads beyond the end of a cut one.

    Raises:
        ValueError: It is another file, or a part is missing.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < 96 or struct.unpack_from("<i", data)[0] != _MAGIC:
            raise ValueError("it is no model of fastText")
        _, version, dim, *_, model = struct.unpack_from("<10i", data)
        if version not in _VERSIONS or model != _SUPERVISED:
            raise ValueError("it is no supervised model of fastText")
        entries, _, labels = struct.unpack_from("<3i", data, 64)
        names, position = [], 92
        for _ in range(entries):
            entry = _ENTRY.match(data, position)
            if entry is None:
                raise ValueError("its words are damaged")
            position = entry.end()
            if entry[2] == b"\1":
                names.append(entry[1].decode().removeprefix(_LABEL))
        # At the end are the numbers of rows and columns, and the weights of the labels.
        end = len(data) - 16 - 4 * labels * dim
        if (
            len(names) != labels
            or end < position
            or struct.unpack_from("<2q", data, end) != (labels, dim)
        ):
            raise ValueError("it is not whole")
    return names
