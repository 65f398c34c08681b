"""Repairs: mojibake, normalization, control characters, white space, HTML."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ftfy
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from beam_jobs.text.cleaning.ftfy import ENTITIES, REPAIRS
from beam_jobs.text.cleaning.tags import without_loose_brackets
from tests.fixtures.proofs import examples

# What UTF-8 looks like once it was read as another encoding, once or twice.
CODECS = ["latin-1", "windows-1252", "macroman", "cp437", "windows-1251", "windows-1250"]


@st.composite
def mojibake(draw: st.DrawFn) -> str:
    latin = "a\n <&?\xe9\xfc\xdf\xf1\xc2\xe2\xa0\u2019\u201c\u2014\u20ac"
    alphabet = st.sampled_from(latin + "\u4e2d\u0434\u0627\U0001f600")
    text = draw(st.text(alphabet, max_size=20))
    for _ in range(draw(st.integers(0, 2))):
        text = text.encode("utf-8", "replace").decode(draw(st.sampled_from(CODECS)), "replace")
    return text


@settings(max_examples=examples(400))
@given(data=st.data())
@pytest.mark.parametrize(
    ("recipe", "config"), [("ftfy", REPAIRS), ("ftfy:entities=true", ENTITIES)]
)
def test_the_fast_way_gives_what_ftfy_gives(
    recipe: str,
    config: ftfy.TextFixerConfig,
    data: st.DataObject,
    nasty: SearchStrategy[str],
    clean: Callable[..., Any],
) -> None:
    documents = data.draw(st.lists(st.one_of(mojibake(), nasty), min_size=1, max_size=4))
    assert clean(recipe, *documents).texts == [ftfy.fix_text(text, config) for text in documents]


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("schÃ¶n", "schön"),
        ("âœ” No problems", "✔ No problems"),
        ("â€œquotedâ€\x9d", "\u201cquoted\u201d"),
        ("It doesnÃƒÂ¢Ã¢â€šÂ¬Ã¢â€žÂ¢t have eyebrows.", "It doesn\u2019t have eyebrows."),
        ("l\u2019humanit\u00e9 \u201cstays\u201d", "l\u2019humanit\u00e9 \u201cstays\u201d"),
        ("\uff26\uff35 \ufb01ne & &amp; \u2026", "\uff26\uff35 \ufb01ne & &amp; \u2026"),
        ("\x1b[36;44mblue\x1b[0m", "blue"),
    ],
)  # fmt: skip
def test_mojibake_is_repaired_and_style_is_not(
    broken: str, whole: str, clean: Callable[..., Any]
) -> None:
    assert clean("ftfy", broken).texts == [whole]


def test_entities_only_where_no_markup_is(clean: Callable[..., Any]) -> None:
    recipe = "ftfy:entities=true"
    assert clean(recipe, "a &amp; b", "<b>a &amp; b</b>").texts == ["a & b", "<b>a &amp; b</b>"]


@given(data=st.data())
def test_normalization_is_that_of_python(
    data: st.DataObject, nasty: SearchStrategy[str], clean: Callable[..., Any]
) -> None:
    marks = st.text("aeAe\u0301\u0308\u1100\u1161\u11a8\uac00\u212b\u0958\u0915\u093c\u0344")
    documents = data.draw(st.lists(st.one_of(nasty, marks), max_size=4))
    expected = [unicodedata.normalize("NFC", text) for text in documents]
    assert clean("nfc", *documents).texts == expected


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize(
    "text",
    [
        "tab\tand\nbreak\r\n\x85",
        f"emoji {FAMILY} \u2764\ufe0f\u200d\U0001f525 {ENGLAND}",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0995\u09cd\u200d \u0d28\u0d4d\u200d",  # Bengali and Malayalam: joiners that shape
        "\u0e1e\u0e23\u0e30\u200b\u0e40\u0e08\u0e49\u0e32",  # Thai, with the bounds of words
        "\u05d0\u200f (1) \u200e",
        "\u180a\u180e\u0600\u2019\ue000",
    ],
)
def test_characters_that_are_text_stay(text: str, clean: Callable[..., Any]) -> None:
    assert clean("controls", text).texts == [text]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\ufeffbegin\ufeff", "begin"),
        ("a\x00b\x7fc\x9fd", "abcd"),
        ("a\x0bb\x0cc\x1cd\x1fe", "a\nb\nc\nd e"),
        ("hy\xadphen zero\u200bwidth join\u200der\u200c", "hyphen zerowidth joiner"),
        ("\u202edrow\u202c \u2066x\u2069", "drow x"),
        ("tag\U000e0067\U000e007f", "tag"),
        ("\u2060\u2061\ufff9\ufffe\U000e0001x", "x"),
        (f"{FAMILY}\u200d\u200d!", f"{FAMILY}\u200d!"),
    ],
)
def test_characters_that_are_no_text_go(before: str, after: str, clean: Callable[..., Any]) -> None:
    assert clean("controls", before).texts == [after]


@given(data=st.data())
def test_nothing_else_is_touched(
    data: st.DataObject, nasty: SearchStrategy[str], clean: Callable[..., Any]
) -> None:
    text = data.draw(nasty)
    (after,) = clean("controls", text).texts
    removed = [char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Cn")]
    assert [c for c in after if unicodedata.category(c) not in ("Cc", "Cf", "Cn", "Zs")] == [
        c for c in removed if unicodedata.category(c) != "Zs"
    ]


@pytest.mark.parametrize(
    ("recipe", "before", "after"),
    [
        ("whitespace", "a\r\nb\rc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
        ("whitespace", "\ufeff"[1:] + "  a \t\n\u3000\xa0\n\n\n  b  ", "a\n\n  b"),
        ("whitespace:empty_lines=0", "a\n\n\nb", "a\nb"),
        ("whitespace:empty_lines=2", "a\n\n\n\n\nb", "a\n\n\nb"),
        ("whitespace:blanks=true", "  a \t b\n  c\td\n", "a b\nc d"),
        ("whitespace:blanks=true", "a\xa0b c\u3000\u3000d", "a\xa0b c d"),
    ],
)
def test_white_space(recipe: str, before: str, after: str, clean: Callable[..., Any]) -> None:
    assert clean(recipe, before).texts == [after]


PAGE = """<!DOCTYPE html><html><head><title>The &amp; title</title><script>var x = "no";</script>
<style>p {color: red}</style></head><body><nav><ul><li><a href="/">Home</a></li></ul></nav>
<main><h1>Head</h1><p>First <b>bold</b> paragraph &eacute;.</p><p>Second, with a
<a href="http://x.org/">link</a>.</p></main><footer>Imprint</footer></body></html>"""


def test_html_loses_markup_and_boilerplate(clean: Callable[..., Any]) -> None:
    (text,) = clean("html", PAGE, is_html=True).texts
    assert text == "Head\n\nFirst bold paragraph \xe9.\n\nSecond, with a link."
    assert clean("html", PAGE).texts == [PAGE]  # it is text until someone says that it is not
    assert clean("html:all=true", PAGE).texts == [text]
    assert clean("html,html", PAGE, is_html=True).texts == [text]
    (titled,) = clean("html:title=true", PAGE, is_html=True).texts
    assert titled == "The & title\n\n" + text
    (everything,) = clean("html:boilerplate=true", PAGE, is_html=True).texts
    assert "Home" in everything and "Imprint" in everything and "var x" not in everything


def test_html_without_text_is_left_out(clean: Callable[..., Any]) -> None:
    empty = ["", " ", "<p> </p>", "<script>x</script>", "<!-- x", "<img alt='x'>"]
    assert clean("html", *empty, is_html=True).reasons == ["no-text-in-html"] * len(empty)


def test_html_that_is_nested_too_deep_is_refused_at_once(clean: Callable[..., Any]) -> None:
    deep = "<div>" * 200_000 + "x" + "</div>" * 200_000
    flat = "<div>x</div>" * 20_000
    started = time.monotonic()
    cleaned = clean("html", deep, PAGE, flat, is_html=True)
    assert cleaned.reasons == ["html-too-deep", None, None]
    assert time.monotonic() - started < 60  # unguarded it takes many minutes


def test_ftfy_and_the_rest_take_real_bad_text(corpora: Path, clean: Callable[..., Any]) -> None:
    folder = corpora / "bad-text" / "naughty-strings"
    lines = [
        line
        for file in sorted(folder.glob("*.txt"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert len(lines) > 500
    cleaned = clean("ftfy", *lines)
    assert cleaned.texts == [ftfy.fix_text(line, REPAIRS) for line in lines]
    once = clean("default", *lines)
    assert set(once.reasons) <= {None, "empty"}
    again = [text for text in once.texts if text is not None]
    assert clean("nfc,controls,whitespace,length", *again).texts == again


SOME_TAGS = [  # before, after `tags`, after `html:all=true`
    ("because x<y and it was the best",) * 3,
    ("a<b and c, i<p, 1 < 2 <3, a <s and so on, see <br",) * 3,
    ("Good.<br /><br/>The <I>end</I> i<3.", "Good.\n\nThe end i<3.", "Good.\n\nThe end i<3."),
    ("<A HREF=\"a>b\" target=_blank rel='x' download>here</A> & &amp;", "here & &amp;", "here & &"),
    ("a<ul><li>b</li><li>c</li></ul>", "a\n\nb\nc\n", "a"),  # lists are menus to `html`
    ("<p>a<!-- no --></p><p>b</p>", "\na\n\nb\n", "a\n\nb"),
    ("<tr><td nowrap>a</td><td>b</td></tr>", "\n a b", "ab"),
    ("<user> and List<String> of </y>", "<user> and List<String> of </y>", " and List of"),
]


@pytest.mark.parametrize("texts", SOME_TAGS)
def test_what_is_no_tag_stays(texts: tuple[str, ...], clean: Callable[..., Any]) -> None:
    before, after, extracted = texts
    assert clean("tags", before).texts == [after]
    assert clean("html:all=true", before).texts == [extracted]
    assert clean("tags,html", PAGE, is_html=True).texts == clean("html", PAGE, is_html=True).texts


def test_tags_are_found_in_linear_time(clean: Callable[..., Any]) -> None:
    n = 200_000
    hostile = ["<a b='" * n, "<a " * n, "<a " + " " * n, "<a " + "x-y " * n, "<" * n, "<br>" * n]
    started = time.monotonic()
    clean("tags", *hostile)
    for text in hostile:
        without_loose_brackets(f"{text}>")
    assert time.monotonic() - started < 20  # 2 s; a quadratic search takes hours
