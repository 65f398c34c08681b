"""Every rule leaves out what lies beyond its threshold, and not what lies just before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from beam_jobs.text.cleaning.stop_words import PUNCTUATION, stop_words_found
from beam_jobs.text.cleaning.words import split_words
from tests.fixtures.proofs import examples


def words(count: int) -> str:
    """Different words of five letters."""
    return " ".join(f"w{'abcdefghij'[n // 100 % 10]}{n % 100:02d}x" for n in range(count))


def gopher(**off: object) -> str:
    """gopher-quality with only some rules on."""
    none: dict[str, object] = {
        "min_words": 0, "max_words": 10**9, "min_word_chars": 0, "max_word_chars": 10**9,
        "hashes": 10**9, "ellipses": 10**9, "bullet_lines": 1, "ellipsis_lines": 1,
        "alpha_words": 0, "min_stop_words": 0,
    }  # fmt: skip
    return "gopher-quality:" + ":".join(f"{k}={v}" for k, v in (none | off).items())


GOPHER = [
    ("gopher-few-words", gopher(min_words=50), words(50), words(49)),
    ("gopher-few-words", gopher(min_words=50), words(50), words(49) + " ... --"),
    ("gopher-many-words", gopher(max_words=100), words(100), words(101)),
    ("gopher-short-words", gopher(min_word_chars=3), "abc de abcd", "abc de abc"),
    ("gopher-long-words", gopher(max_word_chars=10), "a" * 10, "a" * 11 + " " + "b" * 10),
    ("gopher-hashes", gopher(hashes=0.1), words(20) + "##", words(20) + "###"),
    ("gopher-ellipses", gopher(ellipses=0.1), words(20) + "...\u2026", words(20) + "...\u2026..."),
    (
        "gopher-bullet-lines",
        gopher(bullet_lines=0.9),
        "\n".join(["  \u2022 one", *["- a"] * 8, "no"]),
        "\n\n".join(["\u2022 one", *["* a"] * 9]),
    ),
    (
        "gopher-ellipsis-lines",
        gopher(ellipsis_lines=0.3),
        "\n".join(["more...", "more\u2026  ", "more ...", *["x."] * 7]),
        "\n".join(["more...", "more\u2026", "more ...", "a...", *["x."] * 6]),
    ),
    ("gopher-alpha-words", gopher(alpha_words=0.8), "a b c d 1", "a b c 1 ?"),
    ("gopher-stop-words", gopher(min_stop_words=2), "The cat, OF me", "the the THE cat"),
    ("gopher-stop-words", gopher(min_stop_words=1), '"with"', "without"),
]
FINEWEB = "fineweb:line_punctuation=-1:short_lines=2:duplicate_line_chars=2:line_breaks=9"
LONG, SHORT = "x" * 31, "y" * 30
REST = [
    (
        "fineweb-line-punctuation",
        FINEWEB + ":line_punctuation=0.12",
        "\n".join(["ends.", "ends\u3002", "ends?\u201d", *["x"] * 21]),
        "\n".join(["ends.", "ends!", "ends?", *["x"] * 22]),
    ),
    (
        "fineweb-short-lines",
        FINEWEB + ":short_lines=0.67",
        "\n".join([*[SHORT] * 66, *[LONG] * 34]),
        "\n".join([*[SHORT] * 67, *[LONG] * 33]),
    ),
    (
        "fineweb-duplicate-line-chars",
        FINEWEB + ":duplicate_line_chars=0.01",
        "\n".join(["a", "a", "b" * 99]),
        "\n".join(["a", "a", "b" * 98]),
    ),
    (
        "fineweb-line-breaks",
        FINEWEB + ":line_breaks=0.3",
        "a\na\na\na b c d e f g",
        "a\na\na\na b c d e f",
    ),
    ("few-stop-words", "stop-words:min_share=0.25", "the a b c", "the a b c d"),
    ("few-different-stop-words", "stop-words:min_different=2", "the of", "the the"),
    ("many-symbols", "symbols", "+ aaaaaaaaa", "+ aaaaaaaa"),
    ("many-digits", "symbols", "1 aaa", "12 aaaaa"),
    ("many-punctuation", "symbols", ". aaa", ".. aaaaa"),
    ("empty", "length", "x", " \n\u3000"),
    ("empty", "length:min_chars=5", "xxxxx", ""),
    ("too-short", "length:min_chars=5", "\U0001f600" * 5, "\U0001f600" * 4),
    ("too-long", "length:max_chars=5", "xxxxx", "xxxxxx"),
    ("few-words", "length:min_words=3", "a b c", "a b"),
    ("many-words", "length:max_words=3", "a b c", "a b c d"),
]


def repetition(**on: object) -> str:
    """gopher-repetition with only some rules on."""
    names = [f"duplicate_{what}" for what in ("lines", "paragraphs", "line_chars")]
    names += ["duplicate_paragraph_chars", *(f"top_{n}_gram" for n in (2, 3, 4))]
    names += [f"duplicate_{n}_grams" for n in range(5, 11)]
    return "gopher-repetition:" + ":".join(f"{name}={on.get(name, 9)}" for name in names)


# 100 characters each: the parts that repeat, and what else there is.
def twice(n: int, share: int, whole: int = 100) -> str:
    """n words of `share` characters that stand there twice, in `whole` characters."""
    part = " ".join(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"][:n])
    part += "z" * (share - (n if n > 4 else 2 * n - 1))
    filler = "-".join(str(k) for k in range(whole))
    text = f"{part} {filler} {part}"
    return f"{part} {filler[: len(filler) - (len(text) - whole)]} {part}"


REPETITION = [
    (
        "duplicate-lines",
        repetition(duplicate_lines=0.3),
        "a\na\n a\na \nbbb\nc\nd\ne\nf\ng",
        "a\na\na\nb\nc",
    ),
    ("duplicate-line-chars", repetition(duplicate_line_chars=0.2), "aa\naa\nxxxx", "aa\naa\nxxx"),
    (
        "duplicate-paragraphs",
        repetition(duplicate_paragraphs=0.3),
        "a\nb\n\na\nb\n\na\nb\n\na\nb\n\n" + "\n\n".join("cdefgh"),
        "a\nb\n\na\nb\n\n\na\nb\n\na\nb\n\n" + "\n\n".join("cdefg"),
    ),
    (
        "duplicate-paragraph-chars",
        repetition(duplicate_paragraph_chars=0.2),
        "aa\n\naa\n\nxx",
        "aa\n\naa\n\nx",
    ),
    *(
        (
            f"top-{n}-gram",
            repetition(**{f"top_{n}_gram": share / 100}),
            twice(n, share // 2),
            twice(n, share // 2, 99),
        )
        for n, share in ((2, 20), (3, 18), (4, 16))
    ),
    *(
        (
            f"duplicate-{n}-grams",
            repetition(**{f"duplicate_{n}_grams": share / 100}),
            twice(n, share),
            twice(n, share, 99),
        )
        for n, share in zip(range(5, 11), range(15, 9, -1), strict=True)
    ),
]


@pytest.mark.parametrize(("reason", "recipe", "kept", "out"), [*GOPHER, *REST, *REPETITION])
def test_threshold(
    reason: str, recipe: str, kept: str, out: str, clean: Callable[..., Any]
) -> None:
    cleaned = clean(recipe, kept, out)
    assert cleaned.reasons == [None, reason], cleaned.details
    assert cleaned.texts == [kept, None]


def test_repeated_runs_that_overlap_count_once(clean: Callable[..., Any]) -> None:
    # a b c d e a b c d e a b c d e: ten words stood there before, whatever runs they are in.
    text = " ".join(["a", "b", "c", "d", "e"] * 3)
    cleaned = clean(repetition(duplicate_5_grams=0.1), text)
    assert cleaned.details == [f"it is {10 / len(text):.4f} (10 of {len(text)})"]


def naive_top(text: str, n: int) -> int:
    parts = text.split()
    grams = Counter(" ".join(parts[i : i + n]) for i in range(len(parts) - n + 1))
    most = max(grams.values(), default=0)
    return most * max((len(g) for g, c in grams.items() if c == most), default=0) * (most > 1)


def naive_duplicates(text: str, n: int) -> int:
    parts = text.split()
    seen: set[tuple[str, ...]] = set()
    marked: set[int] = set()
    for i in range(len(parts) - n + 1):
        gram = tuple(parts[i : i + n])
        if gram in seen:
            marked.update(range(i, i + n))
        seen.add(gram)
    return sum(len(parts[i]) for i in marked)


@settings(max_examples=examples(200))
@given(text=st.lists(st.sampled_from(["a", "bb", "\xe9", "d", " "]), max_size=60).map(" ".join))
def test_shares_of_repetition_are_those_that_counting_gives(
    text: str, clean: Callable[..., Any]
) -> None:
    for n in range(2, 11):
        kind = f"top_{n}_gram" if n < 5 else f"duplicate_{n}_grams"
        part = naive_top(text, n) if n < 5 else naive_duplicates(text, n)
        (detail,) = clean(repetition(**{kind: 0}), text).details
        assert detail == (f"it is {part / len(text):.4f} ({part} of {len(text)})" if part else None)


@given(data=st.data())
def test_the_first_rule_is_the_reason(
    data: st.DataObject, nasty: SearchStrategy[str], clean: Callable[..., Any]
) -> None:
    text = data.draw(nasty)
    count = len([word for word in text.split() if any(c.isalnum() for c in word)])
    (reason,) = clean("gopher-quality", text).reasons
    assert (reason == "gopher-few-words") == (count < 50)


PROSE = "This is one sentence of six words. Is this the second one? It is!"


def c4(**on: object) -> str:
    none = {"terminal_punctuation": "false", "min_words_per_line": 0, "max_word_chars": 0}
    none |= dict.fromkeys(["javascript", "policy", "citations"], "false")
    none |= {"lorem_ipsum": "false", "curly_brackets": "false", "min_sentences": 0}
    return "c4:" + ":".join(f"{k}={v}" for k, v in (none | on).items())


@pytest.mark.parametrize(
    ("recipe", "before", "after"),
    [
        (c4(terminal_punctuation="true"), 'One.\nTwo\n3!\n4?\n"5"\nSix...\n', 'One.\n3!\n4?\n"5"'),
        (c4(terminal_punctuation="true"), "Menu\n\nOne.\nTwo\n\nFoot\n\nThree.", "One.\n\nThree."),
        (c4(min_words_per_line=5), "a b c d e\na b c d\n f g h i j", "a b c d e\nf g h i j"),
        (c4(min_words_per_line=5),
         " as it\u00a0is, nothing cut \n", " as it\u00a0is, nothing cut \n"),
        (c4(max_word_chars=9), "a 123456789\nb 1234567890\nc", "a 123456789\nc"),
        (c4(javascript="true"), "a\nPlease enable JavaScript now\nb", "a\nb"),
        (c4(policy="true"), "a\nOur Privacy Policy.\nThis site uses cookies.\nb", "a\nb"),
        (c4(citations="true"),
         "Yes.[1] No[2].[] It[edit] is[citation needed]. [a]", "Yes. No. It is. [a]"),
    ],
)  # fmt: skip
def test_c4_cuts_lines(recipe: str, before: str, after: str, clean: Callable[..., Any]) -> None:
    cleaned = clean(recipe, "other", before, "other")
    assert cleaned.texts[1] == (after if after else None)


@pytest.mark.parametrize(
    ("reason", "recipe", "kept", "out"),
    [
        ("c4-lorem-ipsum", c4(lorem_ipsum="true"), "lorem  ipsum", "x Lorem Ipsum y"),
        ("c4-curly-bracket", c4(curly_brackets="true"), "a }", "a { b"),
        ("c4-few-sentences", c4(min_sentences=3), PROSE, "One of two. Two"),
        ("c4-few-sentences", c4(min_sentences=3), "One\nTwo\n3.5 is e.g. three", "One\nTwo..."),
    ],
)
def test_c4_leaves_out_pages(
    reason: str, recipe: str, kept: str, out: str, clean: Callable[..., Any]
) -> None:
    assert clean(recipe, kept, out).reasons == [None, reason]


def test_c4_bad_words_are_the_users(tmp_path: Any, clean: Callable[..., Any]) -> None:
    words_file = tmp_path / "bad.txt"
    words_file.write_text("darn\nOh Dear\n\n")
    recipe = c4(bad_words=words_file)
    cleaned = clean(recipe, "darned", "A DARN thing", "oh dear!", "oh, dear")
    assert cleaned.reasons == [None, "c4-bad-word", "c4-bad-word", None]
    assert cleaned.details[1:3] == ["'darn' is in it", "'oh dear' is in it"]


def test_stop_words_are_those_of_python(nasty: Any) -> None:
    known = ("the", "of", "i\u0307", "\u03c3", "word", "\xe9")
    marks = ["", "'", '"', "\u2019", "\u201c", "(", "...", "\u2026", "-", "\x7f"]
    upper = st.sampled_from(["THE", "Of", "\u0130", "\u03a3", "Word", "\xc9", "\u212a", "them"])
    marked = st.tuples(st.sampled_from(marks), upper, st.sampled_from(marks)).map("".join)

    @given(st.lists(st.one_of(nasty, st.lists(marked).map(" ".join)), max_size=4))
    def check(texts: list[str]) -> None:
        words = split_words(pa.array(texts, pa.large_string()))
        expected = [
            len({word.lower().strip(PUNCTUATION) for word in text.split()} & set(known))
            for text in texts
        ]
        assert stop_words_found(words, known).tolist() == expected

    check()
