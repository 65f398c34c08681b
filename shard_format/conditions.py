"""Conditions and arithmetic on columns of records, in the syntax of Python.

docs/curation.md has the grammar. A text is parsed by Python's own parser, and becomes an expression
of Arrow; nothing of it is called. A value that is missing makes what is computed from it missing,
as in SQL: a record without a value is selected by no comparison of it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from foundation.errors import UsageError

_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_RULE = (
    "Write columns, numbers, texts in quotes, True, False and None, with == != < <= > >= in, "
    "and or not, + - * /, A if B else C, such as \"words > 20 and language == 'en'\""
)
_NO_NAMES: Mapping[str, Any] = {}


class Expression:
    """A condition, or a number, that is computed for each record.

    Args:
        text: In the syntax of Python.
        option: The option that has it, for messages: "where=" or "--where ".
        names: Columns that it may name.
        place: What has these columns, for messages.
        class_names: By the column of a label with numbers the names of its classes, which may be
            compared with.
        missing: What to do about columns that some sets have, by their names, for messages.

    Attributes:
        columns: Names of the columns that it has.

    Raises:
        UsageError: It is malformed, or names an unknown column or class.
    """

    def __init__(
        self,
        text: str,
        option: str,
        names: Sequence[str],
        place: object,
        class_names: Mapping[str, tuple[str, ...]] = _NO_NAMES,
        missing: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self._shown, self._names, self._place = f"{option}{text!r}", names, place
        self._missing = missing
        self._class_names = class_names
        self.columns: set[str] = set()
        try:
            value = self._value(ast.parse(text.strip(), mode="eval").body)
        except (
            SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError
        ) as error:  # fmt: skip
            raise self._wrong(f"({error})") from error
        if not self.columns:
            raise self._wrong("(it names no column)")
        self._expression: pc.Expression = value

    def selects(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """[rows] bool: which rows fit the condition.

        Args:
            rows: They have its columns.

        Raises:
            UsageError: It compares values of other types, or is no condition.
        """
        values = self._evaluated(rows, pa.types.is_boolean)
        return np.asarray(pc.fill_null(values, False).to_numpy(), np.bool_)

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.float64]:
        """[rows] float64: its value for each row; NaN where there is none.

        Raises:
            UsageError: It computes with other values than numbers, or does not give one.
        """
        number = self._evaluated(rows, _is_number)
        return np.asarray(number.cast(_FLOAT, safe=False).to_numpy(), np.float64)

    def check(self, schema: pa.Schema, *, is_number: bool) -> None:
        """Checks that it fits columns of these types; raises as `selects` and `numbers`."""
        rows = schema.empty_table()
        (self.numbers if is_number else self.selects)(rows)

    def _evaluated(
        self, rows: pa.Table, is_valid: Callable[[pa.DataType], bool]
    ) -> pa.ChunkedArray:
        rows = rows.select(sorted(self.columns))
        try:
            source = acero.TableSourceNodeOptions(_widened(rows))
            project = acero.ProjectNodeOptions([self._expression], ["value"])
            steps = [
                acero.Declaration("table_source", source),
                acero.Declaration("project", project),
            ]
            # In one thread: several do not keep the order of rows.
            values = acero.Declaration.from_sequence(steps).to_table(use_threads=False)["value"]
            if is_valid(values.type):
                return values
            raise pa.ArrowTypeError(f"it gives values of type {values.type}")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            types = ", ".join(f"{field.name} ({field.type})" for field in rows.schema)
            raise UsageError(
                f"{self._shown} does not fit the columns {types} of {self._place}: "
                f"{str(error).splitlines()[0]}. Compare numbers with numbers, and texts with texts."
            ) from error

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op, values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return reduce(join, map(self._value, values))
            case ast.UnaryOp(ast.Not(), operand):
                return ~self._value(operand)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return _scalar(-number)
            case ast.UnaryOp(ast.USub(), operand):
                return _scalar(0) - self._operand(operand)
            case ast.BinOp(left, ast.Div(), right):  # as in Python, also of whole numbers
                divisor = self._value(right).cast(_FLOAT)
                divisor = pc.if_else(divisor == _scalar(0.0), pc.scalar(_NO_NUMBER), divisor)
                return self._value(left).cast(_FLOAT) / divisor
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](self._operand(left), self._operand(right))
            case ast.Compare(left, operators, comparators):
                return reduce(operator.and_, self._comparisons(left, operators, comparators))
            case ast.IfExp(test, body, other):
                is_true = pc.coalesce(self._value(test), pc.scalar(False))
                return pc.if_else(is_true, self._operand(body), self._operand(other))
            case ast.Name() | ast.Attribute(ast.Name("label")):
                return self._column(ast.unparse(node))
            case ast.Constant(value) if isinstance(value, str | int | float | bool | None):
                return _scalar(value)
        raise self._wrong(f"({ast.unparse(node)!r} is not known)")

    def _operand(self, node: ast.expr) -> Any:
        """A value to compute with: products of small whole numbers may be large ones."""
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        is_whole = isinstance(number, ast.Constant) and type(number.value) is int
        return self._value(node).cast(pa.int64()) if is_whole else self._value(node)

    def _comparisons(
        self, left: ast.expr, operators: list[ast.cmpop], comparators: list[ast.expr]
    ) -> Iterator[pc.Expression]:
        for comparison, right in zip(operators, comparators, strict=True):
            match comparison, right:
                case ((ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()), ast.Constant(None)):
                    is_null = self._value(left).is_null()
                    yield is_null if isinstance(comparison, ast.Is | ast.Eq) else ~is_null
                case ((ast.In() | ast.NotIn()), (ast.List(items) | ast.Tuple(items))):
                    within = self._within(left, [ast.literal_eval(item) for item in items])
                    yield within if isinstance(comparison, ast.In) else ~within
                case _ if type(comparison) in _COMPARISONS:
                    sides = self._sides(left, right)
                    yield _COMPARISONS[type(comparison)](*sides)
                case _:
                    raise self._wrong(f"({type(comparison).__name__} is not known)")
            left = right

    def _within(self, node: ast.expr, items: list[Any]) -> pc.Expression:
        """Whether a value is in a list; None in it stands for a value that is missing."""
        column = self._value(node)
        items = [self._class_number(node, item) for item in items]
        values = [item for item in items if item is not None]
        if all(isinstance(item, str) for item in values):
            equal = column.isin(pa.array(values, pa.string()))  # there may be many
            equal = pc.if_else(column.is_null(), pc.scalar(pa.scalar(None, pa.bool_())), equal)
        else:  # a column of numbers may have another type than the list
            equal = reduce(operator.or_, (column == _scalar(item) for item in values))
        return equal if len(values) == len(items) else column.is_null() | equal

    def _sides(self, left: ast.expr, right: ast.expr) -> tuple[Any, Any]:
        """Both sides of a comparison, names of classes as numbers."""
        sides = []
        for own, other in ((left, right), (right, left)):
            if isinstance(own, ast.Constant) and isinstance(own.value, str):
                sides.append(pc.scalar(self._class_number(other, own.value)))
            else:
                sides.append(self._value(own))
        return sides[0], sides[1]

    def _class_number(self, column: ast.expr, value: Any) -> Any:
        names = self._class_names.get(ast.unparse(column))
        if names is None or not isinstance(value, str):
            return value
        if value not in names:
            raise UsageError(
                f"{self._shown} names the class {value!r}, which {self._place} has not. "
                f"Classes are {', '.join(names[:20])}."
            )
        return names.index(value)

    def _column(self, name: str) -> pc.Expression:
        if name not in self._names:
            raise UsageError(
                f"{self._shown} names {name!r}, which is no column of {self._place}. "
                f"Columns are {', '.join(self._names)}.{self._missing.get(name, '')}"
            )
        self.columns.add(name)
        return pc.field(name)

    def _wrong(self, problem: str) -> UsageError:
        return UsageError(f"{self._shown} is no condition {problem}. {_RULE}.")


_FLOAT = pa.float64()
_NO_NUMBER = pa.scalar(None, _FLOAT)


def _scalar(value: Any) -> pc.Expression:
    """A constant; Arrow would take 0.5 for a float32, and compute in that."""
    scalar = pc.scalar(value)
    return scalar.cast(_FLOAT) if isinstance(value, float) else scalar


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _widened(rows: pa.Table) -> pa.Table:
    """The rows with numbers of 64 bits, as Python computes: products of int32 may be larger."""
    for at, field in enumerate(rows.schema):
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif pa.types.is_floating(kind):
            kind = _FLOAT
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            kind = pa.int64()
        if kind != field.type:
            rows = rows.set_column(at, field.name, rows[field.name].cast(kind))
    return rows
