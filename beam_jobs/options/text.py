"""The options of a job on documents."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from typing_extensions import override

from beam_jobs.options.base import PreprocessOptions, run_option
from beam_jobs.options.encodings import check_encoding
from beam_jobs.options.formats import formats_of
from beam_jobs.options.scores import SCORES
from beam_jobs.options.urls import UrlOptions
from beam_jobs.options.values import (
    FILE,
    FILES,
    NAMES,
    SIZE,
    check_element,
    parse_names,
    parse_trained,
)
from beam_jobs.text.packings import PACKINGS
from foundation import storage
from foundation.options import Limits, option, redeclared
from foundation.wording import parse_size
from shard_format import UsageError, file_sha256

# Repairs that are safe for any corpus; RECIPES of `beam_jobs.text.cleaning` has the other recipes.
DEFAULT_CLEANING = "html,ftfy,nfc,controls,whitespace,length,language"


@dataclasses.dataclass(frozen=True)
class TextOptions(UrlOptions):
    """Options of a job on documents; see PreprocessOptions."""

    COMMAND: ClassVar[str] = "text"
    ABOUT: ClassVar[str] = """\
Turn documents in files of any format into a shard set.

SRC may be folders, files, tar or zip archives of plain text, HTML, JSON, JSON Lines, CSV, TSV,
XML, WARC, Parquet, Arrow or TFRecord, compressed or not. With --url-column SRC are lists of URLs.

If the job is interrupted, run the same command again; it resumes. Arguments after -- go to
Apache Beam.

\b
Examples:
  shardmill preprocess text reviews --out set
  shardmill preprocess text corpus.jsonl.zst --text-column body --label-column topic --out set
  shardmill preprocess text 'crawl/*.warc.gz' --clean web-en --dedup near --no-labels --out set
  shardmill preprocess text corpus.jsonl --out set --dedup near --against last-year
  shardmill preprocess text books --no-labels --train-tokenizer bpe:32000 --pack 2048 --out set
"""

    record_type: str = "text"
    name: str = redeclared(PreprocessOptions, "name", default="text")
    source: str = redeclared(
        PreprocessOptions,
        "source",
        default="documents",
        help="Folders, files, tar and zip archives of documents in any --format.",
        choices=("documents",),
    )
    format: str = option(
        "auto",
        "Format of the files; auto detects it for each file (compression is always detected).",
        choices=("auto", *formats_of("text")),
        reading=10,
    )
    encoding: str = option(
        "utf-8",
        "Character encoding of the files; auto uses what each file declares, or detects it, and "
        "rejects files for which that is not clear.",
        "NAME",
        check=check_encoding,
        reading=11,
    )
    per_line: bool = option(
        False,
        "Plain text: every line is a document.",
        type=bool,
        excludes={"--separator": "is a separator of its own"},
        reading=12,
    )
    separator: str | None = option(
        None, "Plain text: what separates documents (\\n and \\t are escapes).", "TEXT", reading=13
    )
    max_record_bytes: str = redeclared(
        PreprocessOptions, "max_record_bytes", default="128MiB", absent_as="128MiB"
    )
    path_column: str = redeclared(PreprocessOptions, "path_column", absent_as="path")
    columns: str | None = option(
        None, "CSV and TSV without a header line: the names of the columns.", form=NAMES, reading=14
    )
    xml_element: str | None = option(
        None,
        "XML: every element of this name is a document (of nested ones the outermost), with or "
        "without a prefix.",
        "NAME",
        check=check_element,
        shown="an item of a feed, else the file",
        reading=16,
        absent_as=None,
    )
    text_column: str = option(
        "text",
        "Column or field with the document (JSON, CSV, XML, Parquet, Arrow, TFRecord); several are "
        "joined by a line break.",
        "A[,B...]",
        check=parse_names,
        reading=15,
    )
    label_column: str | None = redeclared(
        PreprocessOptions,
        "label_column",
        help="Column or field with the label (plain text, HTML and XML: the class folder, if every "
        "file is in one). A,B,... makes a label feature of each column; the first is the main "
        "label, which --stratify, --balance and --conflicts go by.",
        shown="label, if the first record has it",
    )
    clean: str = option(
        DEFAULT_CLEANING,
        "Cleaning steps in order, each with its parameters: STEP[:NAME=VALUE...]. A recipe is a "
        "list with a name: default, web, web-en, none.",
        "STEP,...",
    )
    languages: str | None = option(
        None, "Keep documents in these languages only (ISO 639-1).", "en,de,...", check=parse_names
    )
    score: str | None = run_option(
        None,
        "Compute a number or a label for each document, and keep it as a column of --keep-columns "
        "is: words, characters, the name of a rule of --clean such as top-2-gram; "
        "NAME=fasttext:FILE[#LABEL], NAME=ngram:FILE, NAME=ngram-of:PATH or NAME=onnx:FILE by a "
        "model, NAME=python:MODULE:FUNCTION by a function.",
        form=SCORES,
        repeatable=True,
    )
    decontaminate: str | None = option(
        None,
        "Filter out documents that share a run of words with these benchmark files (text, JSON, "
        "JSONL, CSV, TSV).",
        form=FILES,
        identity=False,
    )
    contamination_words: int = option(
        13,
        "With --decontaminate: number of words in such a run.",
        "N",
        type=int,
        limits=Limits(2, 100),
    )
    dedup: str = redeclared(
        PreprocessOptions,
        "dedup",
        choices=("exact", "near", "off"),
        help="exact finds documents with equal words, whatever their case and spacing; near also "
        "finds those that share most of their word sequences (MinHash).",
    )
    near_threshold: float = redeclared(
        PreprocessOptions,
        "near_threshold",
        default=0.8,
        help="With --dedup near: Jaccard similarity of the sets of word 5-grams, 0.5 to 1.",
    )
    dedup_parts: str = option(
        "off",
        "Remove lines or paragraphs that occur elsewhere in the corpus from the documents.",
        choices=("off", "lines", "paragraphs"),
        excludes={"--duplicates keep": "leaves one of each part"},
    )
    tokenizer: str | None = option(
        None,
        "Store token ids of this tokenizer: Hugging Face tokenizers JSON or a SentencePiece model.",
        form=FILE,
        identity=False,
    )
    train_tokenizer: str | None = option(
        None,
        "Train a tokenizer on the training split, and store its token ids.",
        "bpe:SIZE|unigram:SIZE|wordpiece:SIZE",
        check=lambda flag, value: parse_trained(value),
        excludes={"--tokenizer": "makes a tokenizer"},
    )
    tokenizer_sample: str = option(
        "1GiB", "With --train-tokenizer: how much text it is trained on.", form=SIZE
    )
    pack: int | None = option(
        None,
        "Pack documents into sequences of N tokens, for language modeling; labels are left out.",
        "N",
        type=int,
        limits=Limits(8, 1 << 20),
        excludes={
            "--balance oversample": "drops the labels",
            "--balance undersample": "drops the labels",
            "--stratify": "drops the labels",
            "--multi-label": "drops the labels",
            "--keep-columns": "merges documents",
            "--score": "merges documents",
            "--sample-weight": "merges documents",
        },
    )
    packing: str = option(
        "concat",
        "With --pack: concat writes documents one after the other and splits at N tokens; best-fit "
        "splits only documents longer than a sequence, and pads.",
        choices=PACKINGS,
    )
    end_token: str | None = option(
        None,
        "With --pack and --tokenizer: the token that ends a document.",
        "TOKEN",
        excludes={"--train-tokenizer": "names a token of --tokenizer"},
        shown="the usual names",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pack is not None:
            # A sequence holds several documents, so no label is looked for.
            object.__setattr__(self, "no_labels", True)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.separator == "":
            raise UsageError("--separator is empty. Write for instance '\\n\\n'.")
        if self.pack is not None and not self.tokenizes:
            raise UsageError(
                "--pack packs tokens, got neither --tokenizer nor --train-tokenizer. Add one, for "
                "instance --train-tokenizer bpe:32000."
            )
        if self.end_token is not None and self.pack is None:
            raise UsageError("--end-token has no effect without --pack. Leave it out.")

    @property
    def tokenizes(self) -> bool:
        """Whether token ids are stored."""
        return self.tokenizer is not None or self.train_tokenizer is not None

    @override
    def config(self) -> dict[str, Any]:
        values = super().config()
        values["tokenizer_sample"] = parse_size("--tokenizer-sample", self.tokenizer_sample)
        # The content of the file, wherever it is.
        values["tokenizer"] = (
            file_sha256(storage.place_of(self.tokenizer)) if self.tokenizer else None
        )
        # The record type adds the cleaning steps as they are applied.
        for resolved in ("clean", "languages", "contamination_words"):
            del values[resolved]
        return values
