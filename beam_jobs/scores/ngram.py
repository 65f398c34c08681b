"""Perplexity under a model of KenLM, ARPA or binary: NAME=ngram:FILE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from beam_jobs.options.scores import ScoreSpec
from beam_jobs.package_versions import module_versions
from beam_jobs.scores.base import Scorer, check_parameters, column, digest, local_file
from shard_format import UsageError


class Perplexity(Scorer):
    """10 to the power of the mean negative logarithm of a word; each line is a sentence."""

    def __init__(self, spec: ScoreSpec, is_text: bool) -> None:
        import kenlm  # an extra that few have

        check_parameters(spec)
        if not is_text:
            raise UsageError(f"--score {spec}: n-grams score texts, not images. Leave it out.")
        self._path = spec.file
        config = kenlm.Config()
        config.show_progress = False
        config.load_method = kenlm.LoadMethod.LAZY  # mapped: the workers share a binary model
        with local_file(spec.file) as path:
            self._model = kenlm.Model(path, config)
        self.features = (column(spec, "float32"),)

    @override
    def described(self) -> dict[str, Any]:
        return {"sha256": digest(self._path), **module_versions("kenlm")}

    @override
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return ([self._perplexity(text) for text in records],)

    def _perplexity(self, text: str) -> float:
        """NaN of a text without words."""
        lines = [line for line in text.split("\n") if line.strip()]
        # The end of a sentence counts as a word.
        words = sum(len(line.encode().split()) + 1 for line in lines)
        total = sum(self._model.score(line) for line in lines)
        return float(10 ** min(-total / words, 300)) if words else float("nan")
