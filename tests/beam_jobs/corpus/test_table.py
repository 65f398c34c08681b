"""Tables of labels: every form, every mistake, and nothing lost."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shard_format import InputError

from .conftest import kept, reasons


@pytest.fixture
def flat(tmp_path):
    """A folder of files that hold their own names."""

    def make(*names, folder="flat"):
        root = tmp_path / folder
        for name in names:
            path = os.fsencode(root) + b"/" + (name if isinstance(name, bytes) else name.encode())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(os.path.basename(path))
        return root

    return make


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    """The rows in the form that the name asks for."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if name.endswith(".jsonl"):
        text = "\n".join(map(json.dumps, rows))
    else:
        between = "\t" if name.endswith(".tsv") else ","
        quoted = [[f'"{value}"' for value in row.values()] for row in rows]
        text = "\n".join(map(between.join, [list(rows[0]), *quoted])) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


FORMS = ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz", "a.tsv.gz", "a.jsonl.gz"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_table(form, flat, tmp_path, records):
    names = ["a b.jpg", "ünï/c,o.jpg", "new\nline.jpg", "x/y/z.jpg"]
    root = flat(*names)
    rows = [
        {"file": name, "class": number, "who": f"w{number % 2}", "fold": "val"}
        for number, name in enumerate(names)
    ]
    results = records(
        root, labels=str(written(tmp_path / form, rows)), path_column="file",
        label_column="class", group_by="who", split="column:fold",
    )  # fmt: skip
    assert {name: tuple(raw) for name, raw in results.items()} == {
        name: (os.path.basename(name).encode(), str(number), f"w{number % 2}", "validation")
        for number, name in enumerate(names)
    }
    assert records.source == "table"


def test_rows_and_files_that_do_not_meet(flat, tmp_path, records):
    root = flat("a/1.jpg", "a.jpg", "a-b/2.jpg", "unnamed.jpg", ".hidden.jpg", "z.jpg")
    table = root / "labels.csv"
    table.write_text(
        "path,label\na/1.jpg,x\n./a.jpg,y\na//b/../../a-b/2.jpg,z\ngone/3.jpg,x\n"
        "../outside.jpg,x\n/etc/passwd,x\n.hidden.jpg,x\na,x\nz.jpg,\n,x\n"
    )
    results = records(root, labels=str(table))
    assert {name: label for name, (_, label) in kept(results).items()} == {
        "a/1.jpg": "x",
        "a.jpg": "y",
        "a-b/2.jpg": "z",
    }
    assert reasons(results) == {
        "labels.csv/000000004": "unsafe-path",
        "labels.csv/000000005": "unsafe-path",
        "labels.csv/000000009": "no-path",
        ".hidden.jpg": "missing-file",
        "a": "missing-file",
        "gone/3.jpg": "missing-file",
        "unnamed.jpg": "no-row",
        "z.jpg": "no-label",
    }
    assert results["unnamed.jpg"][2] is None  # its bytes are in the source
    assert "'/etc/passwd'" in results["labels.csv/000000005"][1]
    assert sorted(records.ignored) == [".hidden.jpg", "labels.csv"]
    kept_now = kept(records(root, labels=str(table), no_labels=True))
    assert [label for _, label in kept_now.values()] == [None] * 4


def test_files_that_are_no_records_are_ignored_unless_a_row_names_them(flat, records):
    root = flat("a.jpg", "b.jpg", "unnamed.jpg", "README.md", "src/gallery.md", "src/load.py")
    (root / "more.zip").write_bytes(b"PK\3\4 of other images")
    (root / "png").write_bytes(b"\x89PNG by its content")
    table = root / "labels.csv"
    table.write_text("path,label\na.jpg,x\nb.jpg,y\nsrc/load.py,z\n")
    results = records(root, labels=str(table))
    assert set(kept(results)) == {"a.jpg", "b.jpg", "src/load.py"}  # which decoding rejects
    assert reasons(results) == dict.fromkeys(["more.zip", "png", "unnamed.jpg"], "no-row")
    assert sorted(records.ignored) == ["README.md", "labels.csv", "src/gallery.md"]


def test_the_same_path_twice(flat, tmp_path, records):
    root = flat("1.jpg", "2.jpg", "3.jpg")
    table = tmp_path / "t.jsonl"
    rows = [("1.jpg", "a"), ("2.jpg", "a"), ("1.jpg", "a"), ("./2.jpg", "b"), ("3.jpg", "c|d")]
    table.write_text("\n".join(json.dumps({"path": p, "label": la}) for p, la in rows))
    results = records(root, labels=str(table))
    assert kept(results) == {"1.jpg": (b"1.jpg", "a"), "3.jpg": (b"3.jpg", "c|d")}
    assert results["2.jpg"][0] == "contradictory-rows"
    assert "2 rows name it, with 'a', 'b'" in results["2.jpg"][1]
    results = records(root, labels=str(table), multi_label=True)
    assert [raw.label for raw in results.values()] == ["a", "a\x1fb", "c\x1fd"]
    table.write_text(
        '{"path": "1.jpg", "label": ["b", 3, "b"], "g": 1}\n'
        '{"path": "1.jpg", "label": [], "g": 2}\n\n'
        '{"path": "2.jpg", "label": []}\n{"path": "3.jpg", "label": ["a\\u001fb"]}'
    )
    results = records(root, labels=str(table), multi_label=True)
    assert results["1.jpg"].label == "3\x1fb"
    assert reasons(results) == {"3.jpg": "bad-label"}
    assert results["2.jpg"].label == ""  # none of the classes, which is not the same as unknown
    results = records(root, labels=str(table), multi_label=True, group_by="g")
    assert results["1.jpg"][0] == "contradictory-rows"


def test_names_that_are_no_utf8(flat, tmp_path, records):
    root = flat(b"latin-\xe9.jpg", b"other-\xff.jpg", "plain.jpg")
    table = tmp_path / "t.csv"
    table.write_bytes(b"path,label\nlatin-\xe9.jpg,a\nother-//xff.jpg,b\nplain.jpg,\xe9\n")
    results = records(root, labels=str(table))
    assert kept(results) == {
        "latin-//xe9.jpg": (b"latin-\xe9.jpg", "a"),
        "other-//xff.jpg": (b"other-\xff.jpg", "b"),
    }
    assert reasons(results) == {"plain.jpg": "bad-label"}


def test_several_sources(flat, tmp_path, records):
    one, two = flat("1.jpg", folder="one"), flat("1.jpg", folder="one.b")
    table = tmp_path / "t.csv"
    table.write_text("path,label\none/1.jpg,a\none.b/1.jpg,b\nthree/1.jpg,c\n")
    for roots in ((one, two), (two, one)):
        results = records(*roots, labels=str(table))
        assert {name: label for name, (_, label) in kept(results).items()} == {
            "one/1.jpg": "a",
            "one.b/1.jpg": "b",
        }
        assert reasons(results) == {"three/1.jpg": "missing-file"}


def test_splits_by_folder_and_by_column(flat, tmp_path, records):
    root = flat("train/1.jpg", "val/2.jpg", "3.jpg")
    table = tmp_path / "t.csv"
    table.write_text("path,label,s\ntrain/1.jpg,a,test\nval/2.jpg,a,dev\n3.jpg,a,extra\n")
    results = records(root, labels=str(table), split="folders")
    assert [raw[3] for raw in results.values() if type(raw) is not tuple] == ["train", "validation"]
    assert reasons(results) == {"3.jpg": "no-split-folder"}
    results = records(root, labels=str(table), split="column:s")
    assert [raw[3] for raw in results.values() if type(raw) is not tuple] == ["test", "validation"]
    assert results["3.jpg"][0] == "no-split" and "'extra'" in results["3.jpg"][1]


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_are_missing_are_named(form, flat, tmp_path, records):
    root = flat("1.jpg")
    table = written(tmp_path / form, [{"file": "1.jpg", "class": "a"}])
    with pytest.raises(
        InputError, match=r"no column 'path' \(--path-column\).*(has 'class', 'file'|'file', 'cl)"
    ):
        records(root, labels=str(table))
    with pytest.raises(InputError, match=r"no column 'label' \(--label-column\).*no-labels"):
        records(root, labels=str(table), path_column="file")
    with pytest.raises(InputError, match=r"'s' \(--split column:\)"):
        records(root, labels=str(table), path_column="file", no_labels=True, split="column:s")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "Empty CSV"),
        ("a.csv", b"path,label,label\n1.jpg,a,b\n", "has 2 column 'label'"),
        ("a.jsonl", b'["1.jpg", 3]\n', "line 1 is a list, not an object"),
        ("a.parquet", b"PAR1 and nothing else", "not a valid CSV"),
        ("a.csv.gz", gzip.compress(b"path,label\n1.jpg,a\n", mtime=0)[:-9], "decompressing fails"),
        ("a.jsonl.gz", gzip.compress(b'{"path": "1.jpg"}', mtime=0)[:-9], "decompressing fails"),
    ],
)
def test_a_table_that_cannot_be_read_is_reported(name, content, message, flat, tmp_path, records):
    root = flat("1.jpg")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        records(root, labels=str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"path,label\n1.jpg,a\n2.jpg,a,b\n3.jpg,c\n", "ragged-row"),
        ("a.tsv", b"path\tlabel\n1.jpg\ta\n2.jpg\n3.jpg\tc\n", "ragged-row"),
        ("a.jsonl", b'{"path": "1.jpg", "label": "a"}\n{"path"\n{"path": "3.jpg"}', "bad-json"),
        ("a.jsonl", b'{"path": "1.jpg", "label": "a"}\n[2]\n{"path": "3.jpg"}', "bad-json"),
    ],
)
def test_a_malformed_row_costs_itself(name, content, expected, flat, tmp_path, records):
    """And the file that it may name, whose bytes are kept."""
    (tmp_path / name).write_bytes(content)
    results = records(flat("1.jpg", "2.jpg", "3.jpg"), labels=str(tmp_path / name))
    bad = {one for one, reason in reasons(results).items() if reason == expected}
    assert len(bad) == 1 and bad.pop().startswith(f"{name}/")
    assert results["2.jpg"] == ("no-row", "no row of the table names this file", None)
    assert results["1.jpg"] == (b"1.jpg", "a", None, None)
    assert reasons(results).get("3.jpg") == ("no-label" if name == "a.jsonl" else None)


def test_a_quote_that_is_never_closed_is_no_label(flat, tmp_path, records):
    root = flat("1.jpg", "2.jpg", "3.jpg")
    table = tmp_path / "a.csv"
    table.write_bytes(b'path,label\n1.jpg,a\n2.jpg,"b\n3.jpg,c\n')
    results = reasons(records(root, labels=str(table)))
    assert results == {"2.jpg": "no-row", "a.csv/000000001": "bad-csv"}
    table.write_bytes(b'path,label\n1.jpg,a\n3.jpg,c\n2.jpg,"b\nb"\n')  # closed in another line
    assert records(root, labels=str(table))["2.jpg"][1] == "b\nb"


def test_a_table_that_is_not_there(flat, tmp_path, records):
    with pytest.raises(InputError, match=r"Cannot read --labels|is a folder, a pipe"):
        records(flat("1.jpg"), labels=str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match=r"Cannot read --labels|is a folder, a pipe"):
        records(flat("1.jpg"), labels=str(tmp_path))


def test_the_whole_pipeline_loses_nothing(make_images, build, tmp_path):
    root = make_images(6, classes=1) / "class0"
    (root / "broken.jpg").write_bytes(b"broken")
    table = root / "t.csv"
    names = sorted(os.listdir(root))
    rows = [f"{name},{number % 2}" for number, name in enumerate(names) if name != "t.csv"]
    table.write_text("\n".join(["path,label", *rows, "gone.jpg,1", "../x.jpg,1"]))
    (root / "extra.jpg").write_bytes(b"extra")
    ledger = build(root, labels=str(table)).manifest.ledger
    assert (ledger.read, ledger.kept) == (10, 6)
    assert ledger.reasons == {
        "not-an-image": 1, "missing-file": 1, "unsafe-path": 1, "no-row": 1,
    }  # fmt: skip
