"""A function of the user on a batch: NAME[:KIND]=python:MODULE:FUNCTION."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from beam_jobs.options.python_names import file_of_module, load_name
from beam_jobs.options.scores import ScoreSpec
from beam_jobs.scores.base import Scorer, check_parameters, digest
from shard_format import Feature, UsageError


class PythonFunction(Scorer):
    """The function, which gets a list of images or texts, and returns a value for each."""

    def __init__(self, spec: ScoreSpec, is_text: bool) -> None:
        check_parameters(spec, "file")
        self._name, self._file = spec.argument, spec.file
        self._function: Callable[[list[Any]], Sequence[Any]] = load_name(self._name, self._file)
        if not callable(self._function):
            raise UsageError(
                f"--score {spec}: {self._name!r} is {self._function!r:.80}, not a function of a "
                "list. Name one."
            )
        self.features = (Feature.parse(spec.column, spec.kind or "float32"),)

    @override
    def described(self) -> dict[str, Any]:
        version = getattr(self._function, "version", None)
        if version is None:  # another text of the module may compute something else
            file = self._file or file_of_module(self._name.partition(":")[0])
            return {"function": self._name, "code": digest(file)}
        return {"function": self._name, "version": str(version)}

    @override
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return (self._function(list(records)),)
