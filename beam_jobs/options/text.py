"""What a job on documents can be told beside what every job can."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from beam_jobs.options.base import PreprocessOptions, option
from beam_jobs.options.encodings import check_encoding
from beam_jobs.options.values import (
    check_path,
    check_range,
    parse_names,
    parse_trained,
)
from beam_jobs.text.tokenizing.packings import PACKINGS
from shard_format import UsageError, file_sha256
from shard_format.wording import parse_size

if TYPE_CHECKING:
    from beam_jobs.text.cleaning import Applied

FORMAT_NAMES = (
    "auto",
    "txt",
    "html",
    "json",
    "jsonl",
    "csv",
    "tsv",
    "warc",
    "parquet",
    "arrow",
    "tfrecord",
)

# Repairs that hurt no corpus. `beam_jobs/text/cleaning/recipes.py` has longer recipes by name.
DEFAULT_CLEANING = "html,ftfy,nfc,controls,whitespace,length,language"


@dataclasses.dataclass(frozen=True)
class TextOptions(PreprocessOptions):
    """See PreprocessOptions."""

    WITHOUT_EFFECT: ClassVar[frozenset[str]] = PreprocessOptions.WITHOUT_EFFECT | {
        "tokenizer",
        "decontaminate",
    }

    ADDED: ClassVar[frozenset[str]] = PreprocessOptions.ADDED | {"path_column"}
    READING: ClassVar[tuple[str, ...]] = (
        *PreprocessOptions.READING,
        *("format", "encoding", "per_line", "separator", "columns", "text_column"),
    )

    record_type: str = "text"
    name: str = option("text", "First part of every shard's file name.", "NAME")
    source: str = option(
        "documents",
        "Folders, files, tar and zip archives of documents in any --format.",
        choices=("documents",),
    )
    format: str = option(
        "auto",
        "What the files hold; auto looks into each file (compression is always found out).",
        choices=FORMAT_NAMES,
    )
    encoding: str = option(
        "utf-8",
        "Character encoding of the files; auto detects it for each file that is no UTF-8.",
        "NAME",
    )
    per_line: bool = option(False, "Plain text: every line is a document.", type=bool)
    separator: str | None = option(
        None,
        "Plain text: documents are separated by this (\\n and \\t are understood).",
        "TEXT",
    )
    max_record_bytes: str = option(
        "128MiB", "Reject larger documents, before and while they are decompressed.", "SIZE"
    )
    columns: str | None = option(
        None, "CSV and TSV without a header line: the names of the columns.", "A,B,..."
    )
    text_column: str = option(
        "text",
        "Column or field with the document (JSON, CSV, Parquet, Arrow, TFRecord); several are "
        "joined by a line break.",
        "A[,B...]",
    )
    label_column: str | None = option(
        None,
        "Column or field with the label (default: label, if the first record has it; of plain "
        "text and HTML the class folder, if every file lies in one).",
        "NAME",
    )
    clean: str = option(
        DEFAULT_CLEANING,
        "Cleaning steps in order, each with its parameters: STEP[:NAME=VALUE...]. A recipe is a "
        "list with a name: default, web, web-en, none.",
        "STEP,...",
    )
    languages: str | None = option(
        None, "Keep documents in these languages only (ISO 639-1).", "en,de,..."
    )
    decontaminate: str | None = option(
        None,
        "Filter out documents that share a run of words with these files of a benchmark (text, "
        "JSON, JSONL, CSV, TSV).",
        "FILE,...",
    )
    contamination_words: int = option(
        13, "With --decontaminate: how many words in a row.", "N", type=int
    )
    dedup: str = option(
        "exact",
        "exact finds documents with equal words, whatever their case and spacing; near also those "
        "that share most of their word sequences (MinHash).",
        choices=("exact", "near", "off"),
    )
    near_threshold: float = option(
        0.8,
        "With --dedup near: Jaccard similarity of the sets of word 5-grams, 0.5 to 1.",
        "X",
        type=float,
    )
    dedup_parts: str = option(
        "off",
        "Take lines or paragraphs that stand elsewhere in the corpus out of the documents.",
        choices=("off", "lines", "paragraphs"),
    )
    tokenizer: str | None = option(
        None,
        "Store token ids by this tokenizer: Hugging Face tokenizers JSON or a SentencePiece model.",
        "FILE",
    )
    train_tokenizer: str | None = option(
        None,
        "Train a tokenizer on the training split, and store token ids by it.",
        "bpe:SIZE|unigram:SIZE|wordpiece:SIZE",
    )
    tokenizer_sample: str = option(
        "1GiB", "With --train-tokenizer: how much text it learns from.", "SIZE"
    )
    pack: int | None = option(
        None,
        "Pack documents into sequences of N tokens, for language modelling; labels are left out.",
        "N",
        type=int,
    )
    packing: str = option(
        "concat",
        "With --pack: concat writes one document after the other and cuts; best-fit cuts none "
        "that fits into a sequence, and pads.",
        choices=tuple(PACKINGS),
    )
    end_token: str | None = option(
        None,
        "With --pack and --tokenizer: the token that ends a document (default: the usual names).",
        "TOKEN",
    )

    def __post_init__(self) -> None:
        if self.pack is not None:
            self._check_pack()
            # A sequence holds many documents. So nothing is asked for their labels.
            object.__setattr__(self, "no_labels", True)
        super().__post_init__()
        for flag in ("text_column", "columns", "keep_columns", "languages", "decontaminate"):
            value = getattr(self, flag)
            if value is not None:
                parse_names(f"--{flag.replace('_', '-')}", value)
        for flag in ("tokenizer", "decontaminate"):
            value = getattr(self, flag)
            if value is not None:
                check_path(f"--{flag}", value)
        check_encoding(self.encoding)
        if self.separator == "":
            raise UsageError("--separator must be text, got none. Write for instance '\\n\\n'.")
        check_range("--contamination-words", self.contamination_words, 2, 100)
        parse_size("--tokenizer-sample", self.tokenizer_sample)
        if self.train_tokenizer is not None:
            parse_trained(self.train_tokenizer)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.per_line and self.separator is not None:
            self._refuse_pair("--per-line", "--separator", "is a separator of its own")
        if self.tokenizer and self.train_tokenizer:
            self._refuse_pair("--train-tokenizer", "--tokenizer", "makes a tokenizer")
        if self.dedup_parts != "off" and self.duplicates == "keep":
            self._refuse_pair(
                f"--dedup-parts {self.dedup_parts}", "--duplicates keep", "leaves one of each part"
            )
        if self.end_token is not None and self.pack is None:
            raise UsageError("--end-token is for --pack, got it without. Leave it out.")
        if self.end_token is not None and self.train_tokenizer:
            self._refuse_pair("--end-token", "--train-tokenizer", "names a token of --tokenizer")

    def _check_pack(self) -> None:
        self._check_optional("pack", 8, 1 << 20)
        if not self.tokenizes:
            raise UsageError(
                "--pack packs tokens, got neither --tokenizer nor --train-tokenizer. Add one, for "
                "instance --train-tokenizer bpe:32000."
            )
        if self.balance != "none":
            self._refuse_pair(f"--balance {self.balance}", "--pack", "needs one label a record")
        if self.keep_columns:
            self._refuse_pair("--keep-columns", "--pack", "needs one record a document")
        for flag in ("stratify", "multi_label"):
            if getattr(self, flag):
                self._refuse_pair(f"--{flag.replace('_', '-')}", "--pack", "needs labels")

    @property
    def tokenizes(self) -> bool:
        """Whether token ids are stored."""
        return self.tokenizer is not None or self.train_tokenizer is not None

    def config(self) -> dict[str, Any]:
        """See PreprocessOptions."""
        values = super().config()
        values["tokenizer_sample"] = parse_size("--tokenizer-sample", self.tokenizer_sample)
        # The file itself, wherever it lies.
        values["tokenizer"] = file_sha256(Path(self.tokenizer)) if self.tokenizer else None
        # The steps as they are applied, so that two ways to write a recipe are one.
        values["clean"] = [applied.described() for applied in self.cleaning_steps()]
        for said_there in ("languages", "contamination_words"):
            del values[said_there]
        return values

    def cleaning_steps(self) -> tuple[Applied, ...]:
        """The cleaning steps of the job, in order.

        Raises:
            UsageError: --clean or --languages names what there is not.
            InputError: A file that a step needs cannot be used.
        """
        from beam_jobs.text.cleaning import make_steps  # heavy: not for --help

        files = parse_names("--decontaminate", self.decontaminate) if self.decontaminate else ()
        return make_steps(self.clean, self.languages, files, self.contamination_words)
