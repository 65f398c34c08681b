"""The interface of a scorer, and the files of the user that scorers load."""

from __future__ import annotations

import abc
import contextlib
import functools
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from beam_jobs.options.scores import ScoreSpec
from foundation import storage
from shard_format import Feature, UsageError, file_sha256


class Scorer(abc.ABC):
    """Computes values of a batch of records; those of a record must not depend on the others.

    Attributes:
        features: The columns that it makes.
    """

    features: tuple[Feature, ...]

    @abc.abstractmethod
    def described(self) -> dict[str, Any]:
        """What decides its values, wherever its files are: for the manifest and keys of units."""

    @abc.abstractmethod
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """[n] values for each of `features`.

        Args:
            records: [n] images, [height, width, 3] uint8 each; or [n] texts.
        """


def parameter(spec: ScoreSpec, name: str, default: str) -> str:
    """The value of a parameter of a score."""
    return dict(spec.parameters).get(name, default)


def check_parameters(spec: ScoreSpec, *names: str) -> None:
    """Checks that a score has no other parameters than these.

    Raises:
        UsageError: It has.
    """
    for name, _ in spec.parameters:
        if name not in names:
            known = ", ".join(names) or "none at all"
            raise UsageError(
                f"--score {spec.column}: {spec.scorer} has no parameter {name!r}. Its parameters "
                f"are {known}."
            )


def column(spec: ScoreSpec, kind: str, suffix: str = "") -> Feature:
    """A column of a score whose kind is not for the user to choose.

    Raises:
        UsageError: The user did.
    """
    if spec.kind:
        raise UsageError(
            f"--score {spec.column}:{spec.kind}: {spec.scorer} makes columns of its own kinds. "
            f"Write {spec.column}={spec.scorer}:..."
        )
    return Feature.parse(f"{spec.column}{suffix}", kind)


def digest(path: str) -> str:
    """SHA-256 of a file, which is read once as long as it does not change.

    Raises:
        UsageError: It cannot be read.
    """
    return _digest(path, version_of(path))


def version_of(path: str) -> tuple[int, ...]:
    """Size and time of change of a file, or of all files in a folder.

    Raises:
        UsageError: There is no such file.
    """
    try:
        versions = [storage.stat(storage.place_of(one)) for one in files_of(path)]
    except OSError as error:
        raise UsageError(f"--score: cannot read {path}: {error.strerror}. Check it.") from None
    if None in versions or not versions:
        raise UsageError(f"--score: there is no file {path}. Correct the path.")
    return tuple(number for one in versions if one for number in one)


def files_of(path: str) -> list[str]:
    """The file itself, or those in the folder, by name."""
    place = storage.place_of(path)
    if not storage.is_folder(place):
        return [path]
    files = (one.name for one in storage.list_folder(place) if one.kind != storage.FOLDER)
    return [str(place / name) for name in sorted(files) if not name.startswith(".")]


@functools.lru_cache(maxsize=64)
def _digest(path: str, version: tuple[int, ...]) -> str:
    return file_sha256(storage.place_of(path))


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """Within this context, a file that a library can open by its path."""
    place = storage.place_of(path)
    local = storage.local_path(place)
    if local is not None:
        yield str(local)
        return
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(storage.read_bytes(place))
        copy.flush()
        yield copy.name
