"""A fastText classifier of two samples selects the same documents here as in datatrove."""

from __future__ import annotations

import csv
import html
import itertools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from beam_jobs.options import TextOptions
from beam_jobs.run import preprocess
from shard_format import decode_example, load_manifest, read_records

pytestmark = pytest.mark.interop
PAGES = 400
BOUND = 0.5

_PAGE = """<!DOCTYPE html><html><head><title>Page {number}</title><style>p {{ margin: 0 }}</style>
</head><body><nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<main><article><h1>Page {number}</h1>{paragraphs}</article></main>
<footer><a href="/terms">Terms of use</a> <a href="/privacy">Privacy</a></footer></body></html>"""

_TRAIN = """
import sys
import fasttext
settings = dict(dim=16, epoch=25, lr=0.5, wordNgrams=2, bucket=10_000, thread=1, verbose=0)
fasttext.train_supervised(sys.argv[1], **settings).save_model(sys.argv[2])
"""

_SELECT = """
import json, sys
from datatrove.data import Document
from datatrove.pipeline.filters import FastTextClassifierFilter
rows = [json.loads(line) for line in open(sys.argv[1])]
# As here, a line break separates two words; by default datatrove joins them.
selects = FastTextClassifierFilter(
    sys.argv[2], keep_labels=("prose", float(sys.argv[3])), newline_replacement=" "
)
print(json.dumps([row["id"] for row in rows if selects.filter(Document(row["text"], row["id"]))]))
"""


def _paragraphs(repository: Path) -> dict[str, list[str]]:
    """Paragraphs of this project's documents, and questions of customers of a bank."""
    files = sorted((repository / "docs").glob("*.md"))
    blocks = itertools.chain.from_iterable(file.read_text().split("\n\n") for file in files)
    prose = [" ".join(one.split()) for one in blocks if one[:1].isalpha() and len(one) > 200]
    with (repository / "samples/banking/train.csv").open(encoding="latin-1") as file:
        questions = [row["text"] for row in csv.DictReader(file)]
    return {
        "prose": prose,
        "question": [" ".join(ten) for ten in zip(*[iter(questions)] * 10, strict=False)],
    }


def _write_pages(samples: dict[str, list[str]], folder: Path) -> None:
    """Pages of three paragraphs that no model was trained on, of one sample or of both."""
    folder.mkdir()
    generator = np.random.default_rng(36)
    unseen = [all_[1::2] for all_ in samples.values()]
    for number in range(PAGES):
        questions = number % 4  # of the three
        chosen = [str(generator.choice(unseen[one < questions])) for one in range(3)]
        text = "".join(f"<p>{html.escape(one)}</p>\n" for one in generator.permutation(chosen))
        (folder / f"{number:03d}.html").write_text(_PAGE.format(number=number, paragraphs=text))


def _texts(directory: Path) -> dict[str, str]:
    """The documents of a set by their ids."""
    manifest = load_manifest(directory)
    examples = (
        decode_example(record)
        for split in manifest.splits.values()
        for shard in split.shards
        for _, record in read_records(directory / shard.file)
    )
    return {one["id"][0].decode(): one["text"][0].decode() for one in examples}


def test_datatrove_drops_the_same_documents(tmp_path: Path, repository: Path) -> None:
    python = repository / ".peers" / "text" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the peers: 'make peers'")
    samples = _paragraphs(repository)
    lines = [f"__label__{name} {text}" for name, all_ in samples.items() for text in all_[::2]]
    (tmp_path / "labelled.txt").write_text("\n".join(lines))
    model = tmp_path / "quality.bin"
    subprocess.run([python, "-c", _TRAIN, tmp_path / "labelled.txt", model], check=True)
    _write_pages(samples, tmp_path / "pages")
    for name, where in (("all", None), ("selected", f"quality >= {BOUND}")):
        score = f"quality=fasttext:{model}#prose"
        preprocess(TextOptions((str(tmp_path / "pages"),), str(tmp_path / name), score=score,
                               where=where, no_labels=True, dedup="off"))  # fmt: skip
    texts, selected = _texts(tmp_path / "all"), _texts(tmp_path / "selected")
    assert len(texts) == PAGES and all("Privacy" not in text for text in texts.values())
    assert PAGES / 5 < len(selected) < PAGES * 4 / 5

    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"id": id_, "text": text}) for id_, text in texts.items()))
    program = [python, "-c", _SELECT, rows, model, str(BOUND)]
    own_cache = {**os.environ, "HF_ASSETS_CACHE": str(tmp_path)}  # it keeps models by their paths
    answer = subprocess.run(program, check=True, capture_output=True, text=True, env=own_cache)
    assert sorted(json.loads(answer.stdout)) == sorted(selected)

    ledger = load_manifest(tmp_path / "selected").ledger
    assert ledger.reasons == {"where": PAGES - len(selected)}
    report = (tmp_path / "selected" / "report.html").read_text()
    assert f"<bdi>where</bdi></span></th><td>{PAGES - len(selected)}</td>" in report
