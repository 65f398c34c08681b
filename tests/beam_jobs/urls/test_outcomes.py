"""Every way in which a server can answer has its reason in the ledger, and the ledger closes."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs import ImageOptions, TextOptions, preprocess
from beam_jobs.quarantine import reasons
from foundation.errors import InputError, UsageError
from reader import random_access
from shard_format import open_split_index
from tests.fixtures.url_farm import HOSTS, LIMIT, Farm

COMMON = {
    "url_column": "url",
    "allow_private": True,
    "max_record_bytes": str(LIMIT),
    "resize": "none",
    "no_report": True,
}


def write_list(path, urls, header="url,label"):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(header.split(","))
        rows.writerows((url, f"c{number % 2}") for number, url in enumerate(urls))
    return str(path)


def build(lists, out, **options):
    return preprocess(ImageOptions((lists,), str(out), **{**COMMON, **options}))


def refused(report):
    """Reasons with their numbers, after a check that the ledger closes."""
    ledger = report.manifest.ledger
    parts = (ledger.kept, ledger.duplicates, ledger.filtered, ledger.quarantined)
    assert ledger.read == sum(parts)
    return {one.reason: one.records for one in reasons(report.out)}


def farm_urls(farm: Farm, times: int = 2) -> list[str]:
    """Every answer of the farm, from several hosts in turn."""
    paths = [
        f"{kind}/3/{number}" if kind == "hops" else f"{kind}/{number}"
        for number in range(times)
        for kind in Farm.ANSWERS
    ]
    return [farm.url(path, HOSTS[number % 5]) for number, path in enumerate(paths)]


def test_every_outcome_has_its_reason(farm, tmp_path):
    urls = farm_urls(farm)
    bad = ["", "ftp://example.org/1.jpg", "/1.jpg", "http://", "http://me:secret@127.0.0.2/1.jpg"]
    bad += ["http://127.0.0.2:99999/1.jpg", "http://[::1/1.jpg", f"http://{'a' * 70}.test/1.jpg"]
    closed = f"http://127.0.0.9:{farm.port}/1.jpg"
    source = write_list(tmp_path / "urls.csv", [*urls, *bad, closed])
    report = build(source, tmp_path / "set", fetch_retries=1)
    expected = Counter(reason for reason in Farm.ANSWERS.values() for _ in range(2) if reason)
    expected.update({"bad-url": len(bad), "connect-failed": 1})
    assert refused(report) == expected
    assert report.manifest.ledger.kept == 2 * list(Farm.ANSWERS.values()).count("")
    details = [json.dumps(one._asdict()) for one in reasons(report.out)]
    assert "secret" not in str(details)


def test_a_server_that_hangs_is_given_up(farm, tmp_path):
    source = write_list(tmp_path / "urls.csv", [farm.url("hang/1"), farm.url("ok/1")])
    report = build(source, tmp_path / "set", fetch_retries=1, read_timeout=3)
    assert refused(report) == {"timeout": 1}
    assert farm.asked["hang/1"] == 2


def test_opt_outs_may_be_ignored(farm, tmp_path):
    source = write_list(tmp_path / "urls.csv", [farm.url("forbidden/1"), farm.url("ours/1")])
    assert refused(build(source, tmp_path / "set", ignore_opt_outs=True)) == {}


def test_the_time_that_a_request_waits_for_its_place_does_not_count(farm, tmp_path):
    # The first one holds the only place for as long as it is read at all.
    urls = [farm.url("hang/1"), *(farm.url(f"hops/2/{number}") for number in range(5))]
    source = write_list(tmp_path / "urls.csv", urls)
    bounds = {"connections": 1, "fetch_retries": 0, "fetch_timeout": 3}
    report = build(source, tmp_path / "set", **bounds)
    assert refused(report) == {"timeout": 1}


def test_requests_at_a_time_are_bounded(farm, tmp_path):
    paths = [f"{kind}/{number}" for number in range(30) for kind in ("ok", "slow", "gone")]
    urls = [farm.url(path, HOSTS[number % 3]) for number, path in enumerate(paths)]
    farm.delay = lambda path: 0.005
    source = write_list(tmp_path / "urls.csv", urls)
    bounds = {"connections": 4, "connections_per_host": 2, "workers": 3, "unit_size": "1KiB"}
    build(source, tmp_path / "set", **bounds)
    assert 1 < farm.most[""] <= 4
    assert max(farm.most[host] for host in HOSTS) <= 2


def test_redirects_are_bounded(farm, tmp_path):
    urls = [farm.url(f"hops/{number}/a{number}") for number in range(8)]
    source = write_list(tmp_path / "urls.csv", urls)
    report = build(source, tmp_path / "set", max_redirects=4)
    # Of hops/N, N + 1 redirects lead to the picture.
    assert report.manifest.ledger.kept == 4
    assert refused(report) == {"too-many-redirects": 4}


@pytest.mark.parametrize("form", ["parquet", "csv", "tsv", "jsonl", "txt", "folder"])
def test_lists_of_every_form(form, farm, tmp_path):
    urls = [farm.url(f"ok/{number}") for number in range(20)]
    rows = {
        "url": urls,
        "label": [f"c{number % 3}" for number in range(20)],
        "text": [f"A caption of number {number}" for number in range(20)],
        "site": [f"s{number % 4}" for number in range(20)],
        "fold": ["train" if number % 4 else "test" for number in range(20)],
    }
    options = {
        "caption_column": "text",
        "keep_columns": "site",
        "group_by": "site",
        "split": "column:fold",
    }
    path = tmp_path / f"urls.{form}"
    if form == "parquet":
        pq.write_table(pa.table(rows), path)
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, pa.table(rows).to_pylist())))
    elif form == "txt":
        path.write_text("\n".join(urls))
        options = {"no_labels": True}
    elif form == "folder":
        path.mkdir()
        (path / "a.txt").write_text("\n".join(urls[:12]))
        (path / "b.txt.gz").write_bytes(gzip.compress("\n".join(urls[12:]).encode()))
        options = {"no_labels": True}
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if form == "tsv" else ",")
            writer.writerow(rows)
            writer.writerows(zip(*rows.values(), strict=True))
    report = build(str(path), tmp_path / "set", **options)
    assert refused(report) == {}
    assert report.manifest.ledger.kept == 20
    if "keep_columns" in options:
        assert report.manifest.splits["test"].records == 5
        names = {feature.name for feature in report.manifest.schema.features}
        assert names >= {"caption", "site"}
        index = open_split_index(report.out, report.manifest, "test")
        assert set(index["site"].to_pylist()) == {"s0"}


def test_documents_are_told_by_their_bytes(farm, tmp_path):
    urls = [farm.url(path) for path in ("page/1", "latin/2", "plain/3", "pdf/4", "ok/5")]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    options = {"url_column": "url", "allow_private": True, "clean": "html"}
    report = preprocess(
        TextOptions((str(tmp_path / "urls.txt"),), str(tmp_path / "set"), **options)
    )
    assert refused(report) == {"not-text": 2}
    texts = [
        record["text"]
        for split, info in report.manifest.splits.items()
        if info.records
        for record in random_access(str(tmp_path / "set"), split)
    ]
    assert sorted(texts) == [
        "A page with enough 1 in it.",
        "Caf\u00e9 2 and quite a few more words.",
        "Some words of 3, in plain text.",
    ]


def test_mistakes_are_told_before_anything_is_asked(farm, tmp_path):
    source = write_list(tmp_path / "urls.csv", [farm.url("ok/1")])
    lines = tmp_path / "urls.txt"
    lines.write_text(farm.url("ok/1"))
    for error, text, given, options in (
        (InputError, "has no column 'link'", source, {"url_column": "link"}),
        (InputError, "use --no-labels", str(lines), {}),
        (UsageError, "--labels", source, {"labels": source}),
        (UsageError, "--source", source, {"source": "parquet"}),
        (UsageError, "there is no --url-column", source, {"url_column": None}),
        (UsageError, "is empty", source, {"url_column": ""}),
        (UsageError, "printable", source, {"contact": "a\nb"}),
        (UsageError, "--connections", source, {"connections": 0}),
        (InputError, "overlap", source, {"keep_originals": str(tmp_path / "set" / "kept")}),
    ):
        with pytest.raises(error, match=text):
            build(given, tmp_path / "set", **options)
    table = tmp_path / "urls.parquet"
    pq.write_table(pa.table({"alt": ["A long caption " * 9], "url": [farm.url("ok/1")]}), table)
    with pytest.raises(InputError, match="use --url-column url"):
        build(str(table), tmp_path / "set", url_column=None, allow_private=False)
    assert not farm.asked
