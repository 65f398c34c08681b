"""Text from a corpus cannot become markup, whatever it is."""

from __future__ import annotations

import html
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from beam_jobs.report import markup
from beam_jobs.report.markup import foreign, render

TEMPLATES = sorted(pathlib.Path(markup.__file__).with_name("templates").glob("*.html"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_what_no_template_may_have(path):
    """Nothing may load or run, and no value may be outside of text and quoted attributes."""
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"<script|\son\w+\s*=|javascript:|https?:|//|url\(|@import", source)
    assert not re.search(r"\|\s*safe|autoescape|Markup", source)  # nothing turns escaping off
    plain = re.sub(r"\{[%#].*?[%#]\}", "", source, flags=re.DOTALL)
    plain = re.sub(r"\{\{.*?\}\}", "VALUE", plain, flags=re.DOTALL)
    assert not re.search(r"<[^>]*VALUE", re.sub(r'="[^"]*"', "", plain))
    assert set(re.findall(r'(?:href|src)="([^"]*)"', source)) <= {"#{{ anchor }}", "{{ preview }}"}
    for style in re.findall(r'style="([^"]*)"', source):
        shape = re.sub(r"\{\{ '%\.\df' % [^}]* \}\}", "1", style)
        assert re.fullmatch(r"(?:[a-z-]+:[0-9.]+(?:px|%);?)+", shape), style


def test_the_style_sheet_loads_nothing_and_ends_no_element():
    style = (TEMPLATES[0].parent / "style.css").read_text(encoding="utf-8")
    assert not re.search(r"<|url\(|@import|\{[{%#]", style)


def test_text_is_escaped_and_markup_is_not():
    assert render("note.html", {"text": "<b>\x00"}) == r'<p class="note">&lt;b&gt;\x00</p>'
    assert render("note.html", {"text": foreign("&")}) == '<p class="note"><bdi>&amp;</bdi></p>'


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        render("note.html", {})


@given(st.text(max_size=60))
def test_any_text_comes_back_as_text_that_can_be_seen(text):
    made = foreign(text, 10_000)
    inner = made.removeprefix("<bdi>").removesuffix("</bdi>")
    assert not set(inner) & set("<>\"'")
    assert html.unescape(inner).isprintable()
    assert made.encode("utf-8")


def test_direction_and_control_characters_are_shown():
    assert foreign("a\u202eb\x00\n\x1b]]>") == r"<bdi>a\u202eb\x00\n\x1b]]&gt;</bdi>"


def test_long_names_are_shortened():
    assert len(foreign("\x00" * 5000)) < 200
