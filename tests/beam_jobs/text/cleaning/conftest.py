"""What tests of cleaning steps share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import hypothesis.strategies as st
import pyarrow as pa
import pytest

from beam_jobs.text.cleaning import Texts, make_steps
from beam_jobs.text.extractor import DOCUMENT_SCHEMA


class Cleaned(NamedTuple):
    """What became of documents: text or None, (reason, detail) or None, reported values."""

    texts: list[str | None]
    reasons: list[str | None]
    details: list[str | None]
    columns: list[dict[str, object]]


def _batch(texts: Sequence[str], is_html: bool) -> pa.RecordBatch:
    count = len(texts)
    columns = {
        "record_id": [str(number) for number in range(count)],
        "text": list(texts),
        "is_html": [is_html] * count,
        "encoding": ["utf-8"] * count,
    }
    return pa.record_batch(columns, schema=DOCUMENT_SCHEMA)


@pytest.fixture(scope="session")
def clean() -> Callable[..., Cleaned]:
    """Cleans documents by a recipe, in one batch."""

    def run(recipe: str, *documents: str, is_html: bool = False, **options: object) -> Cleaned:
        originals = [document.encode() for document in documents]
        texts = Texts(_batch(documents, is_html), originals)
        for applied in make_steps(recipe, **options):  # type: ignore[arg-type]
            applied.step(texts)
        result = Cleaned(*([None] * len(documents) for _ in range(3)), [{} for _ in documents])
        names, values = list(texts.columns), [c.to_pylist() for c in texts.columns.values()]
        for i, (row, text) in enumerate(zip(texts.rows, texts.text.to_pylist(), strict=True)):
            result.texts[row] = text
            result.columns[row] = dict(zip(names, (column[i] for column in values), strict=True))
        for row, reject in texts.rejects:
            assert result.texts[row] is None and result.reasons[row] is None
            assert reject.data == documents[row].encode()
            result.reasons[row], result.details[row] = reject.reason, reject.detail
        return result

    return run


_NASTY = [
    *("", "a", "word", "the", "of", "Words", "x" * 40, "#", "...", "\u2026", ".", "!", "?", '"'),
    *(" ", "  ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0"),
    *("\u2028", "\u2029", "\u3000", "\u200b", "\u200c", "\u200d", "\ufeff", "\xad", "\x00", "\x1b"),
    *("\x1b[31m", "\u0301", "e\u0301", "\xe9", "\u212b", "\uac00", "\u1112\u1161\u11ab", "\ufb01"),
    *(
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f",
        "\U0001f3f4\U000e0067\U000e007f",
    ),
    *(
        "\u05d0\u200f",
        "\u202e",
        "\u2067",
        "\u0645\u06cc\u200c\u062e",
        "\u0e01\u200b\u0e02",
        "\u4e2d\u6587",
    ),
    *(
        "\u3002",
        "Ã©",
        "â€œ",
        "â€™",
        "schÃ¶n",
        "\x93",
        "Â ",
        "&amp;",
        "&lt;",
        "<p>",
        "</p>",
        "<div>",
    ),
    *("<script>", "a@b.org", "8.8.8.8", "4111 1111 1111 1111", "+49 30 123456", "javascript", "{"),
    *("lorem ipsum", "[1]", "[edit]", "cookie policy", "- ", "\u2022 ", "42", "1,000"),
]


@pytest.fixture(scope="session")
def nasty() -> st.SearchStrategy[str]:
    """Documents that have something of everything that ever went wrong with text."""
    pieces = st.one_of(st.sampled_from(_NASTY), st.text(max_size=3))
    return st.lists(pieces, max_size=30).map("".join)
