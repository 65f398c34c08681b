"""The command `shardmill`: its groups, and how errors become exit codes.

Nothing heavy is imported here: `shardmill --help` answers in a fraction of a second.
"""

from __future__ import annotations

import errno
import io
import os
import sys

import click

from cli.commands.cache import cache
from cli.commands.demo import demo
from cli.commands.doctor import doctor
from cli.commands.export_index import export_index
from cli.commands.inspect import inspect
from cli.commands.preprocess import preprocess
from cli.commands.quarantine import quarantine
from cli.commands.read import read
from cli.commands.report import report
from cli.commands.serve import serve
from cli.commands.train import train
from cli.commands.verify import verify
from shard_format.errors import DamageError, ShardmillError, file_error
from shard_format.extras import naming_extras

_STDOUT, _STDERR = 1, 2  # file descriptors
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="shardmill")
def shardmill() -> None:
    """Raw photographs or texts in, trained model out.

    \b
    shardmill demo                                    everything at once, on samples
    shardmill preprocess images photos --out set      class folders -> shard set
    shardmill preprocess text corpus.jsonl --out set  documents -> text, token ids or sequences
    shardmill inspect set                             what is in it
    shardmill report set                              the same as a page with samples
    shardmill verify set                              is every byte what was written?
    shardmill quarantine list set                     what was refused, and why
    shardmill read set                                how fast can it be read?
    shardmill serve set                               read it with the CPUs of several machines
    shardmill doctor set --model resnet50             why is training not faster?
    shardmill train set --model small_cnn             train on it
    shardmill export-index set                        where every record lies, for other readers
    shardmill cache                                   what copies of sets are on this disk?

    Exit codes: 0 done; 2 wrong usage; 3 the input, the shard set or the installation is at fault;
    4 verification found damage; 130 interrupted; 143 training stopped by SIGTERM, to be resumed.
    """


_COMMANDS = (
    demo,
    preprocess,
    inspect,
    report,
    verify,
    quarantine,
    read,
    serve,
    doctor,
    train,
    export_index,
    cache,
)
for command in _COMMANDS:
    shardmill.add_command(command)


def main() -> None:
    """Runs the command line; only bugs show a traceback."""
    _open_closed_streams()
    _show_everything()
    try:
        with naming_extras():
            shardmill(standalone_mode=False)
    except ShardmillError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        hint = "; the same command goes on where it stopped" if _resumes(sys.argv) else ""
        click.echo(f"interrupted{hint}", err=True)
        sys.stderr.flush()
        # Not sys.exit: Beam's and TensorFlow's threads are still at work, and would abort.
        os._exit(_INTERRUPTED)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has left: `shardmill inspect set | head`
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        readable = file_error(error, "the output", resumes=_resumes(sys.argv))
        click.echo(f"error: {readable}", err=True)
        sys.exit(readable.exit_code)
    except Exception as error:
        if type(error).__name__ != "DataLossError":  # of TensorFlow, which is not imported here
            raise
        click.echo(
            f"error: records must match their checksums, one does not ({_first_line(error)}). Run "
            "'shardmill verify' on the set: it names the file and the record. If the set is "
            "intact, a copy of it is not: run 'shardmill cache --clear'.",
            err=True,
        )
        sys.exit(DamageError.exit_code)


def _open_closed_streams() -> None:
    """Else a shard might become file 2, where native libraries write their messages."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(_STDOUT, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8")


def _show_everything() -> None:
    """What stdout cannot encode, such as a bar or a file name, as an escape; stderr does already.

    Else the results of minutes would end in a traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Without this, Python tries once more at its end to write what is left, and exits with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).splitlines()[0]


def _resumes(argv: list[str]) -> bool:
    return any(name in argv[1:2] for name in ("preprocess", "train", "demo"))


if __name__ == "__main__":
    main()
