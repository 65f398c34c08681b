"""What decides, beside our own code, what is staged of a document."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import unicodedata

from beam_jobs.text.cleaning.language import MODEL

_PACKAGES = ("charset-normalizer", "ftfy", "pyarrow", "resiliparse", "xxhash")
_FASTTEXT = ("fasttext-predict", "fasttext-predict-v2")  # the latter from Python 3.14 on


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that do the work, of Unicode, and the hash of the language model."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    found["fasttext"] = _first_version(_FASTTEXT)
    model = hashlib.sha256(MODEL.read_bytes()).hexdigest()[:16]
    return {**found, "unicode": unicodedata.unidata_version, "language-model": model}


def _first_version(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"
