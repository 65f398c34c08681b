"""Corpora and tokenizers that are small enough to be made in a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

_WORDS = "the a of bread river stone house green walks sings über 東京 naïve 12.5 don't\n\n".split(
    " "
)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """300 documents of 1 to 90 words, no two alike."""
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, 90, 300)
    return [
        f"{number} " + " ".join(generator.choice(_WORDS, length).tolist())
        for number, length in enumerate(lengths.tolist())
    ]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """Those documents in six files, with the labels odd and even."""
    folder = tmp_path_factory.mktemp("corpus")
    for part in range(6):
        own = range(part * 50, part * 50 + 50)
        lines = [json.dumps({"text": texts[n], "label": "even odd".split()[n % 2]}) for n in own]
        (folder / f"part{part}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """A byte-level BPE of 400 tokens."""
    from beam_jobs.text.tokenizers.training import train_bpe

    path = tmp_path_factory.mktemp("tokenizer") / "any name.json"
    path.write_bytes(train_bpe(texts, 400))
    return path


@pytest.fixture(scope="session")
def sentence_piece_file(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """A SentencePiece unigram model of about 400 tokens."""
    from beam_jobs.text.tokenizers.training import train_unigram

    path = tmp_path_factory.mktemp("tokenizer") / "any name"
    path.write_bytes(train_unigram(texts, 400))
    return path


@pytest.fixture
def build_text(corpus: Path, tmp_path: Path) -> Callable[..., object]:
    """Runs a job on documents in this process; keyword arguments are its options."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    def run(out: str = "set", /, source: Path = corpus, **options: object) -> object:
        defaults: dict[str, object] = {"workers": 1, "no_report": True, "label_column": "label"}
        target = str(tmp_path / out)
        return preprocess(TextOptions((str(source),), target, **(defaults | options))).manifest

    return run


@pytest.fixture
def examples(tmp_path: Path) -> Callable[..., Iterator[dict[str, list]]]:
    """Every example of a split, decoded, with its row of the index under "row"."""
    from shard_format import decode_example, load_manifest, open_index, read_records

    def read(out: str = "set", split: str = "train") -> Iterator[dict[str, list]]:
        folder = tmp_path / out
        rows = iter(open_index(folder / "index" / f"{split}.arrow").to_pylist())
        for shard in load_manifest(folder).splits[split].shards:
            for (offset, payload), row in zip(
                read_records(folder / shard.file), rows, strict=False
            ):
                assert row["offset"] == offset
                yield {**decode_example(payload), "row": row}
        assert next(rows, None) is None

    return read
