"""Options are parsed, and files are opened, no more often than a job needs."""

import json
import os
import pickle
import sys
from collections import Counter

import pytest

from beam_jobs import TextOptions, preprocess
from beam_jobs.images.extractor import ImageExtractor
from beam_jobs.job_context import JobContext
from beam_jobs.options import OPTIONS
from beam_jobs.record_types.image import ImageRecords
from beam_jobs.record_types.text import TextRecords
from beam_jobs.text.extractor import TextExtractor
from beam_jobs.work import Work
from shard_format import file_sha256
from tests.fixtures.damage import make_corpus

MADE = {"image": (ImageRecords, ImageExtractor), "text": (TextRecords, TextExtractor)}
_opened: Counter[str] | None = None


def _count_opens(event, arguments):
    if _opened is not None and event == "open" and isinstance(arguments[0], str | bytes):
        _opened[os.fsdecode(arguments[0])] += 1


sys.addaudithook(_count_opens)  # it cannot be removed


@pytest.fixture
def opened(monkeypatch):
    counts = Counter()
    monkeypatch.setattr(f"{__name__}._opened", counts)
    return counts


@pytest.mark.parametrize("kind", MADE)
def test_a_job_parses_its_options_once_to_look_and_once_to_work(kind, tmp_path, monkeypatch):
    made = Counter()
    for one in MADE[kind]:

        def count(self, *arguments, name=one.__name__, real=one.__init__):
            made[name] += 1
            real(self, *arguments)

        monkeypatch.setattr(one, "__init__", count)
    corpus = make_corpus(kind, tmp_path / "corpus", 12)
    options = {"unit_size": "2KiB", "num_shards": 2, "no_report": True, "workers": 2}
    preprocess(OPTIONS[kind]((str(corpus),), str(tmp_path / "set"), **options))
    records, extractor = (one.__name__ for one in MADE[kind])
    assert made[records] == 2
    assert made[extractor] <= 3  # one more where the look finds what "--source auto" means


def test_a_small_file_is_opened_to_look_to_list_and_to_stage(opened, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    texts = ("A text of some English words, long enough.", "Another one about other things.")
    (corpus / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    opened.clear()
    preprocess(TextOptions((str(corpus),), str(tmp_path / "set"), no_report=True))
    # Twice to look: whether it is an archive, and what its first records are.
    assert opened[str(corpus / "a.jsonl")] == 4


def test_a_process_makes_one_context_of_a_run(tmp_path):
    options = TextOptions((str(tmp_path),), str(tmp_path / "set"), clean="none")
    context = JobContext.create(options)
    one, two = (pickle.loads(pickle.dumps(context)) for _ in range(2))
    assert one is two
    assert (one.options, one.run_id) == (options, context.run_id)
    assert one.record_type is not context.record_type
    other = pickle.loads(pickle.dumps(JobContext.create(options)))  # of another run
    assert other is not one


def test_every_step_compares_the_files_that_it_reads(tmp_path):
    context = JobContext.create(TextOptions((str(tmp_path),), str(tmp_path / "set")))
    place = tmp_path / "file"
    place.write_bytes(b"as it was written")
    sha256 = file_sha256(place)
    context.workspace.check_file(place, sha256)
    place.write_bytes(b"damaged")
    Work(context, launched=True).setup(lambda name, value: None)
    with pytest.raises(Exception, match="not as it was written"):
        context.workspace.check_file(place, sha256)
