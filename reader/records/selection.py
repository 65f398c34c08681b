"""Which records a condition selects, by the index alone: `where` of `reader.load`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.storage import Place
from reader.order.numpy_order import Int64Array
from reader.records.split_index import SplitIndex
from shard_format import Schema, UsageError, label_column
from shard_format.kept_columns import is_in_index

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
    "and or not, + - * /, such as \"words > 20 and language == 'en'\""
)

NONE_MISSING: Mapping[str, str] = {}


def missing_columns(schema: Schema, index: SplitIndex, root: Place) -> dict[str, str]:
    """What to do about the kept columns of records that the index lacks, by their names.

    The index of a set that was built by an earlier version has none of them.

    Args:
        schema: Schema of the set.
        index: Index of the split.
        root: The set, for messages.
    """
    command = "images" if schema.record_type == "image" else schema.record_type
    return {
        name: f" Records have {name!r}, but the set was built without kept columns in its index, "
        "as by earlier versions. To use it here, build it again: 'shardmill preprocess "
        f"{command} SRC --like {root} --out NEW'."
        for name in [one.name for one in schema.kept if is_in_index(one)]
        if name not in index.column_names
    }


def class_names_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """By the column of a label with one class a record, the names of the classes."""
    labels = [one for one in schema.labels if not one.shape]
    names = {label_column(one.name): one.class_names for one in labels}
    return names | ({"label": labels[0].class_names} if labels else {})


def selected_records(
    where: str,
    index: SplitIndex,
    class_names: Mapping[str, tuple[str, ...]],
    place: Place,
    missing: Mapping[str, str] = NONE_MISSING,
) -> Int64Array:
    """[n] int64 ascending: the numbers of the records that a condition selects.

    A record without a value of a column is selected by no comparison of it.

    Args:
        where: Condition in the syntax of Python, on columns of the index.
        index: Index of the split.
        class_names: By the column of a label the names of its classes, which may be compared with.
        place: The index file, for messages.
        missing: See `missing_columns`.

    Raises:
        UsageError: It is no such condition, names an unknown column, or compares values of other
            types.
    """
    condition = _Condition(where, index.column_names, class_names, place, missing)
    rows = index.select(sorted(condition.columns))
    number, selected = 0, []
    try:
        for batch in rows.to_batches():
            table = pa.Table.from_batches([batch])
            numbers = pa.array(np.arange(number, number + len(table)))
            kept = table.append_column(_NUMBER, numbers).filter(condition.expression)
            selected.append(np.sort(kept[_NUMBER].to_numpy()))
            number += len(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        types = ", ".join(f"{field.name} ({field.type})" for field in rows.schema)
        raise UsageError(
            f"where={where!r} does not fit the columns {types} of {place}: "
            f"{str(error).splitlines()[0]}. Compare numbers with numbers, and texts with texts."
        ) from error
    return np.concatenate([*selected, np.zeros(0, np.int64)])


_NUMBER = " number"  # a column that no index has


class _Condition:
    """An Arrow expression of a condition in Python's syntax.

    Attributes:
        columns: Names of its columns.
        expression: The expression.
    """

    def __init__(
        self,
        where: str,
        names: list[str],
        class_names: Mapping[str, tuple[str, ...]],
        place: Place,
        missing: Mapping[str, str],
    ) -> None:
        self._where, self._names, self._place = where, names, place
        self._missing = missing
        self._class_names = class_names
        self.columns: set[str] = set()
        try:
            value = self._value(ast.parse(where.strip(), mode="eval").body)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise self._wrong(f"({error})") from error
        if not self.columns:
            raise self._wrong("(it names no column)")
        self.expression: pc.Expression = value

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op, values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                first, *others = map(self._value, values)
                for other in others:
                    first = join(first, other)
                return first
            case ast.UnaryOp(ast.Not(), operand):
                return ~self._value(operand)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return pc.scalar(-number)
            case ast.UnaryOp(ast.USub(), operand):
                return pc.scalar(0) - self._value(operand)
            case ast.BinOp(left, ast.Div(), right):  # as in Python, also of whole numbers
                return self._value(left).cast(pa.float64()) / self._value(right)
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](self._value(left), self._value(right))
            case ast.Compare(left, operators, comparators):
                parts = list(self._comparisons(left, operators, comparators))
                first, *others = parts
                for other in others:
                    first = first & other
                return first
            case ast.Name(name):
                return self._column(name)
            case ast.Constant(value) if isinstance(value, str | int | float | bool | None):
                return pc.scalar(value)
        raise self._wrong(f"({ast.unparse(node)!r} is not known)")

    def _comparisons(
        self, left: ast.expr, operators: list[ast.cmpop], comparators: list[ast.expr]
    ) -> Iterator[pc.Expression]:
        for comparison, right in zip(operators, comparators, strict=True):
            match comparison, right:
                case ((ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()), ast.Constant(None)):
                    is_null = self._value(left).is_null()
                    yield is_null if isinstance(comparison, ast.Is | ast.Eq) else ~is_null
                case ((ast.In() | ast.NotIn()), (ast.List(items) | ast.Tuple(items))):
                    values = [ast.literal_eval(item) for item in items]
                    values = [self._class_number(left, value) for value in values]
                    within = self._value(left).isin(values)
                    yield within if isinstance(comparison, ast.In) else ~within
                case _ if type(comparison) in _COMPARISONS:
                    sides = self._sides(left, right)
                    yield _COMPARISONS[type(comparison)](*sides)
                case _:
                    raise self._wrong(f"({type(comparison).__name__} is not known)")
            left = right

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
        names = self._class_names.get(column.id) if isinstance(column, ast.Name) else None
        if names is None or not isinstance(value, str):
            return value
        if value not in names:
            raise UsageError(
                f"where={self._where!r} names the class {value!r}, which {self._place} has not. "
                f"Classes are {', '.join(names[:20])}."
            )
        return names.index(value)

    def _column(self, name: str) -> pc.Expression:
        if name not in self._names:
            raise UsageError(
                f"where={self._where!r} names {name!r}, which is no column of {self._place}. "
                f"Columns are {', '.join(self._names)}.{self._missing.get(name, '')}"
            )
        self.columns.add(name)
        return pc.field(name)

    def _wrong(self, problem: str) -> UsageError:
        return UsageError(f"where={self._where!r} is no condition {problem}. {_RULE}.")
