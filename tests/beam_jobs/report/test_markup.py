"""Text from a corpus cannot become markup, whatever it is."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.report.markup import Html, element, escape, foreign, style_sheet, table


def test_an_element():
    made = element("p", "a < b", element("br"), class_="x", hidden=None, open=True, aria_label='"')
    assert made == '<p class="x" open aria-label="&quot;">a &lt; b<br></p>'
    assert isinstance(made, Html)


def test_markup_is_not_escaped_twice_and_text_always_is():
    inner = element("code", "&")
    assert element("p", inner, [inner, "<"]) == ("<p><code>&amp;</code><code>&amp;</code>&lt;</p>")
    assert not isinstance(inner + "<b>", Html)  # an addition is text again
    assert not isinstance(f"{inner}", Html)
    assert escape(None) == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: element("script", "alert(1)"), "Element 'script' is not one of"),
        (lambda: element("p><script"), "Element 'p><script' is not one of"),
        (lambda: element("p", onclick="alert(1)"), "Attribute 'onclick' is not allowed"),
        (lambda: element("p", **{"x y": "1"}), "Attribute 'x y' is not allowed"),
        (lambda: element("img", src="https://example.com/x.png"), "is not a DataUri"),
        (lambda: element("img", src="data:image/svg+xml,<svg>"), "is not a DataUri"),
        (lambda: element("a", href="javascript:alert(1)"), "does not lead to an anchor"),
        (lambda: element("p", style="background:url(x)"), "more than positions and sizes"),
        (lambda: style_sheet("</style><script>"), "contains '<'"),
    ],
)
def test_what_no_report_may_have(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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


def test_a_table_names_rows_and_columns():
    made = table(("", "n"), [("x", 1)])
    assert '<th scope="col">n</th>' in made
    assert '<th scope="row">x</th><td>1</td>' in made
