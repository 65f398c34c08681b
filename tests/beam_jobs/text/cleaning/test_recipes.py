"""--clean and what the manifest tells of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.text.cleaning import STEPS, make_steps, versions
from beam_jobs.text.cleaning.recipes import RECIPES
from shard_format import UsageError


def options(**values: object) -> TextOptions:
    return TextOptions(sources=("corpus",), out="set", **values)  # type: ignore[arg-type]


def test_two_spellings_of_a_recipe_are_one() -> None:
    said = options().config()["clean"]
    assert said == options(clean="default").config()["clean"]
    spelled = " html, ftfy:entities=false,nfc,controls,whitespace,length:min_chars=0,language"
    assert said == options(clean=spelled).config()["clean"]
    assert options(clean="none").config()["clean"] == []


def test_the_config_tells_every_parameter_in_order_and_is_json() -> None:
    said = options(clean="length:min_words=5,nfc,length", languages=None).config()["clean"]
    assert [step["step"] for step in said] == ["length", "nfc", "length"]
    assert [step.get("min_words") for step in said] == [5, None, 0]
    for recipe in RECIPES:
        config = options(clean=recipe).config()
        assert json.loads(json.dumps(config["clean"])) == config["clean"]


def test_languages_are_told_once_and_in_one_order() -> None:
    one = options(languages="en,de").config()
    assert one == options(languages=" de, en").config()
    assert (
        one
        == options(clean="html,ftfy,nfc,controls,whitespace,length,language:only=de+en").config()
    )


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("fnc", "Did you mean 'nfc'"),
        ("length:min=3", "min_chars=VALUE"),
        ("length:min_chars", "min_chars=VALUE"),
        ("length:min_chars=x", "type int"),
        ("html:all=maybe", "type bool"),
        ("gopher-quality:alpha_words=nan", "type float"),
        ("stop-words:words=+", "1 to 64"),
        ("language:only=xx", "xx"),
        ("nfc:x=1", "none at all"),
        ("contamination", "must name steps"),
    ],
)
def test_mistakes_are_told(recipe: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_steps(recipe)


def test_recipes_are_whole() -> None:
    english = [applied.name for applied in make_steps("web-en")]
    assert english[-4:] == ["gopher-repetition", "gopher-quality", "c4", "fineweb"]
    assert not {"c4", "gopher-quality", "stop-words"} & {a.name for a in make_steps("web")}
    assert not any(name.startswith("mask") for r in RECIPES for name in RECIPES[r].split(","))
    assert [applied.name for applied in make_steps(",".join(STEPS))] == list(STEPS)


def test_versions_name_all_that_decides() -> None:
    assert set(versions()) == {
        *("charset-normalizer", "fasttext", "ftfy", "language-model"),
        *("pyarrow", "resiliparse", "unicode", "xxhash"),
    }
    assert versions()["fasttext"] != "unknown"


def test_help_loads_no_kernels(repository: Path) -> None:
    program = (
        "import sys, beam_jobs.options; "
        "print([m for m in ('ftfy', 'fasttext', 'resiliparse') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=repository
    )
    assert done.stdout.strip() == "[]"
