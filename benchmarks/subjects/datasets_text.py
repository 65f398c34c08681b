"""The baseline: documents through Hugging Face datasets: `map`, `filter` and Parquet.

"default" does what shardmill does by default: Unicode, white space, control characters, and exact
duplicates. "web-en" mends texts with ftfy, and passes the filters of datatrove, since the library
has none itself; near duplicates stay, since it does not find them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import sys
import unicodedata
from pathlib import Path
from typing import Any

import datasets

from benchmarks.subjects.clock import measure
from benchmarks.subjects.datatrove_text import filters

_WORKERS = len(os.sched_getaffinity(0))
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPACES = re.compile(r"[^\S\n]+")


def _normalized(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    texts = (_CONTROL.sub("", unicodedata.normalize("NFC", text)) for text in rows["text"])
    return {"text": [_SPACES.sub(" ", text).strip() for text in texts]}


_filters = functools.cache(filters)


def _judged(row: dict[str, Any], model: str) -> dict[str, Any]:
    import ftfy
    from datatrove.data import Document

    document = Document(text=ftfy.fix_text(row["text"]), id=str(row["id"]))
    for one in _filters(model):
        verdict = one.filter(document)
        if not (verdict if isinstance(verdict, bool) else verdict[0]):
            return {"text": "", "keep": False}
    return {"text": document.text, "keep": True}


def main() -> None:
    """Arguments: SOURCE OUT CLEAN MODEL."""
    source, out, clean, model = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    datasets.disable_progress_bars()
    seen: set[bytes] = set()

    def is_first(text: str) -> bool:
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return key not in seen and not seen.add(key)  # type: ignore[func-returns-value]

    def process() -> int:
        rows = datasets.load_dataset(
            "json", data_files=source, split="train", cache_dir=f"{out}/cache"
        )
        if clean == "default":
            cleaned = rows.map(_normalized, batched=True, num_proc=_WORKERS)
            kept = cleaned.filter(is_first, input_columns="text")
        else:
            judged = rows.map(_judged, fn_kwargs={"model": model}, num_proc=_WORKERS)
            kept = judged.filter(lambda keep: keep, input_columns="keep")
        Path(out).mkdir(exist_ok=True)
        kept.to_parquet(f"{out}/train.parquet")
        return len(rows)

    measure(process)


if __name__ == "__main__":
    main()
