"""docs/options.md is what the declarations give, and every option is on it."""

from __future__ import annotations

import dataclasses

import pytest

from beam_jobs.options import OPTIONS
from beam_jobs.text.cleaning import STEPS
from foundation.options import declared, flag_of


@pytest.fixture(scope="module")
def generator(load_script):
    return load_script("docs/make_options.py")


def test_the_page_is_what_the_declarations_give(generator):
    written = generator.PAGE.read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/make_options.py"


def test_every_option_has_a_row(generator):
    written = generator.PAGE.read_text(encoding="utf-8")
    for kind in OPTIONS.values():
        for field in declared(kind):
            assert f"| `{flag_of(field.name)}" in written


def test_every_parameter_of_a_cleaning_step_has_a_row(generator):
    written = generator.PAGE.read_text(encoding="utf-8")
    for name, step in STEPS.items():
        own = written.partition(f"| `{name}` | | |")[2].partition("\n| `")[0]
        assert all(f"| | `{field.name}` |" in own for field in dataclasses.fields(step))
