"""What a job with a tokenizer does beside cleaning: it settles one, and stores ids by it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from beam_jobs.counters import counts_of
from beam_jobs.integer_histograms import summarize
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_trained
from beam_jobs.record_types.base import Sample, Settled
from beam_jobs.text.tokenizing.endings import PackedEnding, TokensEnding
from beam_jobs.text.tokenizing.finishing import Ending, staged_text
from beam_jobs.text.tokenizing.packings import PACKINGS
from beam_jobs.text.tokenizing.statistics import packing_statistics, token_statistics
from beam_jobs.text.tokenizing.tokenizer import Tokenizer, load_tokenizer
from beam_jobs.workspace import Workspace, read_json, write_json
from shard_format import Feature, file_sha256, naming
from shard_format.wording import parse_size

# Raised whenever the same text would become other ids or sequences.
TOKENS_VERSION = 1

TOKENS_COLUMN = pa.field("tokens", pa.int64())  # of a document
# Of a packed sequence.
PACKED_COLUMNS = (
    pa.field("documents", pa.list_(pa.string())),  # ids, in the order of the segments
    pa.field("starts", pa.list_(pa.int64())),  # of each segment: its first token's place in there
    pa.field("padding", pa.int64()),  # tokens
)


class Tokenizing:
    """The tokenizer of a job, and what is done with it.

    Args:
        options: The job, which has one.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._loaded: tuple[str, Tokenizer] | None = None

    def features(self, staged: Sequence[Feature]) -> tuple[Feature, ...]:
        """The features of an example, but for its label, where those that are staged hold text."""
        length = self._options.pack
        if length is None:
            tokens = Feature("tokens", "int64", (-1,))
            return tuple(tokens if one.name == "text" else one for one in staged)
        names = ("tokens", "segments", "positions")
        return Feature("id", "text"), *(Feature(name, "int64", (length,)) for name in names)

    def check(self) -> None:
        """See RecordType.check."""
        if self._options.tokenizer is None:
            return
        tokenizer = load_tokenizer(Path(self._options.tokenizer))
        if self._options.pack is not None:
            tokenizer.end_token(self._options.end_token)

    def shard_options(self) -> dict[str, Any]:
        """See RecordType.shard_options; the tokenizer itself is settled."""
        return {
            "tokens_version": TOKENS_VERSION,
            "kernels": _kernels(),
            "pack": self._options.pack,
            "packing": self._options.packing,
        }

    def settle(self, workspace: Workspace, sample: Sample) -> Settled:
        """Copies the tokenizer into the workspace, or trains it there."""
        if self._options.train_tokenizer is not None:
            if sample.empty:
                return Settled({}, [])  # everything was refused, and the set is to tell why
            self._train(self._options.train_tokenizer, workspace, sample)
        else:
            _write(workspace, Path(str(self._options.tokenizer)).read_bytes())
        tokenizer = self._tokenizer(workspace)
        vocabulary = tokenizer.vocabulary
        notes = [*tokenizer.notes, *self._shortfall(vocabulary.size)]
        end = vocabulary.end
        if self._options.pack is not None:
            end = tokenizer.end_token(self._options.end_token)
            notes.append("sequences of --pack hold several documents: labels are left out")
        ids = {"size": vocabulary.size, "unknown": vocabulary.unknown, "pad": vocabulary.pad}
        config = {"tokenizer": file_sha256(_path(workspace)), "vocabulary": {**ids, "end": end}}
        return Settled(config, notes)

    def files(self, workspace: Workspace) -> dict[str, Path]:
        """See RecordType.files."""
        if not _path(workspace).exists():
            return {}
        return {naming.TOKENIZERS[self._tokenizer(workspace).kind]: _path(workspace)}

    def ending(
        self, workspace: Workspace, features: Sequence[Feature], measured: Sequence[str]
    ) -> Ending:
        """What documents become; `measured` are the columns whose numbers are counted if packed."""
        tokenizer = self._tokenizer(workspace)
        if self._options.pack is None:
            return TokensEnding(tokenizer, features)
        end = tokenizer.end_token(self._options.end_token)
        pad = tokenizer.vocabulary.pad
        return PackedEnding(
            tokenizer,
            features,
            PACKINGS[self._options.packing],
            length=self._options.pack,
            end=end,
            pad=end if pad is None else pad,
            measured=measured,
        )

    def statistics(self, tally: pa.Table, measured: Sequence[str]) -> dict[str, Any]:
        """See RecordType.training_statistics."""
        found = {name: summarize(*counts_of(tally, name)) for name in measured}
        found |= token_statistics(tally)
        return found | (packing_statistics(tally) if self._options.pack is not None else {})

    def _shortfall(self, size: int) -> list[str]:
        how = self._options.train_tokenizer
        asked = parse_trained(how)[1] if how is not None else size
        if size == asked:
            return []
        return [f"--train-tokenizer {how} found {size:,} tokens only: the sample has no more"]

    def _tokenizer(self, workspace: Workspace) -> Tokenizer:
        """The one that was settled; loaded once, for it takes up to a second."""
        digest = file_sha256(_path(workspace))
        if self._loaded is None or self._loaded[0] != digest:
            self._loaded = digest, load_tokenizer(_path(workspace))
        return self._loaded[1]

    def _train(self, how: str, workspace: Workspace, sample: Sample) -> None:
        """Trains a tokenizer, unless this very one was trained by a run that was interrupted."""
        from beam_jobs.text.tokenizing.training import TRAINERS, TRAINING_VERSION

        kind, size = parse_trained(how)
        sample_bytes = parse_size("--tokenizer-sample", self._options.tokenizer_sample)
        key = [TRAINING_VERSION, kind, size, sample.key(sample_bytes), *_kernels()]
        marker = _path(workspace).with_suffix(".json")
        before = read_json(marker)
        if before is not None and before["key"] == key and _path(workspace).exists():
            if file_sha256(_path(workspace)) == before["sha256"]:
                return
        marker.unlink(missing_ok=True)
        texts = (staged_text(entries)[0] for entries in sample.read(sample_bytes))
        _write(workspace, TRAINERS[kind](texts, size))
        write_json(workspace, marker, {"key": key, "sha256": file_sha256(_path(workspace))})


def _path(workspace: Workspace) -> Path:
    return workspace.settled / "tokenizer"


def _write(workspace: Workspace, content: bytes) -> None:
    with workspace.write(_path(workspace)) as file:
        file.write(content)


def _kernels() -> list[str]:
    """Versions of what makes ids: others may split text in other ways."""
    return [version("sentencepiece"), version("tokenizers")]
