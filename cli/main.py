"""The command `shardmill`: its groups, and how errors become exit codes.

Nothing heavy is imported here: `shardmill --help` answers in a fraction of a second.
"""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
from typing import NoReturn

import click
from typing_extensions import override

from cli import ending
from foundation.errors import (
    INTERRUPTED,
    RESUMES,
    DamageError,
    ShardmillError,
    file_error,
)
from foundation.extras import naming_extras
from foundation.processes.signals import exit_now

_STDOUT, _STDERR = 1, 2  # file descriptors


class _Commands(click.Group):
    """A group that imports the module of a command when it runs, not to list its name."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in _COMMANDS:
            member = name.replace("-", "_")
            command = getattr(importlib.import_module(f"cli.commands.{member}"), member)
        return name, command, rest


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="shardmill")
def shardmill() -> None:
    """Raw images or texts in, trained model out.

    \b
    shardmill demo                                    run everything on the samples
    shardmill preprocess images photos --out set      class folders -> shard set
    shardmill preprocess text corpus.jsonl --out set  documents -> text, token ids or sequences
    shardmill inspect set                             show its contents
    shardmill report set                              write a page with samples
    shardmill view set                                walk through it in a browser
    shardmill verify set                              check every byte
    shardmill repair set                              write damaged files again
    shardmill log set                                 show what was appended, and when
    shardmill audit set                               look for bad images, leaks, wrong labels
    shardmill diff old new                            show what differs between two sets
    shardmill compact set                             merge what was appended, remove records
    shardmill quarantine list set                     show rejected records, with reasons
    shardmill read set                                measure how fast it is read
    shardmill serve set                               read it with the CPUs of several machines
    shardmill doctor set --model resnet50             find out why training is slow
    shardmill train set --model small_cnn             train on it
    shardmill search set space.yaml                   find good options for it
    shardmill runs runs                               compare trainings, with their curves and costs
    shardmill evaluate run                            measure the model on its test split
    shardmill export run --out served                 write the model for a server or a phone
    shardmill predict run photo.jpg                   classify files or texts
    shardmill convert set --to webdataset --out tars  write it in the format of another program
    shardmill export-annotations set --out coco       write boxes for programs that look at them
    shardmill export-index set                        write record offsets for other readers
    shardmill cache                                   show copies of sets on this disk

    Exit codes: 0 done; 2 wrong usage; 3 the input, the shard set or the installation is at fault;
    4 verification or reading found damage, some files could not be repaired, or no checkpoint is
    whole; 130 interrupted; 143 stopped by SIGTERM; 175 another worker of the training was lost.
    With --json each of them prints one object.
    """


# The files in cli/commands, and what the list of commands says of each.
_COMMANDS = {
    "audit": "Look for bad images, copies across splits, leaks, wrong labels.",
    "cache": "List the copies in a cache directory, or delete them.",
    "compact": "Merge the generations of a set, or remove records.",
    "convert": "Write a set as WebDataset, MDS, Parquet, or in another format.",
    "demo": "Preprocess sample photographs and texts, train on both.",
    "diff": "Show what differs between two sets, or two generations of one.",
    "doctor": "Find the bottleneck of a training, and faster options.",
    "evaluate": "Measure a model on records that it was not trained on.",
    "export": "Export the model of a finished training.",
    "export-annotations": "Write boxes and segmentations in the form of COCO.",
    "export-index": "Write one index file per shard, for other readers.",
    "inspect": "Show ledger, splits, classes and duplicates of a shard set.",
    "log": "Show the generations of a set.",
    "predict": "Predict the classes of images or texts.",
    "preprocess": "Turn a raw corpus into a shard set.",
    "quarantine": "List, export or replay the records that a build rejected.",
    "read": "Measure how fast a shard set is read, decoded and augmented.",
    "repair": "Write what 'shardmill verify' finds damaged again.",
    "report": "Write a page with counts, histograms, samples and duplicates.",
    "runs": "Compare training runs: curves, options that differ, cost.",
    "search": "Search for good options of a training.",
    "serve": "Decode and augment a shard set for trainers elsewhere.",
    "train": "Train a Keras model on a shard set.",
    "verify": "Check every file of a shard set against its manifest.",
    "view": "Walk through a set in a browser.",
}
for _name, _about in _COMMANDS.items():
    shardmill.add_command(click.Command(_name, short_help=_about))


def main() -> None:
    """Runs the command line; only bugs show a traceback."""
    _open_closed_streams()
    _show_everything()
    # Arrow's own allocator keeps what is free, for every thread; it is chosen when Arrow is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    code: str | int | None = 0
    with ending.of_command():
        try:
            _run()
        except SystemExit as end:
            code = end.code
            if isinstance(code, int) and code:
                ending.print_object(code, f"exit code {code}; stderr says why")
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            ending.print_object(1, message, "Report it with its traceback.")
            raise
    if code:
        # What the error held, such as a data set at work, is destroyed now: while Python ends, that
        # would wait for threads of TensorFlow which wait for Python.
        gc.collect()
        sys.exit(code)


def _run() -> None:
    try:
        with naming_extras():
            # By this name also as a module, since shell completion asks for it.
            shardmill(standalone_mode=False, prog_name="shardmill")
    except ShardmillError as error:
        if type(error).__name__ == "WorkersLost":  # the trainer is imported where it is used
            _end_without(error)
        ending.fail(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        ending.print_object(error.exit_code, error.format_message(), _help_for(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        hint = str(error) or str(error.__cause__ or "")  # click raises an Abort from it
        if not hint and _resumes(sys.argv):
            hint = RESUMES
        click.echo(f"interrupted: {hint}" if hint else "interrupted", err=True)
        ending.print_object(INTERRUPTED, "interrupted", hint)
        exit_now(INTERRUPTED)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader has closed the pipe: `shardmill inspect set | head`
        _drop_output()
        sys.exit(0)
    except Exception as error:
        readable = _readable(error)
        if readable is None:
            raise
        ending.fail(readable)
        if isinstance(error, OSError):
            _drop_output()
        sys.exit(readable.exit_code)


def _end_without(lost: ShardmillError) -> NoReturn:
    """Ends a worker at once that lost another one: TensorFlow would wait for that at the exit."""
    from trainer.launching import is_launched

    if is_launched():
        ending.object_was_printed()  # by the launcher at its end: it may start this one again
    ending.fail(lost)
    exit_now(lost.exit_code)


def _readable(error: Exception) -> ShardmillError | None:
    """An error of the system or of TensorFlow in words; None for a bug."""
    if isinstance(error, OSError):
        in_object_store = "://" in str(error.filename)
        if error.errno not in (errno.ENOSPC, errno.ENAMETOOLONG) and not in_object_store:
            return None
        return file_error(error, "the output", resumes=_resumes(sys.argv))
    kind = type(error).__name__  # TensorFlow is not imported here
    if kind == "UnknownError":
        from reader.damage import raised_in_graph

        return raised_in_graph(error)
    if kind != "DataLossError":
        return None
    first_line = str(getattr(error, "message", error)).splitlines()[0]
    return DamageError(
        f"a record does not match its checksum ({first_line}). Run 'shardmill verify' on the set: "
        "it names the file and the record. If the set is intact, a cached copy is not: run "
        "'shardmill cache --clear'."
    )


def _help_for(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return context and f"Run '{context.command_path} --help'."


def _open_closed_streams() -> None:
    """Opens closed standard streams: a shard opened as file 2 would get native messages."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8")


def _show_everything() -> None:
    """Escapes characters that stdout cannot encode, as stderr does, instead of a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discards buffered output, which Python would try to write at exit, ending with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _resumes(argv: list[str]) -> bool:
    commands = ("preprocess", "repair", "train", "search", "demo", "compact")
    known = any(name in argv[1:2] for name in commands)
    return known and "--dry-run" not in argv


if __name__ == "__main__":
    main()
