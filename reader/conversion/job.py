"""A conversion: pieces are written by worker processes, and noted as soon as they are whole.

Until the end `OUT/.shardmill` has what the conversion is (job.json) and a note of every piece that
is in the output. The same command, run again, converts the pieces that have none. conversion.json,
which has the checksums of all files, is written last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from foundation import errors, storage
from foundation.errors import file_error
from foundation.extras import naming_extras
from foundation.machine import usable_cores
from foundation.options import check_choice, check_integer
from foundation.processes.children import ChildProcess, cause_of_end
from foundation.processes.locks import try_lock
from foundation.storage import Place, Url, place_of
from reader.conversion.base import ConversionFormat, ConversionPiece, Written
from reader.conversion.formats import CONVERSION_FORMATS
from reader.conversion.pieces import SplitRecords, records_to_convert
from reader.conversion.worker import ConversionFailure, ConversionTask, place_files
from shard_format import InputError, Manifest, UsageError, load_manifest, naming
from shard_format.checksums import whole_build
from shard_format.dataset_card import CardSplit, card_page

NOTE = "conversion.json"
_WHERE = "reader.convert"
_GRACE_SECONDS = 5.0
OnProgress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What was written.

    Attributes:
        folder: Where.
        to: Name of the format.
        root_hash: Root hash of the set.
        splits: By the name of a split its "records", "files" and "bytes".
        resumed: Number of pieces that an earlier run had written.
    """

    folder: Place
    to: str
    root_hash: str
    splits: dict[str, dict[str, int]]
    resumed: int


def convert(
    directory: str | os.PathLike[str] | Url,
    to: str,
    out: str | os.PathLike[str] | Url,
    *,
    where: str | None = None,
    shard_bytes: int = 128 << 20,
    workers: int | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Conversion:
    """Writes the records of all splits of a set in another format.

    Records keep their order, all of their features and their ids; images are copied as they are
    stored. Beside its features a record has the CRC-32C of its tf.train.Example in the set
    (`record_crc32c`), and OUT/conversion.json has the root hash of the set and the SHA-256 of every
    file. A conversion that was interrupted resumes when it is called again.

    Args:
        directory: The shard set, or its URL.
        to: One of `CONVERSION_FORMATS`.
        out: An empty folder or one that does not exist, or its URL.
        where: Condition on columns of the index that selects records, as in `reader.load`.
        shard_bytes: Size of the records of one file, at least 1; files of a split differ by at most
            one record.
        workers: Number of processes, at least 1; None for one for each core.
        on_progress: Called with (records that are written, of how many).

    Raises:
        UsageError: An option is wrong, or `where` selects no record.
        InputError: The folder has other files or another conversion, it cannot be written, or the
            format does not hold a feature.
        MissingExtraError: The library of the format is not installed.
        ShardSetError: There is no shard set.
        DamageError: A record or an index is damaged.
    """
    check_choice("to", to, CONVERSION_FORMATS, _WHERE)
    check_integer("shard_bytes", shard_bytes, 1, where=_WHERE)
    if workers is not None:
        check_integer("workers", workers, 1, where=_WHERE)
    root, folder = (place_of(storage.absolute(str(place_of(one)))) for one in (directory, out))
    manifest = load_manifest(root)
    if storage.overlap(root, folder):
        raise UsageError(f"{folder} and the set {root} overlap in {_WHERE}. Pass another folder.")
    form = CONVERSION_FORMATS[to]()
    form.check(manifest.schema)
    with naming_extras():
        form.load()
    records = records_to_convert(root, manifest, where)
    pieces = [piece for split in records for piece in split.pieces(shard_bytes)]
    settings = {
        "to": to,
        "set": manifest.name,
        "root_hash": manifest.root_hash,
        "where": where,
        "shard_bytes": shard_bytes,
        "libraries": {name: importlib.metadata.version(name) for name in form.packages},
    }
    try:
        with _Job(folder, settings) as job:
            known = {} if job.is_done else job.notes(pieces)
            if not job.is_done:
                task = ConversionTask(root, manifest.root_hash, to, folder, job.scratch)
                done = _convert_pieces(task, job, records, pieces, known, workers, on_progress)
                job.finish(form, manifest, root, done)
            return Conversion(folder, to, manifest.root_hash, job.summary(), len(known))
    except OSError as error:
        raise file_error(error, str(folder)) from error


class _Job:
    """The notes of a conversion in its output.

    Args:
        out: The output.
        settings: What the files follow from.

    Attributes:
        scratch: Empty local folder for files that are written; on the file system of `out` if that
            is local.
        is_done: Whether the output is whole.

    Raises:
        InputError: The output has other files, or another conversion.
    """

    def __init__(self, out: Place, settings: Mapping[str, Any]) -> None:
        self._out, self._settings = out, dict(settings)
        self._folder = out / naming.WORK_DIR
        self._stack = contextlib.ExitStack()
        self.is_done = False

    def __enter__(self) -> _Job:
        with contextlib.ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, stack: contextlib.ExitStack) -> None:
        out, note = self._out, self._read(self._out / NOTE)
        if note is not None:
            self._compare(note, "is")
            storage.delete_tree(self._folder)
            self.is_done = True
            return
        job = self._folder / "job.json"
        begun = self._read(job)
        if begun is not None:
            self._compare(begun, "was begun as")
        elif storage.is_folder(out) and any(
            entry.name != naming.WORK_DIR for entry in storage.list_folder(out)
        ):
            raise InputError(f"{out} has files that are not of a conversion. Choose another --out.")
        storage.make_folder(self._folder)
        if isinstance(self._folder, Path):
            lock = stack.enter_context(open(self._folder / "lock", "wb"))
            if not try_lock(lock):
                raise InputError(f"Another process converts to {out}. Wait for its end.")
            self.scratch = self._folder / "scratch"
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir()
        else:
            self.scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._write(job, self._settings)

    def _write(self, place: Place, content: Mapping[str, Any]) -> None:
        data = json.dumps(content, indent=1).encode() + b"\n"
        # The scratch folder is cleared by a later run.
        storage.write_bytes(place, data, durable=True, scratch=self.scratch)

    def _read(self, place: Place) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads(storage.read_bytes(place))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"{place} is damaged ({error}). Delete {self._out}.") from error
        return content

    def _compare(self, other: Mapping[str, Any], verb: str) -> None:
        for name, value in self._settings.items():
            if other.get(name) != value:
                raise InputError(
                    f"{self._out} {verb} a conversion with {name} {other.get(name)!r}, not "
                    f"{value!r}. Choose another --out, or delete it."
                )

    def notes(self, pieces: Sequence[ConversionPiece]) -> dict[str, Written]:
        """By the name of a piece the result of an earlier run."""
        by_name = {piece.name: piece for piece in pieces}
        folder = self._folder / "pieces"
        names = (
            [entry.name for entry in storage.list_folder(folder)]
            if storage.is_folder(folder)
            else []
        )
        known = {}
        for name in names:
            piece = by_name[name.removesuffix(".json")]
            note = self._noted(piece)
            files, sizes, digests = (tuple(note[key]) for key in ("files", "bytes", "sha256"))
            known[piece.name] = Written(piece, files, sizes, digests, None)
        return known

    def note(self, written: Written) -> None:
        """Notes that the files of a piece are in the output."""
        content = dataclasses.asdict(written)
        del content["piece"]
        place = self._place_of(written.piece)
        storage.make_folder(place.parent)
        self._write(place, content)

    def _place_of(self, piece: ConversionPiece) -> Place:
        return self._folder / "pieces" / f"{piece.name}.json"

    def _noted(self, piece: ConversionPiece) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(storage.read_bytes(self._place_of(piece)))
        return content

    def finish(
        self,
        form: ConversionFormat,
        manifest: Manifest,
        root: Place,
        written: Sequence[Written],
    ) -> None:
        """Writes the files that describe all pieces, and at last conversion.json."""
        splits: dict[str, list[Written]] = {}
        for one in written:
            splits.setdefault(one.piece.split, []).append(one)
        folder = self.scratch / "finish"
        folder.mkdir()
        pieces = {split: [one.piece for one in own] for split, own in splits.items()}
        schema = manifest.schema
        form.finish(
            manifest.name, schema, pieces, lambda piece: self._noted(piece)["details"], folder
        )
        for name in naming.TOKENIZERS.values():
            if name in manifest.files:
                (folder / name).write_bytes(storage.read_bytes(root / name))
        card = self._card(form, manifest, whole_build(root), splits)
        (folder / naming.CARD).write_text(card, encoding="utf-8", newline="")
        further = place_files(folder, self._out, listed=True)
        note = {
            **self._settings,
            "schema": schema.to_json(),
            "splits": {
                split: {
                    "records": sum(one.piece.records for one in own),
                    "files": [file for one in own for file in _described(one)],
                }
                for split, own in splits.items()
            },
            "further_files": [
                {"file": file, "bytes": size, "sha256": digest}
                for file, size, digest in zip(*further, strict=True)
            ],
        }
        self._write(self._out / NOTE, note)
        storage.delete_tree(self._folder)

    def _card(
        self,
        form: ConversionFormat,
        manifest: Manifest,
        build: Mapping[str, Any],
        written: Mapping[str, Sequence[Written]],
    ) -> str:
        """README.md of the output; from that of Parquet the Hub knows the splits."""
        splits = [
            CardSplit(
                split,
                sum(one.piece.records for one in own),
                sum(len(one.files) for one in own),
                sum(sum(one.bytes) for one in own),
            )
            for split, own in written.items()
        ]
        patterns = {split: form.data_files.replace("{split}", split) for split in written}
        return card_page(
            manifest,
            build,
            splits,
            form.reading.replace("{split}", next(iter(written), "train")),
            of_files=form.files,
            data_files=patterns if form.data_files else None,
            selected=self._settings["where"],
        )

    def summary(self) -> dict[str, dict[str, int]]:
        """Records, files and bytes of each split."""
        note = self._read(self._out / NOTE) or {}
        return {
            split: {
                "records": own["records"],
                "files": len(own["files"]),
                "bytes": sum(file["bytes"] for file in own["files"]),
            }
            for split, own in note["splits"].items()
        }


def _described(written: Written) -> list[dict[str, Any]]:
    return [
        {"file": file, "bytes": size, "sha256": digest, "records": written.piece.records}
        for file, size, digest in zip(written.files, written.bytes, written.sha256, strict=True)
    ]


def _convert_pieces(
    task: ConversionTask,
    job: _Job,
    splits: Sequence[SplitRecords],
    pieces: Sequence[ConversionPiece],
    known: Mapping[str, Written],
    workers: int | None,
    on_progress: OnProgress,
) -> list[Written]:
    """Converts the pieces that are not known, and returns the results of all, in order."""
    results = dict(known)
    total = sum(piece.records for piece in pieces)
    done = sum(one.piece.records for one in results.values())
    waiting = [piece for piece in pieces if piece.name not in results]
    rows = {split.split: split.rows_of for split in splits}
    on_progress(done, total)
    number = min(workers or math.ceil(usable_cores()), len(waiting))
    with _workers(task, number) as team:
        queue = iter(waiting)

        def hand_out(connection: Connection) -> None:
            piece = next(queue, None)
            if piece is None:
                del team[connection]
                connection.close()
            else:
                connection.send((piece, rows[piece.split](piece)))

        for connection in list(team):
            hand_out(connection)
        while team:
            for ready in cast("list[Connection]", wait(list(team))):
                written = _received(ready, team[ready])
                job.note(written)
                results[written.piece.name] = dataclasses.replace(written, details=None)
                done += written.piece.records
                on_progress(done, total)
                hand_out(ready)
    return [results[piece.name] for piece in pieces]


@contextlib.contextmanager
def _workers(task: ConversionTask, number: int) -> Iterator[dict[Connection, ChildProcess]]:
    """Within this context there are worker processes, by the connections to them."""
    team: dict[Connection, ChildProcess] = {}
    environment = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with contextlib.ExitStack() as stack:
        for one in range(number):
            ours, theirs = Pipe()
            stack.callback(ours.close)
            scratch = task.scratch / f"worker-{one}"
            scratch.mkdir()
            program = [sys.executable, "-P", "-m", "reader.conversion"]
            process = ChildProcess(
                [*program, str(theirs.fileno())],
                task.scratch / f"worker-{one}.log",
                environment,
                kept_open=[theirs.fileno()],
                grace=_GRACE_SECONDS,
            )
            stack.callback(process.kill)
            theirs.close()
            ours.send(task._replace(scratch=scratch))
            team[ours] = process
        yield team


def _received(connection: Connection, process: ChildProcess) -> Written:
    """What a worker sends.

    Raises:
        ShardmillError: The worker met it.
        InputError: The worker is gone.
        RuntimeError: The worker met any other error.
    """
    try:
        answer: Written | ConversionFailure = connection.recv()
    except (EOFError, ConnectionError) as error:
        process.kill()
        last = "; ".join(process.last_lines()[-3:]) or "it printed nothing"
        raise InputError(
            f"A worker process ended ({cause_of_end(process.poll())}; {last}). Run the same "
            "command again; it resumes. Fewer --workers need less memory."
        ) from error
    if isinstance(answer, Written):
        return answer
    if answer.kind:
        raise getattr(errors, answer.kind, InputError)(answer.message)
    raise RuntimeError(f"A worker process failed:\n{answer.message}")
