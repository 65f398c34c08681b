"""Which language a document is in."""

from __future__ import annotations

import csv
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from beam_jobs.text.cleaning.language import MODEL, known_languages
from beam_jobs.text.cleaning.language_model import LanguageModel
from shard_format import InputError, UsageError

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
    columns: list[Any] = []

    def work() -> None:
        columns.append(clean("language", *[ENGLISH, GERMAN, CHINESE] * 50).columns)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert columns == [clean("language", *[ENGLISH, GERMAN, CHINESE] * 50).columns] * 4


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(MODEL)


@pytest.fixture(scope="module")
def by_fasttext() -> Callable[[str], tuple[str, float]]:
    """fastText's own answer, of a text with words."""
    loaded = fasttext.load_model(str(MODEL)).f

    def identify(text: str) -> tuple[str, float]:
        ((score, label),) = loaded.predict(" ".join(text.split()) + "\n", 1, 0.0, "strict")
        return label.removeprefix("__label__"), score

    return identify


def check_as_fasttext(
    texts: list[str], model: LanguageModel, by_fasttext: Callable[[str], tuple[str, float]]
) -> None:
    numbers, likely = model.most_likely(pa.array(texts, pa.large_string()))
    for text, number, share in zip(texts, numbers, likely, strict=True):
        if not text.split():
            assert share == 0
            continue
        language, score = by_fasttext(text)
        assert abs(share - min(score, 1.0)) < 1e-5, text
        assert model.labels[number] == language or score < 0.01, text


def test_the_model_is_that_of_fasttext(
    corpora: Path, model: LanguageModel, by_fasttext: Callable[[str], tuple[str, float]]
) -> None:
    """In 300 languages, from 12 to 500 characters, in one batch and in several."""
    generator = random.Random(0)
    texts = ["", " \n", "a", "\u4e2d", "\U0001f600", "x" * 3000, "\u00e9" * 1000]
    for path in sorted((corpora / "bad-text" / "udhr-mixed-encodings").iterdir()):
        # fastText ends a word at a zero byte, and a text at "</s>".
        text = path.read_bytes().decode("utf-8", "replace").replace("\0", " ")
        for size in (12, 60, 500):
            start = generator.randrange(max(1, len(text) - size))
            texts.append(text[start : start + size])
    check_as_fasttext(texts, model, by_fasttext)
    whole = model.most_likely(pa.array(texts, pa.large_string()))
    alone = [model.most_likely(pa.array([text], pa.large_string())) for text in texts[::20]]
    assert [one[0][0] for one in alone] == whole[0][::20].tolist()
    # Sums are exact; exp and log may differ in their last bit.
    np.testing.assert_allclose([one[1][0] for one in alone], whole[1][::20], rtol=1e-12)


def test_any_text_is_identified_as_by_fasttext(
    nasty: Any, model: LanguageModel, by_fasttext: Callable[[str], tuple[str, float]]
) -> None:
    @given(nasty)
    def check(text: str) -> None:
        check_as_fasttext([text.replace("\0", " ")], model, by_fasttext)

    check()


def test_another_model_is_refused(tmp_path: Path) -> None:
    changed = bytearray(MODEL.read_bytes())
    changed[8 + 4 * 5] = 2  # runs of two words
    (tmp_path / "model").write_bytes(changed)
    with pytest.raises(InputError, match=r"fastText's lid\.176\.ftz"):
        LanguageModel(tmp_path / "model")


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
    languages = [row["language"] for row in clean("language", *questions).columns]
    assert languages.count("en") / len(languages) > 0.995  # a dozen words each
