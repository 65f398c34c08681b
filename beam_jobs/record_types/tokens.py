"""Documents, stored as token ids: one example each, or packed into sequences of one length."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pyarrow as pa
from typing_extensions import override

from beam_jobs.counters import counts_of, summarize
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_trained
from beam_jobs.record_types.text import TextRecords
from beam_jobs.staging.assignment import TrainingSample
from beam_jobs.staging.examples import ExampleBuilder
from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.token_examples import PackedExampleBuilder, TokenExampleBuilder, staged_text
from beam_jobs.text.tokenizers import Tokenizer, load_tokenizer, tokenizer_of_set
from beam_jobs.workspace import Workspace, read_marker, write_marker
from foundation import storage
from foundation.storage import Place
from foundation.wording import parse_size
from shard_format import Feature, InputError, Schema, file_sha256, naming

# Raised whenever the same text would become other ids or sequences.
TOKENS_VERSION = 1

TOKENS_COLUMN = pa.field("tokens", pa.int64())  # number of tokens of a document
# Index columns of a packed sequence.
PACKED_COLUMNS = (
    pa.field("documents", pa.list_(pa.string())),  # ids, in the order of the segments
    pa.field("starts", pa.list_(pa.int64())),  # first token of each segment in its document
    pa.field("padding", pa.int64()),  # tokens
)


class TokenRecords(TextRecords):
    """Input: documents. Output: {"id": "pos/1.txt", "tokens": [17, 401, ...], "label": 1}.

    Packed: {"id": "pos/1.txt#0", "tokens": [...], "segments": [1, 1, 2, ...], "positions": [0, 1,
    0, ...]}. Staging always stages text, so that a job with another tokenizer reuses the staged
    units. Token ids are computed when shards are written.
    """

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._staged = super().staged_features
        self.schema = Schema("text", self._token_features())
        self._features = super().staged_features
        self.late_columns += (TOKENS_COLUMN,)
        self._counted: tuple[str, ...] = ()
        if options.pack:
            # The index of packed sequences has no such columns, so shards count their values.
            self.summarized, self._counted = (), self.summarized
        self._loaded: tuple[str, Tokenizer] | None = None
        if options.train_tokenizer is not None:
            self.sample_bytes = parse_size("--tokenizer-sample", options.tokenizer_sample)

    def _token_features(self) -> tuple[Feature, ...]:
        length = self._options.pack
        if length is None:
            tokens = Feature("tokens", "int64", (-1,))
            return tuple(tokens if one.name == "text" else one for one in self.schema.features)
        names = ("tokens", "segments", "positions")
        return Feature("id", "text"), *(Feature(name, "int64", (length,)) for name in names)

    @override
    def check(self) -> None:
        if self._options.tokenizer is None or self._options.base:
            return
        tokenizer = load_tokenizer(storage.place_of(self._options.tokenizer))
        if self._options.pack is not None:
            tokenizer.end_token(self._options.end_token)

    @property
    def staged_features(self) -> tuple[Feature, ...]:
        """The text."""
        return self._staged

    def prepare_shared_artifacts(
        self, workspace: Workspace, sample: TrainingSample
    ) -> tuple[dict[str, Any], list[str]]:
        """Copies the tokenizer into the workspace, or trains it there."""
        options = self._options
        # The set that records are added to has none if it was to be trained, and had no record.
        base = storage.place_of(options.base) if options.base else None
        given = tokenizer_of_set(base, options.base_generation) if base else None
        if given is None and options.tokenizer is not None:
            given = storage.place_of(options.tokenizer)
        if given is not None:
            with workspace.write(_tokenizer_path(workspace)) as file:
                file.write(storage.read_bytes(given))
        elif sample.corpus_records:
            _train(options, workspace, sample)
        else:
            return {}, []  # all records were rejected, which the set reports
        tokenizer = self._tokenizer(workspace)
        vocabulary = tokenizer.vocabulary
        notes = list(tokenizer.warnings)
        notes += [] if options.base else _shortfall(options.train_tokenizer, vocabulary.size)
        end = vocabulary.end
        if options.pack is not None:
            end = tokenizer.end_token(options.end_token)
            notes.append("sequences of --pack hold several documents: labels are left out")
        digest = file_sha256(_tokenizer_path(workspace))
        return {"tokenizer": digest, "vocabulary": {**vocabulary.described(), "end": end}}, notes

    def shard_options(self) -> dict[str, Any]:
        """Packing and the versions of the kernels; the tokenizer itself is a shared artifact."""
        return {
            "tokens_version": TOKENS_VERSION,
            "kernels": _kernels(),
            "pack": self._options.pack,
            "packing": self._options.packing,
        }

    def _example_builder(self, workspace: Workspace) -> ExampleBuilder:
        tokenizer = self._tokenizer(workspace)
        if self._options.pack is None:
            return TokenExampleBuilder(tokenizer, self._features)
        end = tokenizer.end_token(self._options.end_token)
        pad = tokenizer.vocabulary.pad
        return PackedExampleBuilder(
            tokenizer,
            self._features,
            PACKINGS[self._options.packing],
            length=self._options.pack,
            end=end,
            pad=end if pad is None else pad,
            summarized=self._counted,
        )

    @property
    def index_columns(self) -> tuple[pa.Field, ...]:
        """The columns of a document, or of a sequence of several documents."""
        return PACKED_COLUMNS if self._options.pack else super().index_columns

    @override
    def files(self, workspace: Workspace) -> dict[str, Place]:
        path = _tokenizer_path(workspace)
        return (
            {naming.TOKENIZERS[self._tokenizer(workspace).kind]: path}
            if storage.exists(path)
            else {}
        )

    @override
    def training_statistics(self, counters: pa.Table) -> dict[str, Any]:
        """Tokens, the use of the vocabulary, and how documents fill sequences."""
        counted = {name: summarize(*counts_of(counters, name)) for name in self._counted}
        packing = packing_statistics(counters) if self._options.pack is not None else {}
        return counted | token_statistics(counters) | packing

    def _tokenizer(self, workspace: Workspace) -> Tokenizer:
        """The prepared tokenizer; loaded once, since that takes up to a second."""
        path = _tokenizer_path(workspace)
        digest = file_sha256(path)
        if self._loaded is None or self._loaded[0] != digest:
            self._loaded = digest, load_tokenizer(path)
        return self._loaded[1]


def _tokenizer_path(workspace: Workspace) -> Place:
    """Where the tokenizer of a build is once it is prepared."""
    return workspace.shared / "tokenizer"


def _kernels() -> list[str]:
    """Versions of the libraries that compute ids: others may split text differently."""
    return [version("sentencepiece"), version("tokenizers")]


def _train(options: TextOptions, workspace: Workspace, sample: TrainingSample) -> None:
    """Trains the tokenizer of a job, unless an interrupted run has trained the same one.

    Raises:
        InputError: There is nothing to train it on.
    """
    from beam_jobs.text.tokenizers.training import TRAINERS, TRAINING_VERSION

    if not sample.records:
        remedy = "Give it a larger fraction with --split, or name a --tokenizer."
        if options.base:
            remedy = f"{options.base} has none yet: append sources with more records."
        raise InputError(
            f"No record in the training split {sample.split!r} to train a tokenizer on. {remedy}"
        )
    kind, size = parse_trained(str(options.train_tokenizer))
    key = [TRAINING_VERSION, kind, size, sample.key(), *_kernels()]
    path = _tokenizer_path(workspace)
    marker = workspace.shared / "tokenizer.json"
    before = read_marker(marker)
    if before is not None and before["key"] == key and storage.stat(path):
        if file_sha256(path) == before["sha256"]:
            return
    storage.delete(marker)
    texts = (staged_text(entries)[0] for entries in sample.read())
    trained = TRAINERS[kind](texts, size)
    with workspace.write(path) as file:
        file.write(trained)
    write_marker(workspace, marker, {"key": key, "sha256": file_sha256(path)})


def _shortfall(trained: str | None, size: int) -> list[str]:
    """A warning if a trained tokenizer has fewer tokens than were asked for."""
    asked = parse_trained(trained)[1] if trained is not None else size
    if size == asked:
        return []
    return [f"--train-tokenizer {trained} found {size:,} tokens only: the sample has no more"]


def token_statistics(counters: pa.Table) -> dict[str, Any]:
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


def packing_statistics(counters: pa.Table) -> dict[str, Any]:
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


def text_records(options: TextOptions) -> TextRecords:
    """The record type of a job: text, or with a tokenizer token ids."""
    return TokenRecords(options) if options.tokenizes else TextRecords(options)
