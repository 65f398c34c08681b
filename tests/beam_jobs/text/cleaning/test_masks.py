"""What is masked, and the numbers and words in prose that are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_jobs.text.cleaning.masks import luhn

MASKED = {
    "mask-emails": [
        "jane.doe@example.com", "j_d+tag@mail.example.co.uk", "o'hara@x-y.org", "JANE@EXAMPLE.COM",
        "j@xn--bcher-kva.example", "info@m\xfcller.de", "a@b.cd",
    ],
    "mask-phones": [
        "+1 415 555 2671", "+14155552671", "+44 20 7183 8750", "+49 (0)30 123456",
        "+49-30-123456-7", "+1 (415) 555-2671",
        "(415) 555-2671", "415-555-2671", "415.555.2671", "1-800-555-0199", "030 1234 5678",
        "(030) 1234 5678", "030/12345678", "020 7183 8750", "06 12 34 56 78", "+33 6 12 34 56 78",
    ],
    "mask-cards": [
        "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "5555555555554444",
        "2223003122003222", "378282246310005", "3782 822463 10005", "6011111111111117",
        "3530111333300000", "30569309025904", "3056 930902 5904", "6200000000000005",
    ],
    "mask-ips": [
        "8.8.8.8", "93.184.216.34", "2001:4860:4860::8888", "2a00:1450:4001:81b:0:0:0:200e",
        "::ffff:8.8.8.8",
    ],
}  # fmt: skip
KEPT = {
    "mask-emails": [
        "@user", "a @ b.com", "user@localhost", "me@", "@b.com", "1@2.3", "def f(): @property.x",
        "git@", "a@b..com", "3 apples @ 2.50",
    ],
    "mask-phones": [
        "2024-05-17", "17.05.2024", "05/17/2024", "1234567890", "3.14159265", "1,234,567,890",
        "0.12345678", "192.168.10.200", "ISBN 978-3-16-148410-0", "1999-2004", "$415-555",
        "12:30-13:45", "+12 (1) 5",
        "0 1 2 3 4 5 6 7 8 9", "+5 -3", "+1", "x+1234567", "007", "100 200 300 400", "20-30-40-50",
        "in 1984 415 people", "4111 1111 1111 1111", "01-02-2003", "+100000", "1e+10",
        "RFC 2119-2045", "pages 200-300", "06.07.1999",
    ],
    "mask-cards": [
        "4111111111111112", "4111 1111-1111 1111", "41111111111111111111", "0000000000000000",
        "1234567890123452", "x4111111111111111", "4111111111111111.5", "1.4111111111111111",
        "411 1111 1111 11111", "9999999999999995", "+4111111111111111",
    ],
    "mask-ips": [
        "192.168.0.1", "127.0.0.1", "::1", "256.1.1.1", "1.2.3", "1.2.3.4.5", "v8.8.8.8",
        "version 8.8.8.8", "10:30:45", "std::vector", "a::b", "12:34", "8.8.8.8a", "::",
        "chapter 1.2.3.4.a", "2001:db8::1",
    ],
}  # fmt: skip
TOKENS = {"mask-emails": "<EMAIL>", "mask-phones": "<PHONE>", "mask-cards": "<CARD>"}
TOKENS |= {"mask-ips": "<IP>"}
FRAMES = ["{}", "Write to {}.", "({}), or", "a: {}, b", "\u4e2d {}\n", "<{}>", "\u201c{}\u201d?"]


@pytest.mark.parametrize(
    ("step", "text"), [(step, text) for step in MASKED for text in MASKED[step]]
)
def test_masked(step: str, text: str, clean: Callable[..., Any]) -> None:
    documents = [frame.format(text) for frame in FRAMES]
    assert clean(step, *documents).texts == [frame.format(TOKENS[step]) for frame in FRAMES]


@pytest.mark.parametrize(("step", "text"), [(step, text) for step in KEPT for text in KEPT[step]])
def test_kept(step: str, text: str, clean: Callable[..., Any]) -> None:
    documents = [frame.format(text) for frame in FRAMES]
    assert clean(step, *documents).texts == documents


def test_tokens_are_the_users(clean: Callable[..., Any]) -> None:
    assert clean("mask-emails:token=X", "a@b.de, c@d.de").texts == ["X, X"]
    assert clean("mask-ips:public_only=false", "192.168.0.1").texts == ["<IP>"]
    assert clean("mask-emails:token=\\1", "a@b.de").texts == ["\\1"]


def test_masking_is_off_unless_asked_for(clean: Callable[..., Any]) -> None:
    text = " ".join(text for texts in MASKED.values() for text in texts)
    assert clean("default", text).texts == [text]


def test_check_digits() -> None:
    assert luhn("79927398713") and not any(luhn(f"7992739871{d}") for d in "012456789")


def test_a_long_document_takes_no_long_time(clean: Callable[..., Any]) -> None:
    hostile = ["a" * 200_000 + "@", "a@" + "b." * 100_000, "1 " * 100_000, "1:" * 100_000]
    hostile += ["+1" + " (1" * 50_000, "0" * 200_000, "4111 " * 40_000, "1.1." * 50_000]
    for step in MASKED:
        assert clean(step, *hostile).reasons == [None] * len(hostile)


def test_real_prose_is_not_touched(corpora: Path, clean: Callable[..., Any]) -> None:
    paths = sorted((corpora / "text-movie-reviews").glob("*/*.txt"))
    reviews = [path.read_text("latin-1") for path in paths]
    for step in ("mask-phones", "mask-cards", "mask-ips"):
        masked = sum(a != b for a, b in zip(clean(step, *reviews).texts, reviews, strict=True))
        assert masked == 0, step
