"""Tokenization of a job: which tokenizer it has, what is stored by it, and its statistics.

Staging always stages text, so that a job with another tokenizer reuses the staged units. Token ids
are computed when shards are written.
"""

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
from beam_jobs.staging.examples import ExampleBuilder
from beam_jobs.staging.sample import TrainingSample
from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.token_examples import PackedExampleBuilder, TokenExampleBuilder, staged_text
from beam_jobs.text.tokenizers import Tokenizer, load_tokenizer
from beam_jobs.workspace import Workspace, read_json, write_json
from shard_format import Feature, InputError, file_sha256, naming
from shard_format.wording import parse_size

# Raised whenever the same text would become other ids or sequences.
TOKENS_VERSION = 1

TOKENS_COLUMN = pa.field("tokens", pa.int64())  # number of tokens of a document
# Index columns of a packed sequence.
PACKED_COLUMNS = (
    pa.field("documents", pa.list_(pa.string())),  # ids, in the order of the segments
    pa.field("starts", pa.list_(pa.int64())),  # first token of each segment in its document
    pa.field("padding", pa.int64()),  # tokens
)


class Tokenization:
    """The tokenizer of a job, and what is done with it.

    Args:
        options: The job, which names or trains a tokenizer.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._loaded: tuple[str, Tokenizer] | None = None

    def features(self, staged: Sequence[Feature]) -> tuple[Feature, ...]:
        """The features of an example, without its label."""
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

    def settle(
        self, workspace: Workspace, sample: TrainingSample
    ) -> tuple[dict[str, Any], list[str]]:
        """See RecordType.settle; copies the tokenizer into the workspace, or trains it there."""
        if self._options.train_tokenizer is not None:
            if not sample.corpus_records:
                return {}, []  # all records were rejected, which the set reports
            self._train(self._options.train_tokenizer, workspace, sample)
        else:
            _write(workspace, Path(str(self._options.tokenizer)).read_bytes())
        tokenizer = self._tokenizer(workspace)
        vocabulary = tokenizer.vocabulary
        warnings = [*tokenizer.warnings, *self._shortfall(vocabulary.size)]
        end = vocabulary.end
        if self._options.pack is not None:
            end = tokenizer.end_token(self._options.end_token)
            warnings.append("sequences of --pack hold several documents: labels are left out")
        ids = {"size": vocabulary.size, "unknown": vocabulary.unknown, "pad": vocabulary.pad}
        config = {"tokenizer": file_sha256(_path(workspace)), "vocabulary": {**ids, "end": end}}
        return config, warnings

    def files(self, workspace: Workspace) -> dict[str, Path]:
        """See RecordType.files."""
        if not _path(workspace).exists():
            return {}
        return {naming.TOKENIZERS[self._tokenizer(workspace).kind]: _path(workspace)}

    def example_builder(
        self, workspace: Workspace, features: Sequence[Feature], summarized: Sequence[str]
    ) -> ExampleBuilder:
        """See RecordType.example_builder; if packed, the `summarized` columns are counted."""
        tokenizer = self._tokenizer(workspace)
        if self._options.pack is None:
            return TokenExampleBuilder(tokenizer, features)
        end = tokenizer.end_token(self._options.end_token)
        pad = tokenizer.vocabulary.pad
        return PackedExampleBuilder(
            tokenizer,
            features,
            PACKINGS[self._options.packing],
            length=self._options.pack,
            end=end,
            pad=end if pad is None else pad,
            summarized=summarized,
        )

    def statistics(self, counters: pa.Table, summarized: Sequence[str]) -> dict[str, Any]:
        """See RecordType.training_statistics."""
        found = {name: summarize(*counts_of(counters, name)) for name in summarized}
        found |= _token_statistics(counters)
        return found | (_packing_statistics(counters) if self._options.pack is not None else {})

    def _shortfall(self, size: int) -> list[str]:
        how = self._options.train_tokenizer
        asked = parse_trained(how)[1] if how is not None else size
        if size == asked:
            return []
        return [f"--train-tokenizer {how} found {size:,} tokens only: the sample has no more"]

    def _tokenizer(self, workspace: Workspace) -> Tokenizer:
        """The settled tokenizer; loaded once, since that takes up to a second."""
        digest = file_sha256(_path(workspace))
        if self._loaded is None or self._loaded[0] != digest:
            self._loaded = digest, load_tokenizer(_path(workspace))
        return self._loaded[1]

    def _train(self, how: str, workspace: Workspace, sample: TrainingSample) -> None:
        """Trains a tokenizer, unless an interrupted run has trained the same one."""
        from beam_jobs.text.tokenizers.training import TRAINERS, TRAINING_VERSION

        if not sample.records:
            raise InputError(
                f"No record in the training split {sample.split!r} to train a tokenizer on. Give "
                "it a larger fraction with --split, or name a --tokenizer."
            )
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
    """Versions of the libraries that compute ids: others may split text differently."""
    return [version("sentencepiece"), version("tokenizers")]


def _token_statistics(counters: pa.Table) -> dict[str, Any]:
    """Tokens per document (without the end token), and the use of the vocabulary.

    Returns:
        "tokens": minimum, maximum, mean and histogram. "vocabulary": "size", "used" (number of ids
        that occur), "coverage" (their share of the size), "tokens" (their occurrences, without
        padding), "unknown" (the share of the unknown token in these).
    """
    ids = counts_of(counters, "id")
    tokens = int(ids.counts.sum())
    size = int(counts_of(counters, "vocabulary").values[0])
    unknown = counts_of(counters, "unknown").total
    return {
        "tokens": summarize(*counts_of(counters, "tokens")),
        "vocabulary": {
            "size": size,
            "used": len(ids.values),
            "coverage": len(ids.values) / size,
            "tokens": tokens,
            "unknown": unknown / tokens if tokens else 0.0,
        },
    }


def _packing_statistics(counters: pa.Table) -> dict[str, Any]:
    """How documents fill sequences.

    Returns:
        "packing": "sequences", "documents", "tokens" (including end tokens), "padding" (tokens),
        "padding_share" (of all stored tokens), "cut" (documents in more than one sequence),
        "cut_share".
    """
    sequences, stored, padding, cut = (
        counts_of(counters, what).total for what in ("sequences", "stored", "padding", "cut")
    )
    documents = int(counts_of(counters, "tokens").counts.sum())
    return {
        "packing": {
            "sequences": sequences,
            "documents": documents,
            "tokens": stored,
            "padding": padding,
            "padding_share": padding / (stored + padding),
            "cut": cut,
            "cut_share": cut / documents,
        }
    }
