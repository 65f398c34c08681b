"""Labels, splits, groups, kept columns, and what is said of columns that are not there."""

from __future__ import annotations

import orjson
import pytest

from beam_jobs.options import TextOptions
from beam_jobs.stages.list import resolve_options
from shard_format import InputError, UsageError


def jsonl(*rows):
    return b"\n".join(orjson.dumps(row) for row in rows)


def resolved(path, **options):
    return resolve_options(TextOptions((str(path),), "out", **options))


@pytest.fixture
def reviews(file):
    file("pos/1.txt", "good")
    file("neg/2.html", "<p>bad</p>")
    file("neg/deep/er/3.txt", "worse")
    return file("README", "about this").parent


def test_class_folders(reviews, documents):
    read = documents(reviews)
    assert read.labels == {"neg/2.html": "neg", "neg/deep/er/3.txt": "neg", "pos/1.txt": "pos"}
    assert read.reasons == {"README": "no-class-folder"}
    assert read.rejects["README"].data == b"about this"
    assert [one.is_html for one in read.documents.values()] == [True, False, False]


def test_without_class_folders_a_job_has_no_labels(reviews, file, documents):
    file("stray.txt", "beside")
    assert resolved(reviews).no_labels
    read = documents(reviews)
    assert set(read.labels.values()) == {None} and len(read.documents) == 5
    assert documents(reviews / "stray.txt").labels == {"stray.txt": None}


def test_folders_in_archives(packed, file, documents):
    members = {"pos/1.txt": b"good", "neg/2.txt": b"bad"}
    assert documents(file("a.zip", packed("zip", members))).labels == {
        "a.zip/neg/2.txt": "neg",
        "a.zip/pos/1.txt": "pos",
    }
    around = {f"reviews/{name}": data for name, data in members.items()} | {"reviews/README": b"x"}
    read = documents(file("b.tar.gz", packed("tar.gz", around)))
    assert read.labels == {"b.tar.gz/reviews/pos/1.txt": "pos", "b.tar.gz/reviews/neg/2.txt": "neg"}
    assert read.reasons == {"b.tar.gz/reviews/README": "no-class-folder"}


def test_the_column_label_is_taken_if_the_first_record_has_it(file, documents):
    with_label = file("a.jsonl", jsonl({"text": "x", "label": 1}, {"text": "y"}))
    assert resolved(with_label).label_column == "label"
    assert resolved(file("b.jsonl", jsonl({"text": "x"}, {"text": "y", "label": 1}))).no_labels
    assert resolved(file("c.csv", "text,label\nx,a\n")).label_column == "label"
    assert documents(with_label).labels == {"a.jsonl/000000000000": "1", f"a.jsonl/{23:012d}": None}
    # Not the folder: it is a matter of the rows.
    read = documents(file("train/d.jsonl", jsonl({"text": "x", "label": "a"}, {"text": "y"})))
    assert list(read.labels.values()) == ["a", None]


def test_columns_that_are_not_there(file):
    path = file("a.jsonl", jsonl({"content": "a long document", "id": "7", "topic": "a"}))
    with pytest.raises(InputError, match=r"'text'.*'content', 'id', 'topic'.*--text-column conten"):
        resolved(path)
    with pytest.raises(InputError, match=r"'class' .--label-column.*--no-labels"):
        resolved(path, text_column="content", label_column="class")
    with pytest.raises(InputError, match=r"has no column 'user' .--group-by"):
        resolved(path, text_column="content", group_by="user")
    with pytest.raises(InputError, match=r"no column 'year' \(--keep-columns\)"):
        resolved(path, text_column="content", keep_columns="year:int64")
    with pytest.raises(InputError, match="no column 'best_title'"):
        resolved(path, text_column="content,best_title")
    with pytest.raises(InputError, match="--stratify needs labels"):
        resolved(path, text_column="content", stratify=True)
    plain = file("b.txt", "x")
    with pytest.raises(InputError, match=r"--label-column names the column .label.*plain text"):
        resolved(plain, label_column="label")
    with pytest.raises(InputError, match="--multi-label needs labels"):
        resolved(plain, multi_label=True)
    with pytest.raises(InputError, match="another delimiter"):
        resolved(file("c.csv", "text;label\nx;y\n"))


def test_several_labels_splits_groups_and_kept_columns(file, documents):
    path = file(
        "a.jsonl",
        jsonl(
            {"text": "x", "tags": ["b", "a"], "part": "val", "by": 7, "year": 1999, "s": 1.5},
            {"text": "y", "tags": [], "part": "train", "by": "8", "year": "2000", "s": 2},
            {"text": "z", "tags": ["a"], "part": "elsewhere", "by": None, "year": 1, "s": 1},
            {"text": "w", "tags": ["a"], "part": "train", "by": 1, "year": 1.5, "s": 1},
            {"text": "v", "tags": ["a"], "part": "train", "by": 1, "year": 2**63, "s": 1},
        ),
    )
    read = documents(
        path,
        label_column="tags",
        multi_label=True,
        split="column:part",
        group_by="by",
        keep_columns="year:int64,s:float32,by",
    )
    assert list(read.labels.values()) == ["a\x1fb", ""]
    assert [one.split for one in read.documents.values()] == ["validation", "train"]
    assert [one.group for one in read.documents.values()] == ["7", "8"]
    assert [one.kept for one in read.documents.values()] == [
        (1999, 1.5, "7"),
        (2000, 2.0, "8"),
    ]
    assert list(read.reasons.values()) == ["no-split", "bad-value", "bad-value"]


def test_split_folders(file, documents):
    file("train/pos/1.txt", "a")
    file("test/neg/2.txt", "b")
    root = file("elsewhere/neg/3.txt", "c").parents[2]
    read = documents(root, split="folders")
    assert {n: (d.split, d.label) for n, d in read.documents.items()} == {
        "train/pos/1.txt": ("train", "pos"),
        "test/neg/2.txt": ("test", "neg"),
    }
    assert read.reasons == {"elsewhere/neg/3.txt": "no-split-folder"}
    data = jsonl({"text": "x", "label": "a"})
    path = file("files/train.jsonl", data)
    file("files/dev.jsonl", data)
    read = documents(path.parent, split="folders")
    assert [one.split for one in read.documents.values()] == ["validation", "train"]


def test_files_next_to_the_classes_of_splits_are_rejected(file, documents):
    for split, classes in (("train", ("neg", "pos", "unsup")), ("test", ("neg", "pos"))):
        for name in classes:
            file(f"{split}/{name}/1.txt", "some words")
        file(f"{split}/urls.txt", "http://example.org")
    root = file("imdb.vocab", "the and").parent
    for options in ({}, {"split": "folders"}):
        read = documents(root, **options)
        assert {n: (d.split, d.label) for n, d in read.documents.items()} == {
            "test/neg/1.txt": ("test", "neg"),
            "test/pos/1.txt": ("test", "pos"),
            "train/neg/1.txt": ("train", "neg"),
            "train/pos/1.txt": ("train", "pos"),
            "train/unsup/1.txt": ("train", "unsup"),
        }
        assert read.reasons == {
            "imdb.vocab": "no-split-folder",
            "test/urls.txt": "no-class-folder",
            "train/urls.txt": "no-class-folder",
        }
    pattern = "^(?P<split>train|test)/(?P<label>pos|neg)/"
    read = documents(root, label_pattern=pattern)
    assert read.labels.keys() == {
        f"{s}/{c}/1.txt" for s in ("test", "train") for c in ("neg", "pos")
    }
    assert read.documents["test/pos/1.txt"].split == "test"
    assert read.counts == {"no-match": 4}


def test_images_and_notes_among_documents(file, documents):
    file("a/1.txt", "one")
    file("a/cover.jpg", b"\xff\xd8\xff\xe0 and so on")
    file("b/2.txt", "two")
    root = file("b/README.md", "about this").parents[1]
    assert documents(root).reasons == {"a/cover.jpg": "unknown-format"}
    table = file("labels.csv", "path,label\na/1.txt,x\n")
    read = documents(root, labels=str(table))
    assert read.labels == {"a/1.txt": "x"}
    assert read.reasons == {"b/2.txt": "no-row"}
    assert sorted(read.ignored) == ["a/cover.jpg", "b/README.md", "labels.csv"]


def test_csv_with_and_without_header(file, documents):
    bare = file("a.csv", 'x,1\n\ny,2,3\n"z\nz",4\n')
    read = documents(bare, columns="text,label")
    assert list(read.texts.values()) == ["x", "z\nz"]
    assert list(read.labels.values()) == ["1", "4"]
    assert list(read.reasons.values()) == ["ragged-row"]
    assert "3 fields, of 2 columns" in next(iter(read.rejects.values())).detail
    wide = ",".join(f"c{number}" for number in range(5000))
    row = ",".join(["w" * 200_000] + ["1"] * 4999)
    read = documents(file("b.csv", f"{wide}\n{row}\n"), text_column="c0", no_labels=True)
    assert [len(one) for one in read.texts.values()] == [200_000]
    read = documents(file("c.tsv", "\ufefftext\tlabel\na, b\t1\n"))
    assert list(read.texts.values()) == ["a, b"]
    read = documents(file("d.csv", "text,text\na,b\n"), no_labels=True, resolve=False)
    assert read.reasons == {"d.csv": "repeated-column"}


@pytest.mark.parametrize(
    ("bad", "count"),
    [('"a"b,1', 1), ('"never closed,1', 1), ('a"b,1', 0), ('"a\0",1', 1), ("a,b\rc", 1)],
)
def test_strict_quoting(bad, count, file, documents):
    data = f"text,label\nfirst,1\n{bad}\nlast,2\n"
    read = documents(file("a.csv", data))
    texts = list(read.texts.values())
    assert texts[0] == "first" and texts[-1] == "last"
    assert len(read.rejects) == count
    assert all(one.data == f"{bad}\n".encode() for one in read.rejects.values())


def test_a_bad_byte_in_a_csv_costs_its_row(file, documents):
    data = b'text,label\na,1\n"b\n\xff\nb",2\nc,3\n'
    read = documents(file("a.csv", data))
    assert list(read.texts.values()) == ["a", "c"]
    (reject,) = read.rejects.values()
    assert reject.reason == "bad-encoding" and "offset 18 " in reject.detail
    assert reject.data == b'"b\n\xff\nb",2\n'


def test_json_files(file, documents):
    rows = [{"text": "a"}, "b", 3, None, ["c"], {"other": 1}]
    read = documents(file("a.json", orjson.dumps(rows)), no_labels=True)
    assert list(read.texts.values()) == ["a", "b"]
    assert list(read.reasons.values()) == ["no-text"] * 4
    assert documents(file("b.json", '"just text"')).texts == {"b.json": "just text"}
    assert documents(file("c.json", '{"text":\n"one"}')).texts == {"c.json": "one"}
    assert len(documents(file("d.json", '{"text": "1"}\n{"text": "2"}\n')).texts) == 2
    utf16 = '["\u4e16", "b"]'.encode("utf-16")
    assert list(documents(file("e.json", utf16), encoding="auto").texts.values()) == ["\u4e16", "b"]


ENCODED = {
    "utf-8-sig": "Gr\u00fc\u00dfe\r\nzwei\n",
    "utf-16": "Gr\u00fc\u00dfe\u0a0a\nzwei \u4e16\n",
    "utf-16-le": "one line\ntwo lines\n",
    "utf-16-be": "one line\ntwo lines\n",
    "utf-32": "\u4e16\u754c\nzwei\n",
}


@pytest.mark.parametrize("name", ENCODED)
def test_encodings_of_files_and_lines(name, file, documents):
    text = ENCODED[name]
    path = file("a.txt", text.encode(name))
    for encoding in (name, "auto"):
        read = documents(path, encoding=encoding)
        assert list(read.texts.values()) == [text]
        lines = documents(path, encoding=encoding, per_line=True)
        assert list(lines.texts.values()) == text.replace("\r", "").split("\n")[:-1]
    rows = "text,label\n" + "".join(f'"{line}",1\n' for line in text.split("\n")[:-1])
    read = documents(file("b.csv", rows.encode(name)), encoding="auto")
    assert list(read.texts.values()) == text.split("\n")[:-1]


def test_what_was_chosen_is_reported(file, documents):
    text = (
        "Tous les \u00eatres humains naissent libres et \u00e9gaux en dignit\u00e9 et en droits. "
        "Ils sont dou\u00e9s de raison et de conscience et doivent agir dans un esprit de "
        "fraternit\u00e9."
    )
    read = documents(file("a.txt", text.encode("cp1252")), encoding="auto")
    assert [(one.text, one.encoding) for one in read.documents.values()] == [(text, "cp1252")]
    read = documents(file("b.txt", text.encode("cp1252")))
    assert read.counts == {"bad-encoding": 1}
    assert "offset 9 " in read.rejects["b.txt"].detail
    lines = b"fine\nb\xe9d\nfine\n"
    read = documents(file("c.txt", lines), per_line=True)
    assert read.reasons == {"c.txt/000000000005": "bad-encoding"}
    assert "offset 6 " in read.rejects["c.txt/000000000005"].detail


def test_zeros_are_no_text(file, documents):
    assert documents(file("a.txt", b"a\0b")).counts == {"binary-data": 1}
    read = documents(file("b.jsonl", b'{"text": "a"}\n\0\0\0\n{"text": "b"}'), no_labels=True)
    assert list(read.texts.values()) == ["a", "b"] and len(read.rejects) == 1


@pytest.mark.parametrize("name", ["utf-99", "rot13", "base64", "idna", "hex", ""])
def test_an_unknown_encoding_is_wrong_usage(name):
    with pytest.raises(UsageError, match="--encoding must be one that Python knows"):
        TextOptions(("x",), "out", encoding=name)
