"""Real files that others made to break readers."""

from __future__ import annotations

import json

import orjson
import pytest

from beam_jobs.corpus.record import FILTER
from shard_format import load_manifest
from tests.fixtures.proofs import proof


@pytest.fixture(scope="module")
def pack(corpora):
    return corpora / "bad-text"


def test_csv_spectrum_is_what_its_json_says(pack, documents):
    folder = pack / "csv-spectrum"
    names = sorted(path.stem for path in (folder / "csvs").iterdir())
    assert len(names) == 11
    for name in names:
        data = (folder / "json" / f"{name}.json").read_bytes()
        if b"\r" not in (folder / "csvs" / f"{name}.csv").read_bytes():
            data = data.replace(rb"\r\n", rb"\n")  # the file here lost them, its JSON did not
        expected = json.loads(data)
        columns = list(expected[0])
        # What each column holds, for all columns at once.
        read = documents(
            folder / "csvs" / f"{name}.csv",
            text_column=columns[0],
            keep_columns=",".join(columns[1:]) if len(columns) > 1 else None,
            no_labels=True,
        )
        results = [
            dict(zip(columns, (one.text, *one.kept), strict=True))
            for one in read.documents.values()
        ]
        assert results == expected, name
        assert not read.rejects


def test_json_test_suite_as_files(pack, build_text, tmp_path):
    folder = pack / "json-test-suite" / "test_parsing"
    report = build_text(folder, format="json")
    ledger = report.manifest.ledger
    assert ledger.read == ledger.kept + ledger.quarantined
    from beam_jobs.quarantine import rejected_records

    reasons = {}
    for record in rejected_records(tmp_path / "set"):
        reasons.setdefault(record.record_id.split("/")[0], []).append(record.reason)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 318
    not_json = {"bad-json", "bad-encoding", "binary-data"}
    for name in names:
        results = set(reasons.get(name, []))
        if name.startswith("y_"):
            assert not results & not_json, name
        elif name.startswith("n_"):
            assert results and results <= not_json, (name, results)


def test_json_test_suite_as_values_of_json_lines(pack, documents, file):
    folder = pack / "json-test-suite" / "test_parsing"
    verdicts = []
    lines = []
    for path in sorted(folder.glob("[yn]_*.json")):
        data = path.read_bytes()
        if b"\n" in data or b"\r" in data:
            continue  # a line of its own would break it
        lines.append(b'{"text": "t", "value": ' + data + b"}")
        verdicts.append(path.name)
    read = documents(file("a.jsonl", b"\n".join(lines)), no_labels=True)
    order = sorted([*read.documents, *read.rejects])
    assert len(order) == len(verdicts)
    # Inside of an object, a key without a value or two documents in one may well be JSON.
    mended_by_place = set()
    for name, line, record_id in zip(verdicts, lines, order, strict=True):
        accepted = record_id in read.documents
        if name.startswith("y_"):
            assert accepted, name
        elif accepted:
            mended_by_place.add(name)
            json.loads(line)  # it is JSON by another judge too
    assert len(mended_by_place) < 10


def test_naughty_strings_come_through(pack, documents, file):
    folder = pack / "naughty-strings"
    expected = json.loads((folder / "blns.json").read_text())
    read = documents(folder / "blns.json", no_labels=True)
    assert list(read.texts.values()) == expected
    lines = b"\n".join(orjson.dumps({"text": text}) for text in expected)
    read = documents(file("a.jsonl", lines), no_labels=True)
    assert list(read.texts.values()) == expected
    per_line = documents(folder / "blns.txt", per_line=True, no_labels=True)
    assert not per_line.rejects
    wanted = [line for line in (folder / "blns.txt").read_bytes().split(b"\n") if line.strip()]
    assert [text.encode() for text in per_line.texts.values()] == [
        line.rstrip(b"\r") for line in wanted
    ]


# The encoding of a UDHR file by the end of its name, and what decodes it the same way.
NAMED = {"Latin1": "cp1252", "UTF8": "utf-8", "Latin2": "iso8859-2", "Cyrillic": "cp1251"}


def test_mixed_encodings_are_detected(pack, documents):
    folder = pack / "udhr-mixed-encodings"
    read = documents(folder, encoding="auto", format="txt", no_labels=True)
    count = len(read.documents) + len(read.rejects)
    assert count >= 330
    # 8 of the rest are cut inside of a character, as they lie there; others are font encodings.
    assert len(read.documents) / count > 0.94
    same = compared = 0
    for name, document in read.documents.items():
        encoding = NAMED.get(name.rpartition("-")[2])
        if encoding is None:
            continue
        try:
            expected = (folder / name).read_bytes().decode(encoding)
        except UnicodeDecodeError:
            continue
        compared += 1
        same += document.text == expected.removeprefix("\ufeff")
    assert compared > 200
    assert same / compared > 0.88


def test_strict_utf8_refuses_with_an_offset(pack, documents):
    folder = pack / "udhr-mixed-encodings"
    read = documents(folder, format="txt", no_labels=True)
    for name, reject in read.rejects.items():
        data = (folder / name).read_bytes()
        assert reject.data == data
        if reject.reason == "bad-encoding":
            offset = int(reject.detail.split("offset ")[1].split()[0])
            data[:offset].decode()
            with pytest.raises(UnicodeDecodeError):
                data.decode()
    assert read.rejects and read.documents


@proof
def test_the_whole_pack_goes_through(pack, build_text, tmp_path):
    for name, options in {"strict": {}, "auto": {"encoding": "auto"}}.items():
        ledger = build_text(pack, name, **options).manifest.ledger
        assert ledger.read == ledger.kept + ledger.quarantined
        assert load_manifest(tmp_path / name).ledger == ledger
        assert ledger.kept > 1000


def test_warc_samples(corpora, documents):
    read = documents(corpora / "interop" / "warcio", no_labels=True)
    pages = {name: one for name, one in read.documents.items() if one.is_html}
    examples = [one.text for one in pages.values() if "Example Domain" in one.text]
    assert len(examples) == 7
    assert (
        "Internet Assigned Numbers Authority"
        in read.texts["example-iana.org-chunked.warc/000000000405"]
    )
    assert read.reasons["example-trunc.warc/000000001197"] == "damaged-record"
    assert read.rejects["example-space-in-target-uri.warc.gz/000000000267"].stage == FILTER
    assert {name for name, why in read.reasons.items() if why == "unknown-format"} == {
        "bad.arc", "example-space-in-url.arc", "example.arc", "example.arc.gz"
    }  # fmt: skip
    # The same file compressed and not has the same records at the same places.
    plain = {name.split("/")[1] for name in pages if name.startswith("example.warc/")}
    packed = {name.split("/")[1] for name in pages if name.startswith("example.warc.gz/")}
    assert plain == packed == {"000000001197"}
    assert len(read.skipped) == 38


def test_parquet_samples_never_crash(corpora, documents):
    folder = corpora / "interop" / "parquet"
    read = documents(folder, format="parquet", no_labels=True, resolve=False)
    damaged = [name for name, why in read.reasons.items() if why == "damaged-file"]
    assert damaged and set(read.counts) <= {
        *("damaged-file", "no-text", "not-a-parquet"),
    }
    read = documents(
        folder / "data" / "delta_byte_array.parquet", text_column="c_customer_id", no_labels=True
    )
    assert len(read.documents) == 1000
    assert list(read.documents)[-1] == "delta_byte_array.parquet/000000000999"


def test_the_same_rows_in_every_wrapping(corpora, documents):
    folder = corpora / "interop" / "torchdata-fakedata"
    for kind in ("csv", "txt", "json"):
        results = []
        for path in (folder / kind, folder / f"{kind}.tar", folder / f"{kind}.tar.gz"):
            read = documents(path, resolve=False, no_labels=True)
            outcomes = {**read.texts, **read.reasons}
            results.append(
                sorted(
                    (name.split("/", path.is_file())[-1].rpartition("/")[2], value)
                    for name, value in outcomes.items()
                )
            )
        assert results[0] == results[1] == results[2], kind
        assert results[0]
