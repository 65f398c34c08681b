"""The files of checkpoints: which of them are whole, and which are deleted.

    ckpt-7.data-00000-of-00001   values, as TensorFlow writes them
    ckpt-7.index                 their names
    ckpt-7.json                  size and CRC32C of both; written when both are on the disk
    checkpoint                   names the latest one and those before it; written last

A checkpoint without its .json was cut off by a kill, and is ignored. Unless the file `checkpoint`
names it: then a version before these checksums wrote it, or the .json is lost, and TensorFlow's own
checksums are verified.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

import google_crc32c
import tensorflow as tf

from foundation.errors import DamageError, file_error

LATEST = "checkpoint"
_PARTS = (".data-00000-of-00001", ".index")
_RECORD = ".json"
_BLOCK_BYTES = 1 << 20
# What TensorFlow raises for values that it cannot read.
_UNREADABLE = (tf.errors.OpError, ValueError, IndexError)

# called with a file that is not as it was written, what was found, and the checkpoint that is used
OnDamaged = Callable[[Path, str, Path], None]


def rank(name: str) -> int:
    """The place of a file of a checkpoint in the order of writing; files are deleted in reverse."""
    return 2 if name == LATEST else int(name.endswith(_RECORD))


def prefix_of(directory: Path, number: int) -> Path:
    """What TensorFlow calls a checkpoint: the beginning of the paths of its files."""
    return directory / f"ckpt-{number}"


def newest(
    directory: Path, on_damaged: OnDamaged = lambda *_: None, *, whole: bool = True
) -> int | None:
    """The number of the newest checkpoint that is as it was written; None if there is none.

    Args:
        directory: Directory of the checkpoints.
        on_damaged: Function called with every file for which a newer checkpoint was passed over.
        whole: Whether every byte is read; else the sizes alone are compared.

    Raises:
        DamageError: There are checkpoints, and all are damaged.
        InputError: A file cannot be opened.
    """
    damaged: list[tuple[Path, str]] = []
    recorded = _recorded(directory)
    try:
        named = _named(directory)
    except ValueError as error:
        damaged.append((directory / LATEST, str(error)))
        named = sorted({number for number, path in _files(directory) if path.suffix == ".index"})
    for number in sorted({*recorded, *named}, reverse=True):
        prefix = prefix_of(directory, number)
        check = _damage_of_recorded if number in recorded else _damage_of_unrecorded
        damage = check(prefix, whole)
        if damage is None:
            for path, fact in damaged:
                on_damaged(path, fact, prefix)
            return number
        damaged.append(damage)
    if not damaged:
        return None
    facts = "; ".join(f"{path} {fact}" for path, fact in damaged)
    raise DamageError(
        f"No checkpoint of this run is whole: {facts}. Restore the files from a copy; or delete "
        f"{directory} to train from the beginning; or pass another --run-dir."
    )


def older(directory: Path, number: int) -> list[int]:
    """The checkpoints before this one, ascending; they are not verified."""
    with contextlib.suppress(ValueError):
        return sorted(n for n in {*_recorded(directory), *_named(directory)} if n < number)
    return sorted(n for n in _recorded(directory) if n < number)


def next_number(directory: Path) -> int:
    """A number that no checkpoint had, also none that is damaged or unfinished."""
    try:
        named = _named(directory)
    except ValueError:
        named = []
    return max([0, *named, *(number for number, _ in _files(directory))]) + 1


def complete(directory: Path, kept: Sequence[int], before: Iterable[Path]) -> None:
    """Makes the values that TensorFlow has written a checkpoint, and deletes those not kept.

    Whatever happens in between, a whole checkpoint is found: first the values are on the disk, then
    their checksums, then the name of the latest one; only then older ones are deleted.

    Args:
        directory: Directory of the checkpoints.
        kept: Those that stay, ascending; the last is the new one.
        before: Files that have to be on the disk before it; those that do not exist are left out.

    Raises:
        OSError: There is no room, or the disk fails.
    """
    for path in before:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            os.fsync(file.fileno())
    prefix = prefix_of(directory, kept[-1])
    record = {}
    for part in _PARTS:
        path = Path(f"{prefix}{part}")
        with path.open("rb") as file:
            os.fsync(file.fileno())
            record[path.name] = {
                "bytes": os.fstat(file.fileno()).st_size,
                "crc32c": f"{_crc32c(file):08x}",
            }
    _write(Path(f"{prefix}{_RECORD}"), json.dumps(record, indent=1) + "\n")
    names = [f'"{prefix_of(directory, number).name}"' for number in kept]
    lines = [f"model_checkpoint_path: {names[-1]}"]
    lines += [f"all_model_checkpoint_paths: {name}" for name in names]
    _write(directory / LATEST, "\n".join(lines) + "\n")
    delete_others(directory, kept)


def delete_others(directory: Path, kept: Sequence[int]) -> None:
    """Deletes the files of all checkpoints but these, of unfinished and of damaged ones too."""
    files = [path for number, path in _files(directory) if number not in kept]
    # The checksums first: what a kill leaves of the rest then counts as unfinished.
    for path in sorted(files, key=lambda path: path.suffix != _RECORD):
        path.unlink(missing_ok=True)


def _files(directory: Path) -> list[tuple[int, Path]]:
    """(number, path) of every file of a checkpoint, temporary ones of TensorFlow included."""
    try:
        paths = list(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error(error, str(directory)) from error
    return [
        (int(match[1]), path)
        for path in paths
        if (match := re.match(r"ckpt-(\d+)\.", path.name)) is not None
    ]


def _recorded(directory: Path) -> set[int]:
    return {number for number, path in _files(directory) if path.name == f"ckpt-{number}{_RECORD}"}


def _named(directory: Path) -> list[int]:
    """The checkpoints that the file `checkpoint` names.

    Raises:
        ValueError: It names none; the message is what was found.
    """
    path = directory / LATEST
    try:
        text = path.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error(error, str(path)) from error
    # TensorFlow's own writer puts a time on a line of its own; a path may be absolute.
    numbers = re.findall(r'^\w*model_checkpoint_paths?: "(?:.*/)?ckpt-(\d+)"', text, re.MULTILINE)
    if not numbers:
        raise ValueError("names no checkpoint")
    return sorted(set(map(int, numbers)))


def _damage_of_recorded(prefix: Path, whole: bool) -> tuple[Path, str] | None:
    """The first file that is not as its checksum says, and what was found."""
    record = Path(f"{prefix}{_RECORD}")
    try:
        expected = json.loads(record.read_bytes())
        entries = [(Path(f"{prefix}{part}"), expected[f"{prefix.name}{part}"]) for part in _PARTS]
        wanted = [(path, int(entry["bytes"]), str(entry["crc32c"])) for path, entry in entries]
    except (ValueError, KeyError, TypeError):
        return record, "is not the list of checksums that was written"
    except OSError as error:
        raise file_error(error, str(record)) from error
    for path, size, crc32c in wanted:
        damage = _difference(path, size, crc32c if whole else None)
        if damage is not None:
            return path, damage
    return None


def _difference(path: Path, size: int, crc32c: str | None) -> str | None:
    """How a file differs from what was written; None if it does not.

    Raises:
        InputError: It cannot be opened.
    """
    try:
        with path.open("rb") as file:
            found_size = os.fstat(file.fileno()).st_size
            if found_size != size:
                return f"has {found_size:,} bytes, not {size:,}"
            if crc32c is not None and (actual := f"{_crc32c(file):08x}") != crc32c:
                return f"has the CRC32C {actual}, not {crc32c}"
    except FileNotFoundError:
        return "is missing"
    except PermissionError as error:
        raise file_error(error, str(path)) from error
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _damage_of_unrecorded(prefix: Path, whole: bool) -> tuple[Path, str] | None:
    """The same of a checkpoint without checksums of ours."""
    for part in _PARTS:
        path = Path(f"{prefix}{part}")
        if not path.exists():
            return path, "is missing"
    try:
        values = tf.train.load_checkpoint(str(prefix))
        for name in values.get_variable_to_shape_map() if whole else ():
            values.get_tensor(name)
    except _UNREADABLE as error:
        return prefix, f"cannot be read ({str(error).partition(chr(10))[0]})"
    return None


def _crc32c(file: IO[bytes]) -> int:
    crc = 0
    # In blocks, for the interpreter is locked while one is summed up.
    while block := file.read(_BLOCK_BYTES):
        crc = google_crc32c.extend(crc, block)
    return crc


def _write(path: Path, text: str) -> None:
    """Writes under a temporary name that is on the disk before it is renamed."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
