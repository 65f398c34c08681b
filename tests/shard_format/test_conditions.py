"""The language of conditions, against a plain evaluation of rows in Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_format import UsageError
from shard_format.conditions import Expression
from tests.fixtures.proofs import examples

LANGUAGES = ("en", "de", "", None)
ROWS: list[dict[str, Any]] = [
    {
        "words": None if number % 11 == 7 else number * 7 % 31 - 4,
        "score": None if number % 7 == 3 else np.float32(number / 10).item(),
        "lang": LANGUAGES[number % 4],
        "good": (True, False, None)[number % 3],
    }
    for number in range(90)
]
SCHEMA = pa.schema(
    [
        pa.field("words", pa.int32()),
        pa.field("score", pa.float32()),
        pa.field("lang", pa.string()),
        pa.field("good", pa.bool_()),
    ]
)
TABLE = pa.concat_tables(
    [pa.Table.from_pylist(ROWS[:40], SCHEMA), pa.Table.from_pylist(ROWS[40:], SCHEMA)]
)


class Term(NamedTuple):
    """A text of the language, and what it means of a row; None stands for no value."""

    text: str
    of: Callable[[dict[str, Any]], Any]


def applied(function: Callable[..., Any], *terms: Term) -> Callable[[dict[str, Any]], Any]:
    """A function of values, which has none if one of them is missing."""

    def of(row: dict[str, Any]) -> Any:
        values = [term.of(row) for term in terms]
        return None if None in values else function(*values)

    return of


def both(one: Term, other: Term) -> Callable[[dict[str, Any]], Any]:
    def of(row: dict[str, Any]) -> Any:
        values = [one.of(row), other.of(row)]
        return False if False in values else None if None in values else True

    return of


def either(one: Term, other: Term) -> Callable[[dict[str, Any]], Any]:
    def of(row: dict[str, Any]) -> Any:
        values = [one.of(row), other.of(row)]
        return True if True in values else None if None in values else False

    return of


def within(column: Term, items: list[Any]) -> Callable[[dict[str, Any]], Any]:
    def of(row: dict[str, Any]) -> Any:
        value = column.of(row)
        return (True if None in items else None) if value is None else value in items

    return of


def column(name: str) -> Term:
    return Term(name, lambda row: row[name])


def constant(value: Any) -> Term:
    return Term(repr(value), lambda row: value)


def negated(term: Term) -> Term:
    return Term(f"not ({term.text})", applied(operator.not_, term))


OPERATORS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": lambda one, other: None if other == 0 else one / other,
}  # fmt: skip

NUMBERS = [column("words"), column("score")]
numbers = st.recursive(
    st.one_of(
        st.sampled_from(NUMBERS),
        st.integers(-9, 30).map(constant),
        st.integers(-20, 90).map(lambda one: constant(one / 8)),
    ),
    lambda inner: st.builds(
        lambda one, sign, other: Term(
            f"({one.text} {sign} {other.text})", applied(ARITHMETIC[sign], one, other)
        ),
        inner,
        st.sampled_from(list(ARITHMETIC)),
        inner,
    ),
    max_leaves=4,
)
texts = st.one_of(st.just(column("lang")), st.sampled_from(["en", "fr", ""]).map(constant))


def compared(one: Term, sign: str, other: Term) -> Term:
    return Term(f"{one.text} {sign} {other.text}", applied(OPERATORS[sign], one, other))


def chained(one: Term, middle: Term, other: Term) -> Term:
    first, second = compared(one, "<=", middle), compared(middle, "<", other)
    return Term(f"{one.text} <= {middle.text} < {other.text}", both(first, second))


def listed(one: Term, items: list[Any], kind: str) -> Term:
    term = Term(f"{one.text} {kind} {items!r}", within(one, items))
    return term if kind == "in" else Term(term.text, applied(operator.not_, term))


signs = st.sampled_from(list(OPERATORS))
kinds = st.sampled_from(["in", "not in"])
comparisons = st.one_of(
    st.builds(compared, numbers, signs, numbers),
    st.builds(compared, texts, signs, texts),
    st.builds(chained, numbers, numbers, numbers),
    st.builds(
        listed,
        st.sampled_from(NUMBERS),
        st.lists(st.one_of(st.integers(-4, 30), st.just(0.5), st.none()), min_size=1, max_size=4),
        kinds,
    ),
    st.builds(
        listed, st.just(column("lang")), st.lists(st.sampled_from(LANGUAGES), max_size=3), kinds
    ),
    st.sampled_from(["words", "score", "lang", "good"]).map(
        lambda name: Term(f"{name} is None", lambda row: row[name] is None)
    ),
    st.sampled_from(["words", "lang"]).map(
        lambda name: Term(f"{name} is not None", lambda row: row[name] is not None)
    ),
    st.just(column("good")),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda a, b: Term(f"({a.text}) and ({b.text})", both(a, b)), inner, inner),
        st.builds(lambda a, b: Term(f"({a.text}) or ({b.text})", either(a, b)), inner, inner),
        inner.map(negated),
    ),
    max_leaves=5,
)


def parsed(text: str) -> Expression:
    return Expression(text, "--where ", SCHEMA.names, "the records")


def has_column(term: Term) -> bool:
    return any(name in term.text for name in SCHEMA.names)


@given(conditions.filter(has_column))
@settings(max_examples=examples(400), deadline=None)
def test_a_condition_selects_what_python_does(term: Term) -> None:
    assert parsed(term.text).selects(TABLE).tolist() == [term.of(row) is True for row in ROWS]


@given(conditions, numbers, numbers)
@settings(max_examples=examples(200), deadline=None)
def test_a_number_is_what_python_computes(test: Term, one: Term, other: Term) -> None:
    text = f"{one.text} if {test.text} else {other.text} + 0 * words"
    values = parsed(text).numbers(TABLE)
    for row, value in zip(ROWS, values.tolist(), strict=True):
        chosen = one.of(row) if test.of(row) is True else other.of(row)
        if test.of(row) is not True and row["words"] is None:
            chosen = None
        assert math.isnan(value) if chosen is None else math.isclose(value, chosen, abs_tol=1e-9)


def test_products_are_of_64_bits() -> None:
    sides = pa.table({"width": pa.array([70_000], pa.int32())})
    area = Expression("width * width", "--sample-weight ", ["width"], "the records")
    assert area.numbers(sides).tolist() == [70_000**2]
    large = pa.table({"width": [2**24 + 1]})
    for text in ("width > 16777216.0", "width * 0.5 > 8388608", "width > 4096 * 4096"):
        assert Expression(text, "where=", ["width"], "a.arrow").selects(large).tolist() == [True]


def test_a_further_label_and_a_text_of_a_dictionary() -> None:
    table = pa.table(
        {
            "label.colour": pa.array([0, 1, None], pa.int64()),
            "lang": pa.array(["en", None, "de"]).dictionary_encode(),
        }
    )
    names = {"label.colour": ("red", "blue")}

    def selected(text: str) -> list[bool]:
        where = Expression(text, "where=", table.column_names, "a.arrow", names)
        return where.selects(table).tolist()

    assert selected("label.colour == 'blue'") == [False, True, False]
    assert selected("label.colour not in ['blue']") == [True, False, False]
    assert selected("lang == 'de' or label.colour is None") == [False, False, True]
    with pytest.raises(UsageError, match="names the class 'green'"):
        selected("label.colour in ['green']")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("words in [1, [2]]", "does not fit|is no condition"),
        ("words in [1, 'a']", "does not fit the columns words"),
        ("words in [1, words]", "is no condition"),
        ("lang * 2 > 3", "does not fit the columns lang"),
        ("words if lang else 3", "does not fit the columns"),
        ("words + 1", "gives values of type int64"),
        ("score.other > 3", "is not known"),
        ("(lambda: words)()", "is not known"),
        ("[words for words in good]", "is not known"),
        ("f'{words}' == 'a'", "is not known"),
        ("words > 1; 2", "is no condition"),
        ("not " * 3000 + "good", "is no condition"),
    ],
)
def test_what_is_no_condition(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(text).check(SCHEMA, is_number=False)


def test_what_is_no_number() -> None:
    for text in ("words > 3", "lang", "good"):
        with pytest.raises(UsageError, match="gives values of type"):
            parsed(text).check(SCHEMA, is_number=True)
