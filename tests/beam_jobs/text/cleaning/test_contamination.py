"""Documents that have the texts of a benchmark in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from beam_jobs.text.cleaning import make_steps
from shard_format import InputError
from tests.fixtures.proofs import examples

QUESTION = "Natalia sold clips to 48 of her friends in April, and then half as many in May."
RUN = "natalia sold clips to 48 of her friends in april and then half"
SHORT = "What is the capital of France, and why?"


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": QUESTION, "answer": {"steps": [SHORT, "72"]}}, {"question": "Too short."}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def test_a_run_of_words_is_found_whatever_its_case_and_punctuation(
    benchmark: Path, clean: Callable[..., Any]
) -> None:
    documents = [
        f"Before.\n\n{QUESTION} After.",
        "x NATALIA sold -- clips; to 48\nof (her) friends in April and then `half`!",
        "Natalia sold clips to 48 of her friends in April and then twice as many",
        f"they ask: {SHORT.upper()} nobody knows",
        "the capital of France, and why? What is",
        "Too short. 72",
        "",
    ]
    cleaned = clean("none", *documents, decontaminate=[str(benchmark)])
    assert cleaned.reasons == ["contaminated"] * 2 + [None, "contaminated", None, None, None]
    assert cleaned.details[0] == cleaned.details[1] == f"{RUN!r} is in questions.jsonl"
    assert cleaned.details[3] == "'what is the capital of france and why' is in questions.jsonl"


def test_how_many_words_is_an_option(tmp_path: Path, clean: Callable[..., Any]) -> None:
    path = tmp_path / "text.txt"
    path.write_text(f"{words(20)}\n\nanother paragraph\n")
    for count in (2, 5, 13, 20):
        cleaned = clean(
            "none",
            f"a {' '.join(words(20).split()[-count:])} b",
            f"a {' '.join(words(20).split()[: count - 1])} b",
            decontaminate=[str(path)],
            contamination_words=count,
        )
        assert cleaned.reasons == ["contaminated", None]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f'id,text\n1,"{QUESTION}"\n'),
        ("a.tsv", f"1\t{QUESTION}\n"),
        ("a.json", json.dumps({"rows": [[QUESTION]]})),
        ("a.jsonl", "\ufeff" + json.dumps([QUESTION])),
        ("a.txt", "Natalia sold clips to 48 of\nher friends in April, and then\nhalf as many"),
        ("a", QUESTION),
    ],
)
def test_files_of_every_kind(
    name: str, content: str, tmp_path: Path, clean: Callable[..., Any]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    other = tmp_path / "other.txt"
    other.write_text(words(30))
    files = [str(other), str(tmp_path / name)]
    cleaned = clean("none", QUESTION, words(31), "x", decontaminate=files)
    assert cleaned.reasons == ["contaminated", "contaminated", None]
    assert cleaned.details[0] == f"{RUN!r} is in {name}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "No such file"),
        ("bad.jsonl", b'{"a": "b"}\n{"a"\n', "line 2"),
        ("bad.json", b"[", "Invalid JSON"),
        ("latin.txt", b"caf\xe9", "offset 3"),
        ("nul.csv", b'a,"b', "eight|8 words"),
        ("short.txt", b"too few words", "8 words"),
        ("empty.txt", b"", "8 words"),
    ],
)
def test_files_that_cannot_be_used(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        make_steps("none", decontaminate=[str(tmp_path / name)])


def test_the_manifest_tells_what_the_files_hold(benchmark: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / benchmark.name
    copy.write_bytes(benchmark.read_bytes())
    (one,) = make_steps("none", decontaminate=[str(benchmark)])
    (other,) = make_steps("none", decontaminate=[str(copy)])
    assert one.described() == other.described()
    assert str(tmp_path) not in json.dumps(one.described())
    copy.write_text(json.dumps(QUESTION))
    (changed,) = make_steps("none", decontaminate=[str(copy)])
    assert changed.described() != one.described()
    assert one.described()["words"] == 13


@settings(max_examples=examples(200))
@given(
    bench=st.lists(st.sampled_from("ab,"), min_size=8, max_size=14),
    documents=st.lists(st.lists(st.sampled_from("abA.,"), max_size=30), max_size=4),
    count=st.integers(2, 13),
)
def test_found_are_those_that_counting_finds(
    bench: list[str],
    documents: list[list[str]],
    count: int,
    tmp_path_factory: pytest.TempPathFactory,
    clean: Callable[..., Any],
) -> None:
    path = tmp_path_factory.mktemp("bench") / "b.txt"
    path.write_text(" ".join(bench))
    known = [word for word in bench if word != ","]
    if len(known) < min(8, count):
        return
    length = min(count, len(known))
    runs = {tuple(known[i : i + length]) for i in range(len(known) - length + 1)}
    expected = []
    for document in documents:
        said = [word.lower() for word in document if word not in ".,"]
        grams = {tuple(said[i : i + length]) for i in range(len(said) - length + 1)}
        expected.append("contaminated" if grams & runs else None)
    texts = [" ".join(document) for document in documents]
    cleaned = clean("none", *texts, decontaminate=[str(path)], contamination_words=count)
    assert cleaned.reasons == expected


def test_a_benchmark_is_found_in_itself_and_not_in_other_text(
    corpora: Path, clean: Callable[..., Any]
) -> None:
    file = corpora / "text-gsm8k" / "test.jsonl"
    questions = [json.loads(line)["question"] for line in file.read_text().splitlines()[:300]]
    cleaned = clean("none", *questions, decontaminate=[str(file)])
    assert set(cleaned.reasons) == {"contaminated"}
    reviews = sorted((corpora / "text-movie-reviews").glob("*/*.txt"))[:200]
    texts = [path.read_text("latin-1") for path in reviews]
    assert set(clean("none", *texts, decontaminate=[str(file)]).reasons) == {None}
