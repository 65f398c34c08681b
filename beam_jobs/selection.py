"""What --where, --keep-best, --by and --sample-weight may name, in the rows of a sidecar.

That is what the index will have of a record, as far as it is known before shards are planned. A
label is the name of its class here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from beam_jobs.columns import BoolArray
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.staging.units import kept_column
from foundation.options import check_choice
from shard_format import InputError, UsageError, label_column
from shard_format.conditions import Expression

_PLACE = "the records"


def check_selection(options: PreprocessOptions, record_type: RecordType) -> None:
    """Checks the columns and expressions of the options against what records will have.

    Raises:
        UsageError: One names another column, or has values of another type.
    """
    if options.where is not None:
        where_of(options, record_type)
    if options.sample_weight is not None:
        weights_of(options, record_type)
    for flag, name in (("--keep-best", options.keep_best), ("--by", options.by)):
        if name is None:
            continue
        kind = number_column(record_type, options, name, flag).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise UsageError(
                f"{flag} {name!r} is a column of {kind}, not of numbers. Name another one; "
                f"--keep-columns {name}:float32 keeps a column as numbers."
            )


def number_column(
    record_type: RecordType, options: PreprocessOptions, name: str, flag: str
) -> pa.Field:
    """The column of a sidecar that an option names.

    Raises:
        UsageError: There is none.
    """
    columns = _columns(record_type, options)
    check_choice(f"column of {flag}", name, columns, "")
    return columns[name]


def best_column(options: PreprocessOptions, record_type: RecordType) -> pa.Field | None:
    """The column of a sidecar that --keep-best names; None without it."""
    name = options.keep_best
    return None if name is None else number_column(record_type, options, name, "--keep-best")


def where_of(
    options: PreprocessOptions, record_type: RecordType
) -> Callable[[pa.Table], BoolArray] | None:
    """From rows of a sidecar to [rows] bool, which of them --where keeps; None without it.

    Raises:
        UsageError: It is no condition on the columns of records.
    """
    if options.where is None:
        return None
    condition, rows_of = _expression(options.where, "--where ", record_type, options)
    condition.check(rows_of.schema, is_number=False)
    return lambda table: condition.selects(rows_of(table))


def where_columns(options: PreprocessOptions, record_type: RecordType) -> dict[str, str]:
    """The columns of a sidecar that --where names, by their names in it."""
    if options.where is None:
        return {}
    condition, rows_of = _expression(options.where, "--where ", record_type, options)
    return {name: rows_of.columns[name].name for name in sorted(condition.columns)}


def weights_of(
    options: PreprocessOptions, record_type: RecordType
) -> Callable[[pa.Table], pa.FloatArray] | None:
    """From rows of a sidecar to [rows] float32, the value of --sample-weight; None without it.

    It raises InputError for a value that is no weight.

    Raises:
        UsageError: It is no number that is computed from columns of records.
    """
    if options.sample_weight is None:
        return None
    weight, rows_of = _expression(options.sample_weight, "--sample-weight ", record_type, options)
    weight.check(rows_of.schema, is_number=True)

    def weights(table: pa.Table) -> pa.FloatArray:
        with np.errstate(over="ignore"):
            values = weight.numbers(rows_of(table)).astype(np.float32)
        values = np.where(np.isnan(values), np.float32(0), values)
        wrong = np.flatnonzero((values < 0) | ~np.isfinite(values))
        if len(wrong):
            record = table["record_id"][int(wrong[0])].as_py()
            raise InputError(
                f"--sample-weight {options.sample_weight!r} is {values[wrong[0]]} for the record "
                f"{record!r}. Weights are finite numbers of at least 0: change the expression, "
                "and run the command again; it reuses what is staged."
            )
        return pa.array(values)

    return weights


class _NamedRows:
    """Rows of a sidecar under the names that an expression has for its columns.

    Attributes:
        columns: By these names, the columns of a sidecar.
        schema: Types of the columns, under these names.
    """

    def __init__(self, columns: dict[str, pa.Field]) -> None:
        self.columns = columns
        self.schema = pa.schema([field.with_name(name) for name, field in columns.items()])

    def __call__(self, table: pa.Table) -> pa.Table:
        return pa.table({name: table[field.name] for name, field in self.columns.items()})


def _expression(
    text: str, option: str, record_type: RecordType, options: PreprocessOptions
) -> tuple[Expression, _NamedRows]:
    columns = _columns(record_type, options)
    expression = Expression(text, option, list(columns), _PLACE)
    return expression, _NamedRows({name: columns[name] for name in sorted(expression.columns)})


def _columns(record_type: RecordType, options: PreprocessOptions) -> dict[str, pa.Field]:
    """By the name of a column of the index, the column of a sidecar that has its values."""
    labels = [] if options.no_labels or options.multi_label else ["label"]
    labels += [label_column(name) for name in options.further_labels]
    own = (pa.field(name, pa.string()) for name in ("record_id", *labels))
    columns = {field.name: field for field in (*own, *record_type.statistics)}
    return columns | {
        field.name: field.with_name(kept_column(field.name)) for field in record_type.kept_columns
    }
