"""The file of a space: YAML, one option of `shardmill train` a line, named as its flag.

    data: set
    model: small_cnn                                    # one value: the same in every trial
    optimizer: [adamw, sgd]                             # a list: choices
    learning-rate: {low: 1e-4, high: 1e-2, log: true}   # a range
    warmup-epochs: {low: 0, high: 3, when: {optimizer: adamw}}

A range becomes a distribution of Optuna, which checks it. A scalar is converted as its option
declares it, not as YAML would: to YAML 1.1, 1e-4 is text and `off` is false.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.config_file import key_of, nearest, read_text
from foundation.errors import UsageError
from foundation.options import check_value, declared
from foundation.wording import did_you_mean
from search.space import Parameter, Space, Value
from trainer.options import TrainOptions, is_identity

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
_NULL = ("null", "~", "")
_WANTED = {bool: "true or false", int: "an integer", float: "a number"}


def read_space(path: str) -> Space:
    """The space in a file.

    Raises:
        InputError: It cannot be read.
        UsageError: It is not YAML, varies nothing, or has an option that is unknown, that has a
            wrong value or that contradicts another one.
    """
    fields = {field.name: field for field in declared(TrainOptions)}
    data: str | None = None
    fixed: dict[str, Value] = {}
    varied: list[Parameter] = []
    for key, content in _mapping(path).items():
        name, where = key.removeprefix("--").replace("-", "_"), f"{key} in {path}"
        if name in _OF_THE_SEARCH:
            raise UsageError(f"{key!r} in {path}: {_OF_THE_SEARCH[name]}, and remove it.")
        if name == "data":
            data = _text(content, where)
        elif name not in fields:
            raise UsageError(
                f"Unknown option {key!r} in {path}. {nearest(name, [*fields, 'data'])}"
            )
        elif isinstance(content, str):
            fixed[name] = _value(fields[name], content, where)
        else:
            _require_variable(fields[name], key, path)
            varied.append(_parameter(fields[name], content, where, fields))
    if not varied:
        raise UsageError(
            f"{path} varies nothing. Give an option a list, such as 'optimizer: [adamw, sgd]', or "
            "a range, such as 'learning-rate: {low: 1e-4, high: 1e-2, log: true}'."
        )
    varied.sort(key=lambda parameter: bool(parameter.when))
    _check_conditions(varied, path)
    space = Space(path, data, fixed, tuple(varied))
    space.check(_of_any_set)
    return space


def _mapping(path: str) -> dict[str, Any]:
    """The content of a YAML file, every scalar of it as text.

    Raises:
        InputError: The file cannot be read.
        UsageError: It is not one YAML mapping, or repeats a key.
    """
    import yaml

    class Loader(yaml.BaseLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            for key in keys:
                if not isinstance(key, str):
                    raise UsageError(f"{path} has a key that is not a name. Write names.")
                if keys.count(key) > 1:
                    raise UsageError(f"{path} repeats {key!r}. Remove one of the lines.")
            return super().construct_mapping(node, deep=deep)

    try:
        content = yaml.load(read_text(path), Loader=Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UsageError(
            f"{path}{line} is not YAML: {reason}. Write lines such as 'optimizer: [adamw, sgd]'."
        ) from None
    if not isinstance(content, dict) or not content:
        raise UsageError(
            f"{path} has no options. Write lines such as 'optimizer: [adamw, sgd]', named as the "
            "flags of 'shardmill train'."
        )
    return content


def _require_variable(field: Field, key: str, path: str) -> None:
    if field.name in _COMMON:
        raise UsageError(
            f"{key} varies in {path}: trials with another {key} are not measured alike and cannot "
            "be compared. Give it one value."
        )
    if not is_identity(field):
        raise UsageError(
            f"{key} varies in {path}, and does not change what a trial learns. Give it one value."
        )


def _text(content: Any, where: str) -> str:
    if not isinstance(content, str):
        raise UsageError(f"{where} is not one value. Write one.")
    if "\0" in content:
        raise UsageError(f"{where} has a zero byte. Remove it.")
    return content


def _value(field: Field, content: Any, where: str) -> Value:
    """A scalar as its option has it.

    Raises:
        UsageError: It is of another type, or not a value of this option.
    """
    if _text(content, where) in _NULL:
        if field.default is not None:
            raise UsageError(f"{where} is empty. Write a value, or remove the line.")
        return None
    kind = field.metadata["type"]
    value: Value = _converted(kind, content, where) if kind in _WANTED else content
    check_value(field, value, where)
    return value


def _converted(kind: Any, content: Any, where: str) -> Any:
    text = _text(content, where)
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError, OverflowError):
        raise UsageError(f"{where} is {text[:60]!r}. Write {_WANTED[kind]}.") from None


def _parameter(field: Field, content: Any, where: str, fields: Mapping[str, Field]) -> Parameter:
    """What a list or a mapping says of an option.

    Raises:
        UsageError: It is no list, and no range of numbers.
    """
    from optuna.distributions import CategoricalDistribution

    parts = {"choices": content} if isinstance(content, list) else dict(content)
    for name in parts.keys() - set(_RANGE):
        raise UsageError(
            f"Unknown {name!r} of {where}. {did_you_mean(name, _RANGE)}A range has "
            f"{', '.join(_RANGE)}."
        )
    when = _conditions(parts.pop("when", {}), where, fields)
    if "choices" in parts:
        listed = parts.pop("choices")
        if parts or not isinstance(listed, list) or not listed:
            raise UsageError(
                f"{where} needs a list of values and no range. Write 'choices: [a, b]' alone."
            )
        values = dict.fromkeys(_value(field, item, where) for item in listed)
        return Parameter(field.name, CategoricalDistribution(tuple(values)), None, when)
    points = parts.pop("points", None)
    if points is not None:
        points = _converted(int, points, f"points of {where}")
        if points < 1 or "step" in parts:
            raise UsageError(f"{where} needs 1 point or more, and has points or a step, not both.")
    return Parameter(field.name, _range(field, parts, where), points, when)


def _range(field: Field, parts: Mapping[str, Any], where: str) -> Any:
    """The distribution of a range."""
    from optuna.distributions import FloatDistribution, IntDistribution

    kind = field.metadata["type"]
    if kind not in (int, float):
        raise UsageError(f"{where} has no numbers. Write a list of its values.")
    if not {"low", "high"} <= parts.keys():
        raise UsageError(f"{where} is a range without bounds. Write 'low' and 'high'.")
    given = {bound: _value(field, parts[bound], f"{bound} of {where}") for bound in ("low", "high")}
    if "log" in parts:
        given["log"] = _converted(bool, parts["log"], f"log of {where}")
    if "step" in parts:
        given["step"] = _converted(kind, parts["step"], f"step of {where}")
    try:
        with warnings.catch_warnings():  # that the last step may end before the upper bound
            warnings.simplefilter("ignore")
            distribution = (IntDistribution if kind is int else FloatDistribution)(**given)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where} is no range: {error} Correct it.") from None
    if distribution.low == distribution.high:
        raise UsageError(f"{where} has one value only. Write low below high, and a smaller step.")
    return distribution


def _conditions(
    content: Any, where: str, fields: Mapping[str, Field]
) -> dict[str, tuple[Value, ...]]:
    """The values of other options under which this one applies."""
    if not isinstance(content, dict):
        raise UsageError(f"when of {where} is not a condition. Write 'when: {{optimizer: sgd}}'.")
    conditions = {}
    for key, listed in content.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UsageError(f"Unknown option {key!r} in when of {where}. {nearest(name, fields)}")
        values = listed if isinstance(listed, list) else [listed]
        conditions[name] = tuple(_value(fields[name], each, f"when of {where}") for each in values)
    return conditions


def _check_conditions(parameters: list[Parameter], path: str) -> None:
    """Checks that conditions are on choices that have no condition themselves.

    Raises:
        UsageError: One is not.
    """
    free = {each.name: each.choices for each in parameters if not each.when}
    for parameter in parameters:
        for name, values in parameter.when.items():
            key, choices = key_of(parameter.name), free.get(name)
            if not choices:
                raise UsageError(
                    f"{key} in {path} depends on {key_of(name)!r}, which has no list of values in "
                    "this file, or a condition itself. Name an option with a list."
                )
            for value in values:
                if value not in choices:
                    raise UsageError(
                        f"{key} in {path} depends on {key_of(name)} {value!r}, which is not in its "
                        f"list. Write one of {', '.join(map(str, choices))}."
                    )


def _of_any_set(values: Mapping[str, Value]) -> None:
    TrainOptions(data="set", run_dir=Path("run"), **values)  # type: ignore[arg-type]
