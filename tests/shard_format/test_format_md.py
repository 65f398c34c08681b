"""FORMAT.md is a promise to people who write their own reader: its bytes are checked."""

from __future__ import annotations

import re

from shard_format import decode_example, id_hash, shuffle_keys, unframe


def _text(repository):
    return (repository / "shard_format" / "FORMAT.md").read_text(encoding="utf-8")


def test_the_worked_record_is_a_record(repository):
    block = re.search(r"```hex\n(.*?)```", _text(repository), re.DOTALL)[1]
    pairs = [re.match(r"\s*((?:[0-9a-f]{2} ?)+)", line)[1] for line in block.splitlines()]
    data = bytes.fromhex("".join(pairs))
    assert len(data) == 54
    assert decode_example(unframe(data, "FORMAT.md")) == {"id": [b"a/1.jpg"], "label": [300]}


def test_the_worked_keys_are_right(repository):
    text = _text(repository)
    assert f"{id_hash('a/1.jpg'):#018x}" in text
    assert f"{int(shuffle_keys(id_hash('a/1.jpg'), 0)[0]):#018x}" in text
