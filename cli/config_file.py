"""`--config FILE` and `--save-config FILE`: the options of a command as a file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import click

from cli.options import Decorator
from foundation.errors import UsageError, file_error
from foundation.options import declared

_WIDTH = 80  # columns of comments


def config_options(declaration: type, further: Mapping[str, type]) -> Decorator:
    """A decorator that gives a command --config and --save-config.

    What the file says becomes the default of the flags; the command gets `save_config`, a path or
    None, and calls `save`.

    Args:
        declaration: The dataclass whose options the file may have.
        further: Other parameters of the command that it may have; see `read_config`.
    """

    def load(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
        from foundation.config_file import read_config

        if path is not None:
            values = read_config(path, declared(declaration), further)
            ctx.default_map = {**(ctx.default_map or {}), **values}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--save-config",
            metavar="FILE",
            type=click.Path(),
            help="Write the options of this job to FILE, for --config, and go on.",
        )(command)
        return click.option(
            "--config",
            metavar="FILE",
            type=click.Path(),
            is_eager=True,  # before the flags, whose defaults it sets
            expose_value=False,
            callback=load,
            help="Take options from a TOML file, named as their flags; flags given here win.",
        )(command)

    return decorate


def save(path: str, options: Any, further: Mapping[str, Any], command: str) -> None:
    """Writes options to a file that `--config` takes, each with its help as a comment.

    Args:
        path: Path of the file; an existing one is replaced.
        options: A dataclass instance; options without a value become comments.
        further: What else to write, by name.
        command: The command whose options these are.

    Raises:
        InputError: It cannot be written.
    """
    try:
        data = config_text(options, further, command).encode()
        with open(path, "wb") as file:
            file.write(data)
    except UnicodeEncodeError:
        raise UsageError(
            f"--save-config {path}: an option is not UTF-8, so TOML cannot hold it. Change it."
        ) from None
    except OSError as error:
        raise file_error(error, path, resumes=False) from None


def config_text(options: Any, further: Mapping[str, Any], command: str) -> str:
    """The content of such a file."""
    import tomli_w

    from foundation.config_file import key_of

    lines = [
        f"# Options of '{command}'. Flags on the command line win.",
        "# Relative paths are relative to the working directory.",
        "",
        *(tomli_w.dumps({key_of(name): value}).rstrip("\n") for name, value in further.items()),
    ]
    for field in declared(options):
        value, key = getattr(options, field.name), key_of(field.name)
        lines += ["", *textwrap.wrap(field.metadata["help"], _WIDTH - 2, **_COMMENT)]
        if value is None:
            lines.append(f"# {key} =")
        else:
            plain = value if isinstance(value, bool | int | float) else str(value)
            lines.append(tomli_w.dumps({key: plain}).rstrip("\n"))
    return "\n".join(lines) + "\n"


_COMMENT: dict[str, Any] = {
    "initial_indent": "# ",
    "subsequent_indent": "# ",
    "break_on_hyphens": False,
}
