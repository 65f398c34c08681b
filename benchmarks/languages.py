"""Detectors of languages compared: `python -m benchmarks.languages [--declarations DIR]`.

Accuracy and CPU time on real texts: the translations of Django's interface in about 90 languages
(pip install django), cut into pieces of 50 to 2,000 characters by a seed, and the Declaration of
Human Rights (the unpacked package udhr of NLTK's data). An answer is right if it is the language of
the translation; of languages that the model does not know nothing is asked. Detectors that are not
installed are left out: pip install pycld2 py3langid. Results go to results/languages.json.
"""

from __future__ import annotations

import argparse
import datetime
import gettext
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.text.cleaning.language import MODEL
from beam_jobs.text.cleaning.language_model import LanguageModel
from benchmarks.encoded_texts import declarations
from benchmarks.measure import machine

_HERE = Path(__file__).parent
_CHARS = (50, 200, 500, 2000)  # of a text
_TEXTS = 20  # of each language and size
_TURNS = 3  # the least CPU time counts
_PLACEHOLDER = re.compile(r"%(\(\w+\))?[-#0-9.]*[a-zA-Z%]|\{[^}]*\}|<[^>]*>|&\w+;")
# What Django calls a language: what detectors call it. Others are ISO 639 up to "_".
_NAMES = {"nb": "no", "sr_Latn": "sr", "fil": "tl", "io": "io"}
Detector = Callable[[list[str]], list[str]]


class Sample(NamedTuple):
    """A text, its language and where it is from."""

    source: str
    language: str
    chars: int
    text: str


def main() -> None:
    """Compares the detectors, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.languages", description=__doc__)
    parser.add_argument("--declarations", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    known = set(LanguageModel(MODEL).labels)
    found = [*_of_django(arguments.seed), *_of_declarations(arguments.declarations, arguments.seed)]
    samples = [one for one in found if one.language in known]
    results: dict[str, Any] = {}
    for name, make in _detectors().items():
        detect = make()
        results[name] = {}
        for source, chars in sorted({(one.source, one.chars) for one in samples}):
            own = [one for one in samples if (one.source, one.chars) == (source, chars)]
            results[name][f"{source}, {chars}"] = _measured(detect, own)
        print(f"{name:<28}", *(f"{k}: {v}" for k, v in results[name].items()), sep="\n  ")
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "seed": arguments.seed,
        "languages": len({one.language for one in samples}),
        "texts": len(samples),
    }
    file = _HERE / "results" / "languages.json"
    file.write_text(json.dumps(about | {"detectors": results}, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _measured(detect: Detector, samples: list[Sample]) -> dict[str, float]:
    texts = [one.text for one in samples]
    seconds = []
    for _ in range(_TURNS):
        begun = time.process_time()
        answers = detect(texts)
        seconds.append(time.process_time() - begun)
    right = sum(one.language == answer for one, answer in zip(samples, answers, strict=True))
    return {
        "texts": len(samples),
        "right": round(right / len(samples), 4),
        "microseconds": round(min(seconds) / len(samples) * 1e6, 1),
    }


def _detectors() -> dict[str, Callable[[], Detector]]:
    found: dict[str, Callable[[], Detector]] = {"fastText, 500 characters": _fasttext}
    for chars in (100, 200, 300, 500, 1000):
        found[f"shardmill, {chars} characters"] = lambda chars=chars: _shardmill(chars)
    if find_spec("pycld2"):
        found["pycld2"] = _cld2
    if find_spec("py3langid"):
        found["py3langid"] = _langid
    return found


def _shardmill(chars: int) -> Detector:
    model = LanguageModel(MODEL)

    def detect(texts: list[str]) -> list[str]:
        beginnings = pa.array([text[:chars] for text in texts], pa.large_string())
        return [model.labels[number] for number in model.most_likely(beginnings)[0].tolist()]

    return detect


def _fasttext() -> Detector:
    import fasttext

    predict = fasttext.load_model(str(MODEL)).f.predict

    def detect(texts: list[str]) -> list[str]:
        lines = (" ".join(text[:500].split()) + "\n" for text in texts)
        return [predict(line, 1, 0.0, "strict")[0][1].removeprefix("__label__") for line in lines]

    return detect


def _cld2() -> Detector:
    import pycld2

    def one(text: str) -> str:
        try:
            code: str = pycld2.detect(text[:500])[2][0][1]
        except pycld2.error:
            return ""
        return {"iw": "he", "zh-Hant": "zh", "nb": "no", "jw": "jv"}.get(code, code)

    return lambda texts: [one(text) for text in texts]


def _langid() -> Detector:
    import py3langid

    py3langid.classify("text")  # loads the model

    def one(text: str) -> str:
        code: str = py3langid.classify(text[:500])[0]
        return "no" if code == "nb" else code

    return lambda texts: [one(text) for text in texts]


def _of_django(seed: int) -> Iterator[Sample]:
    spec = find_spec("django")
    if spec is None or spec.origin is None:
        raise SystemExit("The texts are missing. Run: pip install django")
    locale = Path(spec.origin).parent
    names = sorted({path.parent.parent.name for path in locale.rglob("LC_MESSAGES/django.mo")})
    for name in names:
        language = _NAMES.get(name, name.partition("_")[0])
        texts = _messages(locale, name)
        if name != "en" and sum(map(len, texts)) > max(_CHARS):
            yield from _cut("Django", language, texts, random.Random(f"{seed} {name}"))


def _messages(locale: Path, name: str) -> list[str]:
    """The translations of Django into a language; messages that are not translated are English."""
    texts: list[str] = []
    for file in sorted(locale.rglob(f"locale/{name}/LC_MESSAGES/django.mo")):
        with file.open("rb") as stream:
            catalog = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
        pairs = sorted(catalog.items(), key=str)
        texts += [text for key, text in pairs if key and text != key and isinstance(key, str)]
    cleaned = (" ".join(_PLACEHOLDER.sub(" ", text).split()) for text in dict.fromkeys(texts))
    return [text for text in cleaned if len(text) > 20]


def _of_declarations(folder: Path | None, seed: int) -> Iterator[Sample]:
    for name, texts in (declarations(folder) if folder else {}).items():
        generator = random.Random(f"{seed} {name}")
        yield from _cut("Declaration", name.partition("_")[0], texts, generator)


def _cut(
    source: str, language: str, texts: list[str], generator: random.Random
) -> Iterator[Sample]:
    """Pieces of a text, each beginning with a whole message or paragraph."""
    for chars in _CHARS:
        for _ in range(_TEXTS):
            start = generator.randrange(len(texts))
            text = "\n".join(texts[start:] + texts[:start])[:chars]
            yield Sample(source, language, chars, text)


if __name__ == "__main__":
    main()
