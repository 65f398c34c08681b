"""--against: what is in another set or corpus is left out, by fingerprints, and named."""

from __future__ import annotations

import collections
import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from beam_jobs.generations.compact import compact
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from foundation.errors import InputError, UsageError
from shard_format import load_build, load_manifest, verify
from shard_format.duplicates import count_duplicates, read_duplicates
from tests.fixtures.killed_commands import KILLED

WORDS = "river stone cloud paper light forest copper winter garden window silver morning".split()


def _pairs(root):
    """(kept id, kind, dropped) by the id of each record that is in another set."""
    rows = [
        row
        for _, batch in read_duplicates(root, load_manifest(root))
        for row in batch.to_pylist()
        if row["kind"].endswith("other")
    ]
    assert all(row["split"] is None and row["kept_label"] is None for row in rows)
    return {row["record_id"]: (row["kept_id"], row["kind"], row["dropped"]) for row in rows}


def _photographs(samples, number):
    # Others are planted: "same as ...", in another size.
    files = sorted(p for p in samples.rglob("*-*-*-*-*.jpg") if " " not in p.name)[:number]
    assert len(files) == number
    for file in files:
        with Image.open(file) as image:
            yield image.convert("RGB").resize((240, 320))


def _cropped(image, generator):
    """5 % of each side less, at a random place."""
    width, height = image.size
    left, top = (int(generator.integers(0, size // 20 + 1)) for size in image.size)
    box = (left, top, left + width * 95 // 100, top + height * 95 // 100)
    return image.crop(box)


def _plant(samples, root, number):
    """Photographs of which half are in an evaluation set, each with four copies in a corpus."""
    generator = np.random.default_rng(3)
    (root / "eval").mkdir()
    for at, image in enumerate(_photographs(samples, number)):
        folder = root / "corpus" / f"class{at % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        if at % 2:
            image.save(folder / f"{at}-own.png")
            continue
        image.save(root / "eval" / f"{at}.png")
        image.save(folder / f"{at}-same.png")
        image.resize((150, 200), Image.Resampling.BICUBIC).save(folder / f"{at}-resized.png")
        image.save(folder / f"{at}-quality.jpg", quality=50)
        _cropped(image, generator).save(folder / f"{at}-cropped.jpg", quality=90)


def _found_by_kind(pairs):
    """Numbers of the records that were paired, by what was done to them; no pair is wrong."""
    counts = collections.Counter()
    for record_id, (kept_id, kind, _) in pairs.items():
        number, what = re.search(r"/(\d+)-(\w+)\.", record_id).groups()
        assert kept_id == f"eval:{number}.png", (record_id, kept_id)
        assert (kind == "in-other") == (what == "same")
        counts[what] += 1
    return counts


def _images(root, out, **options):
    values = {"dedup": "near", "resize": "shorter:32", "no_report": True, "workers": 1} | options
    return preprocess(ImageOptions(sources=(str(root),), out=str(out), **values))


def _check_images(samples, tmp_path, number):
    _plant(samples, tmp_path, number)
    report = _images(tmp_path / "corpus", tmp_path / "set", against=str(tmp_path / "eval"))
    counts, copies = _found_by_kind(_pairs(tmp_path / "set")), number // 2
    assert counts["same"] == copies and counts["own"] == 0
    ledger = report.manifest.ledger
    assert ledger.reasons == {
        "in-other": copies,
        "near-other": counts.total() - copies,
    }
    assert ledger.filtered == counts.total() and ledger.read == 5 * number // 2
    assert verify(tmp_path / "set")[1] == []
    return counts, copies


def test_images_of_a_folder(samples, tmp_path):
    counts, copies = _check_images(samples, tmp_path, 24)
    assert counts["resized"] == counts["quality"] == copies and counts["cropped"] >= copies - 1
    again = _images(tmp_path / "corpus", tmp_path / "set", against=str(tmp_path / "eval"))
    assert again.already_built
    (tmp_path / "eval" / "0.png").unlink()
    with pytest.raises(InputError, match=r"--against: .*/eval had other records then"):
        _images(tmp_path / "corpus", tmp_path / "set", against=str(tmp_path / "eval"))


@pytest.mark.proof
def test_recall_of_images(samples, tmp_path):
    counts, copies = _check_images(samples, tmp_path, 300)
    assert min(counts["resized"], counts["quality"]) >= 0.98 * copies
    assert counts["cropped"] >= 0.95 * copies


def test_images_of_a_set(samples, tmp_path):
    """The fingerprints of the set are used: its sources are gone, and its shards are not read."""
    _plant(samples, tmp_path, 12)
    _images(tmp_path / "eval", tmp_path / "other" / "eval", no_labels=True, resize="none")
    shutil.rmtree(tmp_path / "eval")
    for shard in (tmp_path / "other" / "eval").glob("*.tfrecord*"):
        shard.write_bytes(b"")
    other = str(tmp_path / "other" / "eval")
    same = _images(tmp_path / "corpus", tmp_path / "same", against=other, resize="none")
    counts = _found_by_kind(_pairs(tmp_path / "same"))
    assert counts["same"] == counts["resized"] == counts["quality"] == 6
    assert any("in eval (6 records): 6 exact and" in note for note in same.build["notes"])
    with pytest.raises(InputError, match=r"built with another --resize.*use --dedup near"):
        _images(tmp_path / "corpus", tmp_path / "set", against=other, dedup="exact")
    report = _images(tmp_path / "corpus", tmp_path / "set", against=other)
    assert report.manifest.ledger.reasons["near-other"] >= 17  # exact ones too
    assert any("exact copies count as near ones" in note for note in report.build["notes"])


def _text(number, size=120):
    words = np.random.default_rng(number).choice(WORDS, size).tolist()
    return f"Document {number}. " + " ".join(f"{word}{number * 7 % 91}" for word in words)


def _edited(text):
    words = text.split()
    return " ".join([*words[:40], "inserted", *words[40:-1], "changed"])


def _write(path, texts):
    lines = [json.dumps({"name": name, "text": text}) for name, text in texts.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _texts(source, out, **options):
    values = {"dedup": "near", "no_report": True, "workers": 1, "id_column": "name"} | options
    return preprocess(TextOptions(sources=(str(source),), out=str(out), **values))


@pytest.fixture
def corpora(tmp_path):
    """Documents of which each third is in eval.jsonl: equal but for case and spaces, or edited."""
    texts, others = {}, {}
    for number in range(60):
        text = _text(number)
        if number % 3:
            others[f"q{number}"] = text
        texts[f"{number}-{('own', 'same', 'edited')[number % 3]}"] = (
            text,
            text.upper().replace(" ", "  \n"),
            _edited(text),
        )[number % 3]
    return _write(tmp_path / "corpus.jsonl", texts), _write(tmp_path / "eval.jsonl", others)


def test_texts_of_a_file(corpora, tmp_path):
    corpus, other = corpora
    report = _texts(corpus, tmp_path / "set", against=str(other))
    assert report.manifest.ledger.reasons == {"in-other": 20, "near-other": 20}
    kinds = {"same": "in-other", "edited": "near-other"}
    for record_id, (kept_id, kind, dropped) in _pairs(tmp_path / "set").items():
        number, what = record_id.split("-")
        # The corpus is staged on its own, so its records have the ids that such a set has.
        assert kept_id == f"eval.jsonl:eval.jsonl/{number}" or kept_id.startswith("eval.jsonl:")
        assert (kind, dropped) == (kinds[what], True)
    exact = _texts(corpus, tmp_path / "exact", against=str(other), dedup="exact")
    assert exact.manifest.ledger.reasons == {"in-other": 20}
    off = _texts(corpus, tmp_path / "off", against=str(other), dedup="off")
    assert off.manifest.ledger.reasons == {"in-other": 20}


def test_report_keeps_the_records(corpora, tmp_path):
    corpus, other = corpora
    plain = _texts(corpus, tmp_path / "plain")
    report = _texts(corpus, tmp_path / "set", against=str(other), against_action="report")
    assert report.manifest.ledger == plain.manifest.ledger
    assert report.manifest.splits == plain.manifest.splits
    pairs = _pairs(tmp_path / "set")
    assert len(pairs) == 40 and not any(dropped for _, _, dropped in pairs.values())
    assert count_duplicates(tmp_path / "set", report.manifest).others == 40
    assert verify(tmp_path / "set")[1] == []


def test_several_sets_and_those_that_do_not_fit(corpora, tmp_path, samples):
    corpus, other = corpora
    _texts(other, tmp_path / "near")
    _texts(other, tmp_path / "exact", dedup="exact")
    _plant(samples, tmp_path, 4)
    _images(tmp_path / "corpus", tmp_path / "images")

    def against(*names, **options):
        names = [str(tmp_path / name) for name in names]
        return _texts(corpus, tmp_path / "set", against=",".join(names), **options)

    with pytest.raises(InputError, match=r"exact.*name the folder that it was built from"):
        against("near", "exact")
    with pytest.raises(InputError, match="has image records, and this job text records"):
        against("images")
    with pytest.raises(InputError, match=r"--against .*none"):
        against("none-such")
    with pytest.raises(UsageError, match="--against must be distinct names"):
        against("near", "near")
    report = against("exact", "near", dedup="exact", overwrite=True)
    assert report.manifest.ledger.reasons == {"in-other": 20}
    assert sum(note.endswith("copies are left out") for note in report.build["notes"]) == 2
    assert {kept.split(":")[0] for kept, _, _ in _pairs(tmp_path / "set").values()} == {"exact"}


def test_equal_ids_are_not_one_record(tmp_path):
    """Two folders with files of the same names, as most evaluation sets have."""
    corpus = _write(tmp_path / "corpus.jsonl", {str(n): _text(n) for n in range(8)})
    other = _write(tmp_path / "eval.jsonl", {str(n): _text(n + 100) for n in range(8)})
    _texts(other, tmp_path / "other")
    report = _texts(corpus, tmp_path / "set", against=str(tmp_path / "other"))
    assert report.manifest.ledger.kept == 8
    assert report.build["notes"] == ["no record is in other (8 records)"]


def test_repair_needs_no_other_set(corpora, tmp_path):
    corpus, other = corpora
    report = _texts(corpus, tmp_path / "set", against=str(other), num_shards=2)
    content = other.read_bytes()
    other.unlink()
    root = tmp_path / "set"
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    index = root / report.manifest.index_file("train")
    index.unlink()  # which a build beside the set writes again
    assert not repair(root).left
    assert {path: path.read_bytes() for path in files} == files
    pairs = root / "duplicates.parquet"
    pairs.write_bytes(pairs.read_bytes()[:-9])
    repaired = repair(root)  # these pairs were in no other file
    assert [one.file for one in repaired.left] == ["duplicates.parquet"]
    assert f"--against {other}" in repaired.reason
    other.write_bytes(content)
    assert not repair(root).left and pairs.read_bytes() == files[pairs]


def test_append_compares_with_the_same_sets(corpora, tmp_path, append_to):
    corpus, other = corpora
    _texts(corpus, tmp_path / "set", against=str(other), split="train=0.6,test=0.4")
    later = {"l1": _text(1).lower(), "l2": _edited(_text(4)), "l3": _text(500)}
    more = _write(tmp_path / "later.jsonl", later)
    options = {"kind": "text", "id_column": "name", "dedup": "near"}
    report = append_to(more, **options)
    assert report.own.ledger.kept == 1
    assert report.own.ledger.reasons == {"in-other": 1, "near-other": 1}
    assert verify(tmp_path / "set")[1] == []
    last = _write(tmp_path / "last.jsonl", {"m1": _text(7) + " and more", "m2": _text(501)})
    assert append_to(last, against="none", **options).own.ledger.filtered == 0
    assert load_build(tmp_path / "set" / "generations" / "0002")["options"]["against"] == "none"
    done = compact(tmp_path / "set", frozenset({"l1", "1-same", "3-own"}))
    reasons = done.manifest.ledger.reasons
    assert reasons == {"in-other": 19, "near-other": 21} and done.manifest.ledger.excluded == 3
    assert verify(tmp_path / "set")[1] == [] and "l1" not in _pairs(tmp_path / "set")


def _kill_at(tmp_path, commands, corpora, kills):
    """A build that is killed at some operations, also while the other corpus is staged."""
    corpus, other = map(str, corpora)
    job = ("preprocess", "text", corpus, "--id-column", "name", "--no-report", "--against", other)
    whole = commands.run(*job, "--out", str(tmp_path / "whole"), "--workers", "1")
    assert whole.code == 0, whole.output
    expected = load_manifest(tmp_path / "whole").root_hash
    staged_first = 0
    for at in np.linspace(5, whole.operations - 5, kills, dtype=int).tolist():
        out = tmp_path / f"killed-{at}"
        killed = commands.run(*job, "--out", str(out), "--workers", "1", kill_at=at)
        assert killed.code == KILLED
        staged_first += (out / ".shardmill" / "others").exists()
        done = commands.run(*job, "--out", str(out), "--workers", "1")
        assert done.code == 0, done.output
        assert load_manifest(out).root_hash == expected and not (out / ".shardmill").exists()
    assert staged_first


def test_a_killed_build_resumes(tmp_path, commands, corpora):
    _kill_at(tmp_path, commands, corpora, 3)


@pytest.mark.proof
def test_no_kill_costs_anything(tmp_path, commands, corpora):
    _kill_at(tmp_path, commands, corpora, 40)
