"""The arguments of `load` are declared once: signature, documentation and flags follow from it."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import click
import pytest

import reader
from cli.commands.read import read
from cli.commands.train import train
from foundation.options import Limits, check_declared, option
from reader.options import KINDS, ReadOptions
from shard_format import UsageError
from trainer.options import TrainOptions

FIELDS = {field.name: field for field in dataclasses.fields(ReadOptions)}


def test_the_signature_of_load_is_the_declaration() -> None:
    arguments = list(inspect.signature(reader.load).parameters.values())[1:]
    assert [argument.name for argument in arguments] == list(FIELDS)
    for argument in arguments:
        field = FIELDS[argument.name]
        assert argument.kind is inspect.Parameter.KEYWORD_ONLY
        assert argument.default == field.default, argument.name
        if argument.name != "augment":  # the declaration is light: it cannot name transforms
            assert argument.annotation == field.type, argument.name


def test_the_docstring_of_load_has_every_argument() -> None:
    text = inspect.getdoc(reader.load) or ""
    for name, field in FIELDS.items():
        assert f"    {name}: {field.metadata['help'][:20]}" in text
    assert max(map(len, text.splitlines())) <= 100


def table() -> str:
    """The reference in docs/reading.md."""
    lines = ["| argument | default | sets of | what it does |", "| --- | --- | --- | --- |"]
    for name, field in FIELDS.items():
        declared = field.metadata
        default = declared["shown"] or f"`{field.default!r}`"
        kinds = ", ".join(KINDS[kind] for kind in declared["kinds"]) or "all"
        text = f"{declared['help']} {declared['details']}".rstrip().replace("|", "\\|")
        lines.append(f"| `{name}` | {default} | {kinds} | {text} |")
    return "\n".join(lines)


def test_the_table_in_the_docs_is_the_declaration(repository: Path) -> None:
    text = (repository / "docs" / "reading.md").read_text()
    assert table() in text, f"Put this table into docs/reading.md:\n{table()}"


@pytest.mark.parametrize("command", [read, train])
def test_flags_have_the_declared_choices_and_help(command: click.Command) -> None:
    declared = FIELDS
    if command is train:
        declared = {field.name: field for field in dataclasses.fields(TrainOptions)}
    flags = [
        flag
        for flag in command.params
        if flag.name in declared and "help" in declared[flag.name].metadata
    ]
    assert len(flags) > 10
    for flag in flags:
        assert isinstance(flag, click.Option) and flag.name
        metadata = declared[flag.name].metadata
        assert str(flag.help).startswith(metadata["help"])
        if metadata["choices"]:
            assert isinstance(flag.type, click.Choice)
            assert tuple(flag.type.choices) == metadata["choices"]


def test_a_stream_without_a_batch_size_is_refused(tiny: Path) -> None:
    for load in (reader.load, lambda directory: reader.mix({directory: 1.0})):
        with pytest.raises(UsageError, match=r"^No batch_size in reader.load. Pass the number of"):
            load(tiny)


@dataclasses.dataclass(frozen=True)
class Declared:
    share: float = option(0.5, "A share.", type=float, limits=Limits(0, 1, excluded=(1,)))
    rate: float | None = option(None, "A rate.", type=float, limits=Limits(0, excluded=(0,)))
    count: int = option(1, "A count.", type=int, limits=Limits(1, 9))
    mode: str = option("on", "A mode.", choices=("on", "off"))
    anything: Any = None


@pytest.mark.parametrize(
    "values",
    [{}, {"share": 0}, {"rate": 1e-9}, {"count": 9}, {"mode": "off"}, {"anything": object()}],
)
def test_declared_values_pass(values: dict[str, Any]) -> None:
    check_declared(Declared(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1}, r"^share is 1 in here. Pass a finite number in \[0, 1\).$"),
        ({"share": None}, r"^share is None in here."),
        ({"share": float("nan")}, "share is nan"),
        ({"rate": 0}, r"rate is 0 in here. Pass a finite number above 0.$"),
        ({"rate": float("inf")}, "rate is inf"),
        ({"count": 0}, r"count is 0 in here. Pass an integer in \[1, 9\]"),
        ({"count": 10**400}, r"count is 1000000"),
        ({"count": True}, "count is True"),
        ({"count": 2.0}, r"count is 2\.0"),
        ({"mode": "of"}, "^Unknown mode 'of' in here. Did you mean 'off'. Choices: on, off.$"),
        ({"mode": 3}, "^Unknown mode 3 in here. Choices: on, off.$"),
    ],
)
def test_other_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_declared(Declared(**values), "here")


def test_an_image_size_that_no_memory_holds_is_refused(tiny: Path) -> None:
    with pytest.raises(UsageError, match=r"image_size is 1000000 .*16384"):
        reader.load(tiny, batch_size=8, image_size=10**6)
