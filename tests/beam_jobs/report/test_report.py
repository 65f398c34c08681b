"""The report of real builds: its numbers are those of the set, and it is one quiet page."""

from __future__ import annotations

import json
import re

import pytest

from beam_jobs.report import write_report
from shard_format import DamageError, InputError, ShardSetError, load_manifest, naming, verify
from tests.fixtures.proofs import each_value_once


def read(directory, out=None):
    return write_report(directory, out).read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_loads_nothing(clothing, page):
    text = read(clothing)
    parsed = page(text)
    anchors = "set ledger classes samples means sizes channels duplicates".split()
    anchors += ["quarantine", "throughput"]  # and none of those for documents
    assert [name for name in parsed.sections if name] == anchors
    assert not re.search(r"https?:|//|javascript|@import|url\(", re.sub(r'src="[^"]*"', "", text))
    sources = parsed.attributes("src")
    assert len(sources) == parsed.count("img") > 60
    assert all(source.startswith("data:image/jpeg;base64,/9j/") for source in sources)
    policy = parsed.attributes("http-equiv"), parsed.attributes("content")[0]
    assert policy[0] == ["Content-Security-Policy"]
    assert "default-src 'none'" in policy[1] and "script" not in policy[1]
    assert parsed.count("script") == 0
    assert not [name for _, attrs in parsed.elements for name in attrs if name.startswith("on")]
    assert parsed.attributes("href") == [f"#{anchor}" for anchor in anchors]


def test_what_cannot_be_seen_can_be_read(clothing, page):
    parsed = page(read(clothing))
    assert parsed.elements[0] == ("html", {"lang": "en"})
    images = [image for tag, image in parsed.elements if tag == "img"]
    assert all(image["alt"] for image in images)
    drawings = [drawing for tag, drawing in parsed.elements if tag == "svg"]
    assert all(drawing["aria-label"] and drawing["role"] == "img" for drawing in drawings)
    headings = [heading for tag, heading in parsed.elements if tag == "th"]
    assert all(heading["scope"] in ("row", "col") for heading in headings)


def test_numbers_are_those_of_the_set(clothing, page):
    manifest = load_manifest(clothing)
    parsed = page(read(clothing))
    words = {name: " ".join(text.split()) for name, text in parsed.sections.items() if name}
    assert manifest.root_hash in words["set"]
    for split in manifest.splits.values():
        assert f"{split.records}" in words["set"]
    ledger = manifest.ledger
    assert f"read{ledger.read}kept{ledger.kept}" in words["ledger"]
    assert f"duplicates{ledger.duplicates}" in words["ledger"]
    for reason, count in ledger.reasons.items():
        assert f"{reason}{count}" in words["ledger"]
        assert f"{reason} {count}" in words["quarantine"]
    train, test = (split.statistics for split in manifest.splits.values())
    for name, count in train["class_counts"].items():
        weight = f"{train['class_weights'][name]:.4g}"
        assert f"{name}{count}{test['class_counts'][name]}{weight}" in words["classes"]
        assert name in words["samples"] and f"{name}of 32" in words["means"]
    width = {**train["source_width"]}
    assert f"{width['min']} to {width['max']}, median" in words["sizes"]
    assert "red200.5060.000.78630.23530255" in words["channels"]
    assert "12,345 counted" in words["channels"]
    assert "5 clusters: 5 exact duplicates, 2 near duplicates, 5 of them" in words["duplicates"]
    assert "1 cluster with conflicting labels" in words["duplicates"]
    assert words["duplicates"].count("other label: another") == 1
    assert words["duplicates"].count("kept in train") == 5
    assert "stage1.25324259" in words["throughput"]


def test_contradictory_clusters_come_first(clothing, page):
    names = [item.get("class", "") for tag, item in page(read(clothing)).elements if tag == "div"]
    clusters = [name for name in names if name.startswith("cluster ") or name == "cluster"]
    assert clusters == ["cluster contradictory"] + ["cluster"] * 4


def test_the_same_set_gives_the_same_bytes(clothing, tmp_path):
    first = read(clothing)
    assert first == read(clothing) == read(clothing, tmp_path / "elsewhere.html")
    assert str(tmp_path) not in first
    build = json.loads((clothing / naming.BUILD).read_text())
    (clothing / naming.BUILD).write_text(json.dumps(build | {"seconds": 77.7}))
    assert "77.7 s" in read(clothing)


def test_it_is_no_part_of_the_set(clothing):
    write_report(clothing)
    assert verify(clothing)[1] == []
    assert not [path.name for path in clothing.iterdir() if path.name.startswith(".")]


def test_every_page_is_small(clothing):
    assert len(read(clothing)) < 1 << 20


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", '{"stages": 3, "machine": [], "seconds": "x"}'),
        '{"options": {}, "left_out": {"where": [3, {"values": 3}, {"values": {}, "text": 3}]}}',
        '{"options": {"top": {}}, "left_out": {"<b>": [], "where": 3, "not-in-top": [{}]}}',
    ],
)
def test_build_json_is_not_trusted(clothing, page, content):
    (clothing / naming.BUILD).write_text(content)
    assert "throughput" in page(read(clothing)).sections


def test_no_set_is_one_clear_message(tmp_path):
    with pytest.raises(ShardSetError, match=r"manifest\.json"):
        write_report(tmp_path)
    with pytest.raises(ShardSetError, match="no directory"):
        write_report(tmp_path / "nowhere")


def test_a_place_that_cannot_be_written(clothing, tmp_path):
    with pytest.raises(InputError, match="--out"):
        write_report(clothing, tmp_path / "no" / "folder.html")


@pytest.mark.parametrize("kind", ["flip", "cut", "missing"])
def test_a_damaged_shard_is_damage(clothing, kind):
    shard = clothing / load_manifest(clothing).splits["train"].shards[0].file
    data = bytearray(shard.read_bytes())
    if kind == "missing":
        shard.unlink()
    else:
        for position in range(100, len(data), 1000):  # hits every record: which ones are sampled
            data[position] ^= 1
        shard.write_bytes(data if kind == "flip" else data[:50])
    with pytest.raises(DamageError, match=shard.name):
        write_report(clothing)
    assert not (clothing / naming.REPORT).exists()


@pytest.mark.parametrize(
    ("kind", "file"),
    each_value_once(["cut", "missing", "empty"], [naming.DUPLICATES, naming.quarantine_file(0)]),
)
def test_a_damaged_table_is_damage(clothing, file, kind):
    path = clothing / file
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if kind == "cut" else b"")
    if kind == "missing":
        path.unlink()
    with pytest.raises(DamageError, match=re.escape(file)):
        write_report(clothing)
