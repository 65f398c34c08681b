"""The file of a space: YAML, one option of `shardmill train` a line, named as its flag.

    data: set
    model: small_cnn                                    # one value: the same in every trial
    optimizer: [adamw, sgd]                             # a list: choices
    learning-rate: {low: 1e-4, high: 1e-2, log: true}   # a range
    warmup-epochs: {low: 0, high: 3, when: {optimizer: adamw}}

A scalar is converted as its option declares it, not as YAML would: to YAML 1.1, 1e-4 is text and
`off` is false.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from foundation.config_file import key_of, nearest, read_text
from foundation.errors import UsageError
from foundation.options import check_value, declared
from foundation.wording import did_you_mean
from trainer.options import FREE_TO_CHANGE, TrainOptions
from trainer.search.space import Parameter, Space, Value, same

Field = dataclasses.Field[Any]

# Options that a search sets itself, with what to do instead.
_OF_THE_SEARCH = {
    "run_dir": "The search gives every trial a directory. Pass --run-dir on the command line",
    "local_workers": "A trial is one process. Pass --parallel on the command line",
    "restarts": "It is for --local-workers, and a trial is one process",
}
# Options that decide what the value of a trial means.
_COMMON = ("label", "validation_split", "monitor")
_RANGE = ("low", "high", "log", "step", "points", "choices", "when")


def read_space(path: str) -> Space:
    """The space in a file.

    Raises:
        InputError: It cannot be read.
        UsageError: It is not YAML, varies nothing, or has an option that is unknown, that has a
            wrong value or that contradicts another one.
    """
    root = _composed(path)
    fields = {field.name: field for field in declared(TrainOptions)}
    known = [*fields, "data"]
    data: str | None = None
    fixed: dict[str, Value] = {}
    varied: list[tuple[Parameter, Any]] = []
    for name, key, node in _items(root, path):
        where = _where(path, key)
        if name in _OF_THE_SEARCH:
            raise UsageError(f"{key.value!r} in {where}: {_OF_THE_SEARCH[name]}, and remove it.")
        if name not in known:
            raise UsageError(f"Unknown option {key.value!r} in {where}. {nearest(name, known)}")
        if name == "data":
            data = _text(node, key.value, where)
        elif _is_scalar(node):
            fixed[name] = _converted(fields[name], node, key.value, where)
        else:
            _require_variable(name, key.value, where)
            varied.append(_parameter(fields[name], node, key.value, path))
    parameters = _with_conditions(varied, fields, path)
    if not parameters:
        raise UsageError(
            f"{path} varies nothing. Give an option a list, such as 'optimizer: [adamw, sgd]', or "
            "a range, such as 'learning-rate: {low: 1e-4, high: 1e-2, log: true}'."
        )
    space = Space(path, data, fixed, parameters)
    space.check(_of_any_set)
    return space


def _composed(path: str) -> Any:
    """The mapping that a YAML file is, as nodes that know their lines.

    Raises:
        InputError: The file cannot be read.
        UsageError: It is not one YAML mapping.
    """
    import yaml

    text = read_text(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UsageError(
            f"{path}{line} is not YAML: {reason}. Write lines such as 'optimizer: [adamw, sgd]'."
        ) from None
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(
            f"{path} has no options. Write lines such as 'optimizer: [adamw, sgd]', named as the "
            "flags of 'shardmill train'."
        )
    return root


def _items(mapping: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """(name with underscores, node of the key, node of the value) of a mapping.

    Raises:
        UsageError: A key is repeated, or is not text.
    """
    seen: set[str] = set()
    for key, node in mapping.value:
        if not isinstance(key.value, str):
            raise UsageError(f"{_where(path, key)} has a key that is not a name. Write names.")
        name = key.value.removeprefix("--").replace("-", "_")
        if name in seen:
            raise UsageError(f"{_where(path, key)} repeats {key.value!r}. Remove one of the lines.")
        seen.add(name)
        yield name, key, node


def _where(path: str, node: Any) -> str:
    return f"{path}, line {node.start_mark.line + 1}"


def _is_scalar(node: Any) -> bool:
    return isinstance(node.value, str)


def _require_variable(name: str, key: str, where: str) -> None:
    if name in _COMMON:
        raise UsageError(
            f"{key} varies in {where}: trials with another {key} are not measured alike and cannot "
            "be compared. Give it one value."
        )
    if name in FREE_TO_CHANGE:
        raise UsageError(
            f"{key} varies in {where}, and does not change what a trial learns. Give it one value."
        )


def _text(node: Any, key: str, where: str) -> str:
    if not _is_scalar(node):
        raise UsageError(f"{key} in {where} is not one value. Write one.")
    if "\0" in node.value:
        raise UsageError(f"{key} in {where} has a zero byte. Remove it.")
    return str(node.value)


def _converted(field: Field, node: Any, key: str, where: str) -> Value:
    """A scalar as its option has it.

    Raises:
        UsageError: It is of another type, or not a value of this option.
    """
    text, kind = _text(node, key, where), field.metadata["type"]
    value: Value = text
    if node.tag.endswith(":null"):
        if field.default is not None:
            raise UsageError(f"{key} is empty in {where}. Write a value, or remove the line.")
        return None
    if kind is bool:
        value = _flag(node, key, where)
    elif kind in (int, float):
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            wanted = "an integer" if kind is int else "a number"
            raise UsageError(f"{key} is {text[:60]!r} in {where}. Write {wanted}.") from None
    check_value(field, value, key, where)
    return value


def _flag(node: Any, key: str, where: str) -> bool:
    if not _is_scalar(node) or node.value.lower() not in ("true", "false"):
        raise UsageError(f"{key} in {where} is neither true nor false. Write one of them.")
    return bool(node.value.lower() == "true")


def _parameter(field: Field, node: Any, key: str, path: str) -> tuple[Parameter, Any]:
    """What a list or a mapping of the file says of an option, and the node of its condition."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return Parameter(field.name, _choices(field, node, key, path)), None
    found: dict[str, tuple[str, Any]] = {}
    for name, part, value in _items(node, path):
        if name not in _RANGE:
            near = did_you_mean(name, _RANGE)
            raise UsageError(
                f"Unknown {part.value!r} of {key} in {_where(path, part)}. {near}A range has "
                f"{', '.join(_RANGE)}."
            )
        found[name] = (f"{name} of {key}", value)
    condition = found.pop("when", (None, None))[1]
    if "choices" in found:
        label, listed = found.pop("choices")
        if found or not isinstance(listed, yaml.SequenceNode):
            raise UsageError(
                f"{label} in {_where(path, node)} needs a list and no range. Write 'choices: [a, "
                "b]' alone."
            )
        return Parameter(field.name, _choices(field, listed, key, path)), condition
    return _range(field, node, found, key, path), condition


def _choices(field: Field, node: Any, key: str, path: str) -> tuple[Value, ...]:
    values: list[Value] = []
    for item in node.value:
        where = _where(path, item)
        value = _converted(field, item, key, where)
        if any(same(value, other) for other in values):
            raise UsageError(f"{key} in {where} has {item.value!r} twice. Remove one of them.")
        values.append(value)
    if not values:
        raise UsageError(f"{key} in {_where(path, node)} is an empty list. Write its values.")
    return tuple(values)


def _range(
    field: Field, node: Any, found: Mapping[str, tuple[str, Any]], key: str, path: str
) -> Parameter:
    where, kind = _where(path, node), field.metadata["type"]
    if kind not in (int, float):
        raise UsageError(f"{key} in {where} has no numbers. Write a list of its values.")
    for bound in ("low", "high"):
        if bound not in found:
            raise UsageError(f"{key} in {where} has no {bound!r}. Write 'low' and 'high'.")
    low, high = (
        _converted(field, found[bound][1], found[bound][0], _where(path, found[bound][1]))
        for bound in ("low", "high")
    )
    if not isinstance(low, int | float) or not isinstance(high, int | float) or low >= high:
        raise UsageError(f"{key} in {where} is a range from {low} to {high}. Write low below high.")
    log = "log" in found and _flag(found["log"][1], found["log"][0], where)
    step = _positive(found, "step", kind, where)
    points = _positive(found, "points", int, where)
    if log and low <= 0:
        raise UsageError(f"{key} in {where} is logarithmic from {low}. Write a low above 0.")
    if step is not None and (log or points is not None):
        other = "log" if log else "points"
        raise UsageError(f"{key} in {where} has both step and {other}. Remove one of them.")
    if step is not None and step > high - low:
        raise UsageError(f"step of {key} in {where} is {step}. Write at most {high - low}.")
    return Parameter(field.name, (), low, high, log, step, None if points is None else int(points))


def _positive(
    found: Mapping[str, tuple[str, Any]], name: str, kind: Any, where: str
) -> float | None:
    if name not in found:
        return None
    label, node = found[name]
    text = _text(node, label, where)
    try:
        value: float = kind(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        wanted = "an integer" if kind is int else "a number"
        raise UsageError(f"{label} is {text[:60]!r} in {where}. Write {wanted} above 0.")
    return value


def _with_conditions(
    varied: list[tuple[Parameter, Any]], fields: Mapping[str, Field], path: str
) -> tuple[Parameter, ...]:
    """The parameters, those with a condition last.

    Raises:
        UsageError: A condition is not on choices without a condition of their own.
    """
    free = {each.name: each for each, condition in varied if condition is None}
    conditional = []
    for parameter, node in varied:
        if node is None:
            continue
        key = key_of(parameter.name)
        if _is_scalar(node) or not isinstance(node.value[0] if node.value else None, tuple):
            raise UsageError(
                f"when of {key} in {_where(path, node)} is not a condition. Write 'when: "
                "{optimizer: sgd}'."
            )
        when = []
        for name, part, value in _items(node, path):
            where = _where(path, part)
            if name not in free or not free[name].choices:
                raise UsageError(
                    f"{key} depends on {part.value!r} in {where}, which has no list of values in "
                    "this file, or a condition itself. Name an option with a list."
                )
            listed = [value] if _is_scalar(value) else value.value
            choices = tuple(_converted(fields[name], item, part.value, where) for item in listed)
            for choice in choices:
                if not any(same(choice, other) for other in free[name].choices):
                    raise UsageError(
                        f"{key} depends on {part.value} {choice!r} in {where}, which is not in its "
                        f"list. Write one of {', '.join(map(str, free[name].choices))}."
                    )
            when.append((name, choices))
        conditional.append(dataclasses.replace(parameter, when=tuple(when)))
    return (*free.values(), *conditional)


def _of_any_set(values: Mapping[str, Value]) -> None:
    TrainOptions(data="set", run_dir=Path("run"), **values)  # type: ignore[arg-type]
