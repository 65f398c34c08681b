"""Options that are declared once: checks, flags and members follow."""

from __future__ import annotations

import dataclasses
import os

import click
import pytest
from click.testing import CliRunner

from beam_jobs.text.packings import PACKINGS
from cli.options import click_options
from foundation.members import Members
from foundation.options import (
    Form,
    Limits,
    check_declared,
    flag_of,
    option,
    redeclared,
    with_absolute_paths,
)
from shard_format import UsageError


def reject_dots(flag, value):
    if "." in value:
        raise UsageError(f"{flag} has a dot in {value!r}")


PLACE = Form("PLACE", reject_dots, os.path.abspath)


@dataclasses.dataclass(frozen=True)
class Toy:
    given: str = "not an option"
    size: int | None = option(None, "Size.", "N", type=int, limits=Limits(1, 9), shown="by chance")
    rate: float = option(0.5, "Rate.", "X", type=float, limits=Limits(0, excluded=(0,)))
    mode: str = option("a", "Mode.", choices=("a", "b"), excludes={"--rate 0.25": "is slow"})
    fast: bool = option(False, "Fast.", type=bool, excludes={"--size": "has no size"})
    place: str | None = option(None, "Place.", form=PLACE)
    other: str = option("here", "Another place.", form=PLACE)


@dataclasses.dataclass(frozen=True)
class Other:
    mode: str = option("c", "Another mode.", choices=("b", "c"))
    size: str = option("x", "Any size.")


@pytest.mark.parametrize(
    "values",
    [{}, {"size": 1}, {"size": 9}, {"rate": 1}, {"mode": "b"}, {"fast": True}, {"place": "a"}],
)
def test_values_as_declared(values):
    check_declared(Toy(**values), name_of=flag_of)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, r"--size is 0\. Pass an integer in \[1, 9\]"),
        ({"size": True}, "--size is True. Pass an integer"),
        ({"size": "3"}, "--size is '3'. Pass an integer"),
        ({"rate": "1"}, "--rate is '1'. Pass a finite number above 0"),
        ({"rate": 0}, "--rate is 0. Pass a finite number above 0"),
        ({"rate": float("nan")}, "--rate is nan"),
        ({"rate": None}, "--rate is None. Pass a finite number"),
        ({"mode": "c"}, "Unknown --mode 'c'. Choices: a, b"),
        ({"place": "a.b"}, "--place has a dot"),
        ({"other": None}, "--other is None. Leave it out for 'here'"),
        ({"mode": "b", "rate": 0.25}, "--mode b is slow and cannot be combined with --rate 0.25"),
        ({"fast": True, "size": 3}, "--fast has no size and cannot be combined with --size"),
    ],
)
def test_values_that_are_not_as_declared(values, message):
    with pytest.raises(UsageError, match=message):
        check_declared(Toy(**values), name_of=flag_of)


def test_a_subclass_changes_what_it_names_alone():
    @dataclasses.dataclass(frozen=True)
    class Sub(Toy):
        size: int = redeclared(Toy, "size", default=2, help="Another size.")

    assert Sub().size == 2
    with pytest.raises(UsageError, match=r"--size is 0\. Pass an integer in \[1, 9\]"):
        check_declared(Sub(size=0), name_of=flag_of)
    assert [field.name for field in dataclasses.fields(Sub)] == list(vars(Toy()))


def test_paths_become_absolute():
    assert with_absolute_paths(Toy(place="a")).place == os.path.abspath("a")
    assert with_absolute_paths(Toy()) == Toy(other=os.path.abspath("here"))


def run(declarations, *arguments, **options):
    taken = {}

    @click.command()
    @click_options(declarations, **options)
    def command(**values):
        taken.update(values)

    done = CliRunner().invoke(command, arguments)
    return done, taken


def test_flags_of_click():
    done, values = run(Toy, "--size", "3", "--fast")
    assert values == {
        "size": 3,
        "rate": 0.5,
        "mode": "a",
        "fast": True,
        "place": None,
        "other": "here",
    }
    done, _ = run(Toy, "--help")
    for text in ("--size N", "[default: (by chance)]", "[a|b]", "[default: a]", "--place PLACE"):
        assert text in done.output
    assert "given" not in done.output
    assert run(Toy, "--mode", "c")[0].exit_code == 2
    assert run(Toy, names=("rate",))[1] == {"rate": 0.5}


def test_flags_of_several_declarations_take_what_any_of_them_takes():
    _, values = run([Toy, Other], "--mode", "c", unset=True)
    flags = ("size", "rate", "mode", "fast", "place", "other")
    assert values == dict.fromkeys(flags) | {"mode": "c"}
    assert run([Toy, Other], "--mode", "d")[0].exit_code == 2


def test_members_are_loaded_when_they_are_used():
    members = Members({"join": "os.path:join", "gone": "no.such.module:member"})
    assert list(members) == ["join", "gone"] and "join" in members and "split" not in members
    assert members["join"] is os.path.join
    with pytest.raises(ModuleNotFoundError):
        members["gone"]
    with pytest.raises(KeyError):
        members["split"]


@pytest.mark.parametrize("members", [PACKINGS])
def test_every_member_is_there(members):
    assert all(member is not None for member in members.values())
