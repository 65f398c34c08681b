"""Documents that have lost parts are compared again, and measured again."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from shard_format import naming, verify

FOOTER = "This footer is at the end of very many pages."


def _forty(letters):
    return " ".join(f"{letters}{number}" for number in range(40))


def rows(*texts):
    """Pages with a footer, which one of them keeps, and other texts."""
    pages = [f"page {number} has a line of its own\n{FOOTER}" for number in range(6)]
    return [{"text": text, "label": f"c{at % 2}"} for at, text in enumerate(pages + list(texts))]


@pytest.fixture
def built(build_texts, texts_in):
    def run(*texts, **options):
        options = {"split": "train=1", "dedup_parts": "lines", "files": 1, **options}
        manifest, folder = build_texts(rows(*texts), **options)
        assert verify(folder)[1] == []
        kept = sorted(text for _, text in texts_in(folder)["train"])
        assert manifest.ledger.kept == len(kept)
        return manifest.ledger, kept, folder

    return run


def test_documents_whose_rest_is_equal_are_duplicates(built):
    ledger, kept, folder = built(f"Yes, no.\n{FOOTER}", "yes,  NO.", f"{FOOTER}\nYes, no.")
    rest = [text for text in kept if text.lower().startswith("yes")]
    assert len(rest) == 1 and ledger.duplicates == 2
    table = pq.read_table(folder / naming.DUPLICATES)
    assert table.num_rows == 2 and set(table["kind"].to_pylist()) == {"exact"}
    assert len(set(table["kept_id"].to_pylist())) == 1 and all(table["dropped"].to_pylist())


@pytest.mark.proof
def test_they_are_not_searched_for_without_dedup(built):
    ledger, kept, _ = built(f"Yes, no.\n{FOOTER}", "yes,  NO.", dedup="off")
    assert ledger.duplicates == 0 and len(kept) == 8


@pytest.mark.proof
def test_conflicting_labels_are_left_out(built):
    options = {"no_labels": False, "label_column": "label", "conflicts": "drop"}
    ledger, kept, _ = built(f"Yes, no.\n{FOOTER}", "yes,  NO.", **options)
    assert dict(ledger.reasons) == {"label-conflict": 1} and ledger.duplicates == 1
    assert not [text for text in kept if text.lower().startswith("yes")]


def test_near_duplicates_are_found_by_the_rest(built):
    """With their footers they share less than the threshold."""
    footers = [_forty(letter) for letter in "ab"]
    pages = [f"{_forty(f'{n}{footer[0]}')}\n{footer}" for n in range(6) for footer in footers]
    lines = [_forty("word"), f"{_forty('word')} more"]
    alike = [f"{line}\n{footer}" for line, footer in zip(lines, footers, strict=True)]
    ledger, kept, folder = built(*alike, *pages, dedup="near", near_threshold=0.8)
    table = pq.read_table(folder / naming.DUPLICATES)
    assert ledger.duplicates == table.num_rows == 1 and table["kind"].to_pylist() == ["near"]
    assert sum(text.startswith("word0 ") for text in kept) == 1


def test_what_is_too_short_now_is_left_out(built):
    short, long = f"two words\n{FOOTER}", f"this has four words\n{FOOTER}"
    ledger, kept, _ = built(short, long, clean="length:min_words=4")
    assert dict(ledger.reasons) == {"few-words-without-parts": 1} and ledger.filtered == 1
    assert "two words" not in kept
    assert sum(text.startswith("this has four words") for text in kept) == 1
