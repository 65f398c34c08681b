"""What went wrong once with documents, found by people who tried to break it."""

from __future__ import annotations

import json

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.quarantine import replay_options
from beam_jobs.run import run_preprocess
from cli.commands.quarantine import replay
from shard_format import UsageError

_SENTENCE = "The quick brown fox number {} jumps over the lazy dog and runs to the old barn."


def job(source, out, **options):
    values = {"workers": 1, "no_report": True} | options
    return run_preprocess(TextOptions((str(source),), str(out), **values))


@pytest.fixture
def lines(tmp_path):
    """Ten documents as JSON Lines."""
    path = tmp_path / "corpus.jsonl"
    rows = [{"text": _SENTENCE.format(number), "label": "ab"[number % 2]} for number in range(10)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_replay_takes_the_encoding_of_documents(tmp_path):
    """It took those of pictures alone, though a refusal says that --encoding auto may help."""
    context = replay.make_context("replay", [str(tmp_path), "--encoding", "auto"])
    assert context.params["encoding"] == "auto"


def test_a_replay_refuses_options_of_other_records(lines, tmp_path):
    """They were ignored, and the set was built again as it was."""
    job(lines, tmp_path / "set")
    with pytest.raises(UsageError, match="--lenient"):
        replay_options(tmp_path / "set", None, (), {"lenient": True})
