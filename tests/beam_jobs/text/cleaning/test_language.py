"""Which language a document is in."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_jobs.text.cleaning.language import identify, known_languages
from shard_format import UsageError

ENGLISH = "The committee will meet again on Thursday to discuss what has to be done."
GERMAN = "Der Ausschuss wird am Donnerstag wieder zusammentreten, um das zu besprechen."
CHINESE = "委员会将于星期四再次开会讨论需要做什么。"

# What the model cannot tell is not here: Bosnian and Serbian in Cyrillic, Western Punjabi, Uyghur
# in Latin letters, Yoruba, and Macedonian, which it takes for Russian.
DECLARATION = {
    "Belorus_Belaruski": "be", "Bengali": "bn", "Bulgarian_Balgarski": "bg", "Czech": "cs",
    "Burmese_Myanmar": "my", "Chinese_Mandarin": "zh", "Esperanto": "eo", "Farsi_Persian": "fa",
    "Greek_Ellinika": "el", "Gujarati": "gu", "Hebrew_Ivrit": "he", "Hindi": "hi",
    "Hungarian_Magyar": "hu", "Japanese_Nihongo": "ja", "Kannada": "kn", "Kazakh": "kk",
    "Korean_Hankuko": "ko", "Lao": "lo", "Maltese": "mt", "Marathi": "mr",
    "Mongolian_Khalkha": "mn", "Nepali": "ne", "Osetin_Ossetian": "os", "Russian": "ru",
    "Sanskrit": "sa", "Sinhala": "si", "Tamil": "ta", "Turkish_Turkce": "tr", "Ukrainian": "uk",
    "Vietnamese": "vi",
}  # fmt: skip


def test_languages_are_reported(clean: Callable[..., Any]) -> None:
    cleaned = clean("language", ENGLISH, GERMAN, CHINESE, "", "\n")
    assert [row["language"] for row in cleaned.columns] == ["en", "de", "zh", "und", "und"]
    scores = [row["language_score"] for row in cleaned.columns]
    assert scores[3:] == [0.0, 0.0] and min(scores[:3]) > 0.8
    assert scores == [float(np.float32(round(score, 2))) for score in scores]


def test_other_languages_are_left_out(clean: Callable[..., Any]) -> None:
    cleaned = clean("language", ENGLISH, GERMAN, CHINESE, "", languages="zh,en")
    assert cleaned.reasons == [None, "language", None, "language"]
    assert cleaned.details[1] is not None and cleaned.details[1].startswith("it is 'de' with a")
    assert clean("language:min_score=1.01", ENGLISH, languages="en").reasons == ["language"]
    assert clean("language:only=de", ENGLISH).reasons == ["language"]


def test_only_the_beginning_is_looked_at(clean: Callable[..., Any]) -> None:
    text = ENGLISH * 10 + CHINESE * 100
    (row,) = clean("language:chars=500", text).columns
    assert row["language"] == "en"


def test_wrong_languages_are_refused(clean: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="english"):
        clean("language", languages="en,english")
    with pytest.raises(UsageError, match="needs the step 'language'"):
        clean("nfc", languages="en")
    assert {"en", "de", "zh"} < known_languages() and len(known_languages()) == 176


def test_threads_get_the_same(clean: Callable[..., Any]) -> None:
    found: list[list[tuple[str, float]]] = []

    def work() -> None:
        found.append([identify(text) for text in [ENGLISH, GERMAN, CHINESE] * 50])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[identify(text) for text in [ENGLISH, GERMAN, CHINESE] * 50]] * 4


def test_real_texts(corpora: Path, clean: Callable[..., Any]) -> None:
    folder = corpora / "bad-text" / "udhr-mixed-encodings"
    for name, language in DECLARATION.items():
        text = (folder / f"{name}-UTF8").read_bytes().decode("utf-8-sig", "ignore")
        assert clean("language", text).columns[0]["language"] == language, name
    reviews = sorted((corpora / "text-movie-reviews").glob("*/*.txt"))[::5]
    cleaned = clean("language:only=en", *(path.read_text("latin-1") for path in reviews))
    assert cleaned.reasons == [None] * len(reviews)
    with (corpora / "text-banking77" / "test.csv").open(encoding="utf-8", newline="") as file:
        questions = [row["text"] for row in csv.DictReader(file)]
    found = [row["language"] for row in clean("language", *questions).columns]
    assert found.count("en") / len(found) > 0.995  # a dozen words each
