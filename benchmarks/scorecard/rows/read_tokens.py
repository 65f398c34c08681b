"""Reading: sequences of tokens for language modelling."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from benchmarks.measure import Run, run
from benchmarks.scorecard.row import (
    OURS,
    Bench,
    Column,
    Row,
    Subject,
    detail,
    rate_columns,
    subjects_of,
)
from benchmarks.scorecard.rows.read_images import fill
from benchmarks.subjects.token_forms import LENGTH
from benchmarks.text_corpus import make_jsonl

_DOCUMENTS, _SECONDS = 20_000, 4.0
_SMALL_DOCUMENTS, _SMALL_SECONDS = 2000, 0.1

_LITDATA = "https://lightning.ai/docs/litdata/features/llm-pre-training"
_MOSAICML = "https://docs.mosaicml.com/projects/streaming"
_GRAIN = "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html"
_DATASETS = "https://huggingface.co/docs/datasets/use_with_pytorch"
_MEMMAP = "https://github.com/karpathy/nanoGPT/blob/master/train.py"
# (name, whose, key in benchmarks.subjects.token_read, form of the set, page that it follows)
_SUBJECTS = (
    ("shardmill, NumPy", OURS, "ids", "shardmill", ""),
    ("shardmill, NumPy, with segments", OURS, "segments", "shardmill", ""),
    ("shardmill, dataset", OURS, "dataset", "shardmill", ""),
    ("array on the disk, by hand", "memmap", "memmap", "memmap", _MEMMAP),
    ("MosaicML Streaming", "MosaicML Streaming", "mosaicml", "mosaicml", _MOSAICML),
    ("LitData, TokensLoader", "LitData", "litdata", "litdata", _LITDATA),
    ("Grain, ArrayRecord", "Grain", "array_records", "array_records", _GRAIN),
    ("Hugging Face datasets", "Hugging Face datasets", "datasets", "datasets", _DATASETS),
)

_OWN_FORMS = ("shardmill", "memmap")


def _make_form(bench: Bench, form: str) -> Path:
    """The folder with the sequences in the form of a library; an existing one is taken again."""
    count = _SMALL_DOCUMENTS if bench.is_small else _DOCUMENTS
    root = bench.work / f"tokens-{count}"
    out, complete = root / form, root / f"{form} is complete"
    if complete.exists():
        return out
    if form == "shardmill":
        options = {
            "clean": "default",
            "dedup": "exact",
            "no_labels": True,
            "format": "jsonl",
            "train_tokenizer": "bpe:8000",
            "pack": LENGTH,
        }
        source = make_jsonl(bench.work, count)
        run("shardmill_build", "text", source, out, json.dumps(options))
    elif form == "memmap":
        run("token_forms", form, _make_form(bench, "shardmill"), out)
    else:
        source, python = _make_form(bench, "memmap"), bench.python("readers")
        run("token_forms", form, source, out, python=python)
    complete.touch()
    return out


def _read(bench: Bench, library: str, form: str) -> Run:
    folder = _make_form(bench, form)
    fill(folder)
    return run(
        "token_read",
        library,
        folder,
        _SMALL_SECONDS if bench.is_small else _SECONDS,
        python=sys.executable if form in _OWN_FORMS else bench.python("readers"),
    )


def _subjects(bench: Bench) -> list[Subject]:
    return subjects_of(_SUBJECTS, functools.partial(_read, bench), _OWN_FORMS)


READ_TOKENS = Row(
    "tokens",
    "read sequences of tokens, page cache warm",
    """
Sequences of 1,025 token ids (documents packed end to end, a vocabulary of 8,000) become batches of
64, shuffled, one epoch after the other, with as many threads or worker processes as there are
cores, as ids alone. "with segments" also hands out, for every token, its document and its place in
it, and weights of 0 where the next token belongs to another document. shardmill checks every
record's checksum, and knows where it is. The array on the disk is what training scripts index by
hand; it copies rows out of the page cache, and does nothing else.
""",
    (*rate_columns("sequences"), Column("start s", detail("start_seconds"), "less", 1)),
    _subjects,
    behind="""
Of the libraries it leads. The array has no checksums, no place to go on from in the middle of an
epoch, and no order that several machines share; what a training script then lacks of these, it
writes itself.
""".strip(),
)
