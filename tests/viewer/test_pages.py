"""What pages show: every link of every page, hostile and damaged sets, generations."""

from __future__ import annotations

import html
import random
import re
import shutil

import numpy as np
import pytest
import simplejpeg

from beam_jobs.run import preprocess
from shard_format import Feature, Schema, load_manifest
from shard_format.dropped import read_rejected
from shard_format.set_comparison import compare_sets
from tests.fixtures.damage import FAULTS, files_of, job, make_corpus, put_fault

HOSTILE = [
    "<script>alert(1)</script>",
    "</p></div></main></body><style>*{display:none}</style>",
    '"\'`> onmouseover=alert(1) x="',
    "right\u202eto left \u2066isolated \u200f mark",
    "nul \x00 escape \x1b[31m bell \x07 \ufeff \ufff9",
    "../../../../etc/passwd",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1) https://example.com/",
    "x" * 100_000,
    "line \u2028 paragraph \u2029 form \x0c feed \x85 \r\n\r\n end",
    "&amp; %2e%2e ?a=b#c +",
]
BAD = re.compile(r"<script|<iframe|<style| on\w+=| style=")


def _walk(browse_page, start="/", most=400):
    """Follows every link from a page on; gives the answers by their paths."""
    answers, left = {}, [start]
    while left and len(answers) < most:
        path = left.pop(0)
        if path in answers:
            continue
        answers[path] = answer = browse_page(path)
        if answer.headers.get("content-type", "").startswith("text/html"):
            links = answer.links(path)
            left += sorted(one for one in links if not one.startswith("data:"))
    return answers


def _check_every_link(page):
    answers = _walk(page)
    # A duplicate names a record that may be left out; a form without its field has no id.
    wrong = {path for path, one in answers.items() if one.status not in (200, 303)}
    assert {path.partition("?")[0] for path in wrong} <= {"/a/0/record"}
    assert any("/record/" in path for path in answers)
    assert not [path for path in answers if "//" in path or not path.startswith("/")]


def test_every_link_of_a_built_set_leads_to_a_page(built, browse):
    _check_every_link(browse(built / "set"))


@pytest.mark.parametrize("kind", ["any", "packed"])
def test_every_link_of_other_records_leads_to_a_page(kind, any_set, packed_set, browse):
    packed = {"train": [[[1, 2, 3], [4, 5]], [[6] * 8]], "test": []}
    _check_every_link(browse(any_set if kind == "any" else packed_set(8, **packed)))


def test_hostile_names_and_texts_are_text_in_their_place(write_records, browse):
    features = (Feature("id", "text"), Feature("text", "text"))
    label = Feature("label", "class_label", (), "", tuple(HOSTILE), late=True)
    records = [
        ({"id": text, "text": text, "label": n}, {"record_id": text})
        for n, text in enumerate(HOSTILE)
    ]
    statistics = {"class_counts": dict.fromkeys(HOSTILE, 1)}
    root = write_records(
        Schema("text", (*features, label)), {"train": records}, statistics=statistics
    )
    page = browse(root)
    answers = _walk(page)
    assert sum("/record/" in path for path in answers) >= len(HOSTILE)
    for path, answer in answers.items():
        if b"<html" in answer.body:
            without_values = re.sub(r'="[^"]*"', '=""', answer.text)
            assert not [one for one in re.findall(r"<[^>]*>", without_values) if BAD.search(one)]
            assert not re.search("<script|<style", answer.text), path
            assert all(one.isprintable() or one == "\n" for one in answer.text), path
    shown = page("/").shown
    assert HOSTILE[0] in shown and HOSTILE[6] in shown and "\\u202e" in shown
    for number, text in enumerate(HOSTILE[:8]):
        assert page(f"/a/0/record?id={_quoted(text)}").headers["location"].endswith(f"/0/{number}")
        assert page(f"/a/0/records?text={_quoted(text)}").status == 200
        assert page(f"/a/0/records?label={_quoted(text)}").text.count("<li><a") >= 1


def _quoted(text):
    return "".join(f"%{one:02X}" for one in text.encode())


def test_a_long_text_is_shown_in_parts(write_records, browse):
    text = "".join(f"word{number} " for number in range(9000))
    schema = Schema("text", (Feature("id", "text"), Feature("text", "text")))
    root = write_records(schema, {"train": [({"id": "1", "text": text}, {})]})
    page, path, parts = browse(root), "/a/0/record/0/0", []
    while path:
        answer = page(path)
        cell = re.search(r"text</bdi><small>text</small>.*?</tr>", answer.text, re.DOTALL)
        cell = re.search(r'<p dir="auto">(.*?)</p>', cell[0])
        parts.append(cell[1])
        following = re.search(r'href="([^"]*)">part behind', answer.text)
        path = following and html.unescape(following[1])
    assert len(parts) == 4 and "".join(parts) == text


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_damaged_set_has_pages_that_say_so(name, built, browse, tmp_path):
    """Whatever is damaged, a page is a page or a message; nothing raises."""
    from foundation.errors import ShardmillError

    paths = ["/", "/a/0/records?text=class1", "/a/0/records?where=label%20==%20'class1'"]
    paths += [f"/a/0/{one}" for one in ("duplicates", "quarantine", "quarantine/0", "record/0/3")]
    paths += ["/a/0/image/0/3", "/a/0/record?id=class1/001.jpg"]
    for seed in range(3):
        root = tmp_path / f"{seed}"
        shutil.copytree(built / "set", root)
        put_fault(name, root, built / "other", random.Random(seed))
        try:
            page = browse(root)
        except ShardmillError:
            continue
        assert all(page(path).status in (200, 303, 404, 500) for path in paths)


def test_a_damaged_record_costs_itself(built, browse, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(built / "set", root)
    (shard,) = (name for name in files_of(root) if "train.tfrecord-00000" in name)
    data = bytearray((root / shard).read_bytes())
    data[40] ^= 1
    (root / shard).write_bytes(data)
    page = browse(root)
    answer = page("/a/0/record/0/0")
    assert answer.status == 200 and "verify" in answer.shown and "fingerprint" in answer.shown
    assert page("/a/0/record/0/1").status == 200
    assert "verify" not in page("/a/0/record/0/1").shown


def test_requests_that_make_no_sense(built, browse):
    page = browse(built / "set")
    for path, status in {
        "/nowhere": 404,
        "/b/0/records": 404,
        "/a/7/records": 400,
        "/a/0/record/0/999999999999999999": 404,
        "/a/0/record/9/0": 404,
        "/a/0/record?id=none": 404,
        "/a/0/quarantine/999": 404,
        "/a/0/records?where=import os": 400,
        "/a/0/records?start=-1": 200,
        "/a/0/records?start=999999999999999999": 200,
        "/a/0/records?start=" + "9" * 5000: 200,
        "/a/0/records?label=none&split=none": 200,
        "/a/0/quarantine?reason=none": 200,
        "/a/0/duplicates?start=99999": 200,
        "/a/0/differences?other=c/0": 200,
        "/a/0/differences?other=a/0&start=99999&what=none": 200,
        "/a/0/image/0/0?feature=none": 200,
        "/a/0/image/0/0?number=77&side=none": 200,
        "/../../etc/passwd": 404,
        "/a/0/../../style.css": 404,
    }.items():
        assert page(path).status == status, path


def test_an_image_that_declares_too_much_is_not_decoded(write_records, browse):
    side = 60_000
    jpeg = bytearray(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = side.to_bytes(2, "big") * 2
    schema = Schema(
        "image", (Feature("id", "text"), Feature("image", "image", (-1, -1, 3), "jpeg"))
    )
    root = write_records(schema, {"train": [({"id": "1", "image": bytes(jpeg)}, {})]})
    answer = browse(root)("/a/0/image/0/0")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "larger than what is decoded here" in browse(root)("/a/0/record/0/0").shown


def test_the_quarantine_by_reason(built, browse):
    rows = [one for one, _ in read_rejected(built / "set", load_manifest(built / "set"))]
    page = browse(built / "set")
    assert rows
    for reason in {one.reason for one in rows}:
        shown = page(f"/a/0/quarantine?reason={reason}").shown
        expected = [one for one in rows if one.reason == reason]
        assert f"Records 1 to {len(expected)} of {len(expected)}" in shown
        assert all(one.record_id in shown and one.detail in shown for one in expected)
    assert "No record was rejected for this" in page("/a/0/quarantine?text=zzz").shown
    assert rows[0].detail in page("/a/0/quarantine/0").shown


def test_what_was_not_selected_is_beside_the_quarantine(tmp_path, browse):
    make_corpus("text", tmp_path / "corpus")
    where = "label != 'class1'"
    preprocess(
        job("text", tmp_path / "corpus", tmp_path / "set", where=where, train_tokenizer=None)
    )
    shown = browse(tmp_path / "set")("/a/0/quarantine").shown
    assert re.search(r"8 records left out by\s+--where", shown) and "Document 4" in shown


def test_a_cluster_is_side_by_side(built, browse):
    page = browse(built / "set")
    listed = page("/a/0/duplicates")
    copy, kept = re.search(r"class0/again\.\w+", listed.shown)[0], None
    for path in listed.links("/a/0/duplicates"):
        if "record?id=" in path:
            kept = page(path).headers["location"]
            assert copy in page(kept).shown and "exact copy, left out" in page(kept).shown
    assert kept


def test_generations_and_what_differs(write_corpus, begin_set, append_to, browse, tmp_path):
    begin_set(write_corpus("one", {f"a/r{n}": n for n in range(12)}), resize="shorter:8")
    append_to(write_corpus("two", {f"b/n{n}": 100 + n for n in range(5)}))
    root = tmp_path / "set"
    page = browse(root)
    assert "17 records" in page("/").shown and "12 records" in page("/a/0/records").shown
    compared = compare_sets(root, root, 0, 1)
    answer = page("/a/0/differences?other=a/1")
    assert f"{compared.counts()['added']} added" in answer.shown
    assert all(one in answer.shown for one in compared.ids("added").to_pylist())
    assert "Differences 0 to 0 of 0" in page("/a/0/differences?other=a/1&what=removed").shown
    place = page("/a/1/record?id=b/n1.jpg").headers["location"]
    assert "generations/0001" in page(place).shown and "two" in page(place).shown
    assert "generations/0001" not in page(page("/a/1/record?id=a/r1.jpg").headers["location"]).shown


def test_a_set_that_was_replaced_is_opened_again(write_corpus, begin_set, browse, tmp_path):
    begin_set(write_corpus("one", {f"a/r{n}": n for n in range(12)}))
    page = browse(tmp_path / "set")
    assert "12 records" in page("/").shown
    shutil.rmtree(tmp_path / "set")
    begin_set(write_corpus("two", {f"b/n{n}": n for n in range(7)}))
    answer = page("/")
    assert answer.status == 200 and "7 records" in answer.shown and "b/n" in answer.shown


def test_what_the_reader_makes_has_its_boxes(samples, browse, tmp_path):
    import reader
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    objects = samples.parent / "objects"
    options = {"annotations": str(objects / "instances.json"), "no_report": True, "workers": 1}
    preprocess(ImageOptions((str(objects / "photos"),), str(tmp_path / "set"), **options))
    page = browse(tmp_path / "set")
    data = reader.random_access(tmp_path / "set")
    for row in range(4):
        answer = page(f"/a/0/record/0/{row}?augment=none&size=64")
        stored, made = re.findall(r'<svg class="picture".*?</svg>', answer.text, re.DOTALL)
        assert stored.count("<rect") == len(data[row]["objects"]["bbox"])
        stream = reader.load(
            tmp_path / "set",
            where=f"record_id == {data[row]['id']!r}",
            batch_size=1,
            epochs=1,
            image_size=64,
            features=("objects",),
        )
        inputs, _ = next(iter(stream))
        assert made.count("<rect") == len(inputs["objects"]["bbox"][0])
        assert answer.text.count("<rect") > 0
    assert page("/a/0/record/0/0?augment=standard").text.count("<h3>Epoch") == 4
    wrong = page("/a/0/record/0/0?augment=swirl")
    assert wrong.status == 200 and "swirl" in wrong.shown and 'role="alert"' in wrong.text
