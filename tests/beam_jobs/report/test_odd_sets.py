"""Sets at the edge of what there can be, and sets made to do harm."""

from __future__ import annotations

import numpy as np
import pytest

from beam_jobs.report import write_report
from beam_jobs.report.previews import image_of_bytes
from shard_format import Feature, Schema, load_manifest, naming

IMAGE_SECTIONS = set(
    "set ledger classes samples means sizes channels duplicates quarantine throughput".split()
)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=1>',
    "' onmouseover='x",
    "</title></style></bdi>",
    "&amp;<!-- ]]>",
    "line\nbreak\r\tand\x00control\x1b[31m",
    "right\u202eto left \u05d0\u05d1",
    "\ud800 alone",
    "x" * 4000,
]


@pytest.fixture
def report(page):
    """The page of a set, parsed; every section must be there."""

    def make(directory):
        text = write_report(directory).read_text(encoding="utf-8")
        parsed = page(text)
        assert set(parsed.sections) == IMAGE_SECTIONS | {None}
        assert parsed.count("script") == 0
        return parsed

    return make


def test_hostile_names_are_text(tmp_path, sets, report):
    names = [name for name in HOSTILE if "\ud800" not in name]
    records = [(f"{name}/{number}", number) for number, name in enumerate(names)]
    sets.hand_made(tmp_path / "set", records, classes=names)
    sets.add_quarantine(tmp_path / "set", [(name, name, name, name.encode()) for name in names])
    sets.add_duplicates(
        tmp_path / "set",
        [
            {"record_id": f"{name}/copy", "kept_id": record_id, "label": name, "kind": name}
            | {"kept_label": name, "conflict": True, "dropped": False, "split": name}
            | {"preview": b"GIF89a<script>"}
            for (record_id, _), name in zip(records, names, strict=True)
        ],
    )
    (tmp_path / "set" / naming.BUILD).write_text(
        '{"started": "<script>", "seconds": 1, "stages": [{"name": "<script>", "seconds": 1}],'
        ' "machine": {"<script>": "<script>"}, "packages": {"\\ud800": "<b>"}}'
    )
    parsed = report(tmp_path / "set")
    words = "".join(parsed.text)
    assert words.count("<script>") >= 6
    assert words.replace("\n", "").isprintable()
    assert {"img"} == {tag for tag, attrs in parsed.elements if "src" in attrs}
    assert all(value.startswith("data:image/jpeg") for value in parsed.attributes("src"))
    assert not [name for _, attrs in parsed.elements for name in attrs if name.startswith("on")]
    assert "x" * 500 not in words


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw"])
def test_every_encoding(tmp_path, sets, report, encoding):
    records = [(f"a/{number}", number % 2) for number in range(20)]
    sets.hand_made(tmp_path / "set", records, classes=("a", "b"), encoding=encoding)
    parsed = report(tmp_path / "set")
    assert parsed.count("img") == 2 * 6 + 2
    assert "aof 10" in parsed.sections["means"]


def test_no_labels(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [(f"{number}", None) for number in range(9)])
    parsed = report(tmp_path / "set")
    assert "have no labels" in parsed.sections["classes"]
    assert "all recordsof 9" in parsed.sections["means"]


def test_many_labels(tmp_path, sets, report):
    records = [("1", [0, 2]), ("2", []), ("3", [2]), ("4", [2, 1])]
    sets.hand_made(tmp_path / "set", records, classes=("cat", "dog", "tree"))
    parsed = report(tmp_path / "set")
    for name, count in (("cat", 1), ("dog", 1), ("tree", 3)):
        assert f"{name}{count}0" in parsed.sections["classes"]
        assert f"{name}of {count}" in parsed.sections["means"]


def test_a_single_class_and_a_single_record(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [("one", 0)], classes=("alone",))
    parsed = report(tmp_path / "set")
    assert "1 class of 1 record." in parsed.sections["classes"]
    assert "the same for every record" in parsed.sections["sizes"]


def test_nothing_was_kept(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [], classes=("a",))
    sets.add_quarantine(tmp_path / "set", [("a/1", "corrupt", "no good", b"\xff\xd8\xff")])
    parsed = report(tmp_path / "set")
    assert "There are no images" in parsed.sections["samples"]
    assert "There are no records" in parsed.sections["sizes"]
    assert "read 1" in parsed.sections["ledger"]


def test_nothing_was_left_out(build, make_images, tmp_path, report):
    build(make_images(30), "set", split="train=0.999,rest=0.001")
    parsed = report(tmp_path / "set")
    assert load_manifest(tmp_path / "set").splits["rest"].records == 0
    assert "Nothing was refused" in parsed.sections["quarantine"]
    assert "No duplicates" in parsed.sections["duplicates"]
    assert "Over split train" in parsed.sections["channels"]


def test_channels_of_no_record(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [("1", 0)], classes=("a",))
    (tmp_path / "set" / naming.BUILD).write_text("{}")
    sets.add_statistics(
        tmp_path / "set", pixels={"mean": [None] * 3, "std": [None] * 3, "count": 0}
    )
    assert "no channel statistics" in report(tmp_path / "set").sections["channels"]


def test_a_thousand_classes(tmp_path, sets, report):
    classes = [f"class {number:03d}" for number in range(1000)]
    records = [(f"{number}", number % 1000) for number in range(1100)]
    sets.hand_made(tmp_path / "set", records, classes=classes)
    parsed = report(tmp_path / "set")
    words = parsed.sections["classes"]
    assert "1,000 classes of 1 to 2 records" in words
    assert "The 450 largest have half of the records." in words
    most, least = words.index("The 10 most frequent"), words.index("The 10 least frequent")
    assert most < words.index("class 000") < words.index("class 009") < least
    assert least < words.index("class 990") < words.index("class 999")
    assert "class 010" not in words and "class 989" not in words
    assert "The 40 most frequent of 1,000 classes" in parsed.sections["samples"]
    assert parsed.count("img") == 40 * 2 + 40
    assert len("".join(parsed.text)) < 100_000


def test_many_classes_of_one_size(tmp_path, sets, report):
    classes = [f"class {number:02d}" for number in range(60)]
    records = [(f"{number}", number % 60) for number in range(120)]
    sets.hand_made(tmp_path / "set", records, classes=classes)
    words = report(tmp_path / "set").sections["classes"]
    assert "60 classes of 2 records." in words and "The first 10 of 60 classes" in words
    assert "class 09" in words and "class 10" not in words


def test_repeated_records_are_sampled_once(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [("same", 0)] * 5 + [("other", 0)], classes=("a",))
    assert "aof 2" in report(tmp_path / "set").sections["means"]


def test_a_set_whose_splits_are_not_what_was_kept(tmp_path, sets, report):
    manifest = sets.hand_made(tmp_path / "set", [(f"{n}", 0) for n in range(6)], classes=("a",))
    ledger = type(manifest.ledger)(4, 4, 0, 0, 0, {})
    sets.rewrite(tmp_path / "set", ledger=ledger)
    assert "2 records more than were kept" in report(tmp_path / "set").sections["ledger"]


def test_reasons_outside_the_quarantine_were_filtered(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [("1", 0)], classes=("a",))
    manifest = sets.add_quarantine(tmp_path / "set", [("2", "corrupt", "no good", b"x")])
    ledger = type(manifest.ledger)(5, 1, 0, 3, 1, {"corrupt": 1, "too-small": 3})
    sets.rewrite(tmp_path / "set", ledger=ledger)
    words = report(tmp_path / "set").sections["ledger"]
    assert "filtered360.00%too-small3quarantined120.00%corrupt1" in words


def test_large_clusters_are_cut(tmp_path, sets, report):
    sets.hand_made(tmp_path / "set", [(f"{n:03d}", 0) for n in range(60)], classes=("a",))
    rows = [
        {"record_id": f"copy-{copy:03d}", "kept_id": f"{kept:03d}", "label": "a"}
        | {"conflict": kept == 50 and copy == 90}
        for kept in range(60)
        for copy in range(100 if kept == 50 else 1)
    ]
    sets.add_duplicates(tmp_path / "set", [*rows, {"record_id": "x", "kept_id": "gone"}])
    words = report(tmp_path / "set").sections["duplicates"]
    assert words.startswith("Duplicates61 clusters: 160 exact duplicates")
    assert "24 clusters are shown" in words
    assert words.index("copy-090") < words.index("copy-000")  # the contradictory one comes first
    assert "and 94 more" in words
    assert words.count("kept in train") == 24


def test_bytes_of_a_quarantine_are_never_trusted(sets):
    image = sets.image_bytes(200)
    assert image_of_bytes(image)
    assert image_of_bytes(image[: len(image) // 2])  # what can still be decoded
    assert image_of_bytes(None) is image_of_bytes(b"") is image_of_bytes(b"not an image") is None
    generator = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(image)
        for position in generator.integers(0, len(broken), 20):
            broken[position] = generator.integers(0, 256)
        image_of_bytes(bytes(broken))


def test_no_preview_of_what_declares_too_much(tmp_path):
    import io

    from PIL import Image

    sink = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(sink, "PNG")
    assert len(sink.getvalue()) < 1 << 20
    assert image_of_bytes(sink.getvalue()) is None


def test_samples_begin_with_the_first_split(write_records, sets, report):
    schema = Schema(
        "image", (Feature("id", "text"), Feature("image", "image", (-1, -1, 3), "jpeg"))
    )
    records = {
        split: [({"id": split, "image": sets.image_bytes(seed=n)}, {}) for n in range(4)]
        for split in ("train", "dev")  # not in the order of their names
    }
    parsed = report(write_records(schema, records))
    shown = [attrs["alt"] for tag, attrs in parsed.elements if tag == "img"][:6]
    assert shown == ["0", "1", "2", "3", "4", "5"]  # keys, train first
