"""Texts that are in no set are cleaned as those of a set, and none is left out."""

import inspect
import json

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.run import preprocess
from beam_jobs.text.cleaning import STEPS, make_steps
from beam_jobs.text.recleaning import TextCleaner
from inference.export.cleaning import FILTERS
from shard_format import ShardSetError, load_manifest

TEXTS = (
    "One  two\r\n\r\n\r\nthree\x07 four\u200b five, and a sixth word.",
    "mojibake: caf\u00c3\u00a9 and e\u0301, and again a few words",
    "someone@example.com wrote to 10.0.0.1 and to nobody else",
)


def config_of(recipe, **options):
    return {"clean": [one.described() for one in make_steps(recipe)], **options}


def test_a_text_becomes_what_the_set_has(tmp_path):
    rows = [{"text": text, "raw": text} for text in TEXTS]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    clean = "ftfy,nfc,controls,whitespace:blanks=true,length,mask-emails,mask-ips"
    options = TextOptions(
        (str(tmp_path / "rows.jsonl"),), str(tmp_path / "set"), clean=clean, split="train=1",
        keep_columns="raw", no_labels=True, workers=1, no_report=True,
    )  # fmt: skip
    preprocess(options)
    import reader

    stored = {
        row["raw"]: row["text"] for row in reader.random_access(tmp_path / "set", split="train")
    }
    cleaner = TextCleaner(load_manifest(tmp_path / "set").config)
    cleaned = cleaner([("", text) for text in TEXTS], are_files=False)
    assert [text for text, _ in cleaned] == [stored[text] for text in TEXTS]
    assert not any(rejection for _, rejection in cleaned) and not cleaner.notes


def test_only_files_of_html_are_pages():
    cleaner = TextCleaner(config_of("html,length:min_words=2"))
    page = "<!DOCTYPE html><html><body><p>a <b>card</b></body></html>"
    texts = [("page.html", "<p>a <b>card</b>"), ("-", page), ("notes.txt", "a <b>card</b>")]
    assert [text for text, _ in cleaner(texts, are_files=True)] == ["a card", "a card", texts[2][1]]
    assert [text for text, _ in cleaner(texts, are_files=False)] == [text for _, text in texts]


def test_no_step_leaves_a_text_out():
    cleaner = TextCleaner(config_of(",".join(STEPS)))
    texts = [("a.html", "<p></p>"), ("b", ""), ("c", "{ lorem ipsum }"), ("d", " \n")]
    cleaned = cleaner(texts, are_files=True)
    assert len(cleaned) == 4 and all(rejection for _, rejection in cleaned)
    (short,) = TextCleaner(config_of("length:min_words=3"))([("", "two words")], are_files=False)
    assert short == ("two words", "few-words: it has 2 words")


def test_what_cannot_be_done_is_named(tmp_path):
    (tmp_path / "bad.txt").write_text("darn")
    recipe = f"c4:bad_words={tmp_path / 'bad.txt'}:min_sentences=0:terminal_punctuation=false"
    config = config_of(recipe, dedup_parts="lines")
    config["clean"].append({"step": "contamination", "files": [{"file": "a"}], "words": 13})
    cleaner = TextCleaner(config)
    assert cleaner.notes == [
        "not checked: bad_words of c4, whose file is not in the set",
        "not checked: contamination, whose benchmark files are not in the set",
        "not done: --dedup-parts lines, which compares texts of a corpus",
    ]
    assert cleaner([("", "darn, some words here")], are_files=False)[0][1] == ""
    for step in ({"step": "magic"}, {"step": "nfc", "power": 9}):
        with pytest.raises(ShardSetError, match=r"this version does not know: .*Use the version"):
            TextCleaner({"clean": [step]})


@pytest.mark.parametrize("name", sorted(set(STEPS) & FILTERS))
def test_steps_that_exports_take_for_filters_change_no_text(name):
    source = inspect.getsource(inspect.getmodule(STEPS[name]))
    assert "texts.replace" not in source and "texts.mask" not in source
