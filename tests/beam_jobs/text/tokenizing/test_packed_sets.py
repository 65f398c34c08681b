"""Packed sets: what stands in them is the corpus, once."""

from __future__ import annotations

import pytest

from beam_jobs.text.tokenizers import load_tokenizer
from shard_format import open_index, verify

LENGTH = 64
PACKINGS = pytest.mark.parametrize("packing", ["concat", "best-fit"])


@pytest.fixture
def build_packed(build_text, tokenizer_file):
    def run(out="set", **options):
        return build_text(out, **{"tokenizer": str(tokenizer_file), "pack": LENGTH} | options)

    return run


def segments_of(example):
    """(document, start, tokens) of every segment, and the padding at the end."""
    tokens, segments, positions = (example[n] for n in ("tokens", "segments", "positions"))
    assert len(tokens) == len(segments) == len(positions) == LENGTH
    filled = sum(number > 0 for number in segments)
    assert segments == sorted(segments[:filled]) + [0] * (LENGTH - filled)
    assert set(positions[filled:]) <= {0}
    pieces = []
    row = example["row"]
    named = zip(row["documents"], row["starts"], strict=True)
    for number, (document, start) in enumerate(named, start=1):
        places = [place for place, own in enumerate(segments) if own == number]
        assert [positions[place] for place in places] == list(range(len(places)))
        pieces.append((document, start, [tokens[place] for place in places]))
    assert sum(len(own) for *_, own in pieces) == filled
    assert row["record_id"] == f"{row['documents'][0]}#{row['starts'][0]}"
    return pieces, tokens[filled:]


@PACKINGS
def test_every_document_is_in_it_once(
    build_packed, build_text, examples, tokenizer_file, tmp_path, packing
):
    manifest = build_packed(packing=packing, num_shards=3)
    build_text("tokens", tokenizer=str(tokenizer_file))
    pad, end = (manifest.config["vocabulary"][name] for name in ("pad", "end"))
    pieces = []
    padding = 0
    ids = []
    for one in examples():
        own, rest = segments_of(one)
        assert set(rest) <= {pad}
        assert one["row"]["padding"] == len(rest)
        assert one["row"]["label"] is None
        assert one["id"][0].decode() == one["row"]["record_id"]
        ids.append(one["row"]["record_id"])
        padding += len(rest)
        pieces += own
    tokens_of: dict[str, list[int]] = {}
    for document, start, tokens in sorted(pieces):
        assert start == len(tokens_of.setdefault(document, []))
        tokens_of[document] += tokens
    expected = {one["id"][0].decode(): [*one["tokens"], end] for one in examples("tokens")}
    assert tokens_of == expected
    assert len(set(ids)) == len(ids)
    keys = open_index(tmp_path / "set" / "index" / "train.arrow")["key"].to_pylist()
    assert keys == sorted(keys)
    packed = manifest.splits["train"].statistics["packing"]
    assert packed["sequences"] == len(ids) == manifest.splits["train"].records
    assert packed["documents"] == len(expected)
    assert packed["tokens"] == sum(map(len, expected.values()))
    assert packed["padding"] == padding
    assert packed["padding_share"] == padding / (LENGTH * len(ids))
    assert packed["cut_share"] == packed["cut"] / len(expected)
    if packing == "concat":
        assert padding < 3 * LENGTH
    else:
        assert packed["cut"] == sum(len(own) > LENGTH for own in expected.values()) > 0


def test_documents_are_counted_as_they_are_in_other_sets(build_packed, build_text, tokenizer_file):
    packed = build_packed()
    tokens = build_text("tokens", tokenizer=str(tokenizer_file))
    assert packed.ledger == tokens.ledger
    for name in ("tokens", "vocabulary", "chars", "words", "source_bytes"):
        assert packed.splits["train"].statistics[name] == tokens.splits["train"].statistics[name]


def test_the_set_is_intact(build_packed, tmp_path):
    manifest = build_packed(num_shards=2)
    assert verify(tmp_path / "set") == (manifest, [])
    columns = open_index(tmp_path / "set" / "index" / "train.arrow").column_names
    assert columns[-3:] == ["documents", "starts", "padding"]
    assert "label" not in [one.name for one in manifest.schema.features]


def test_sequences_are_padded_with_the_end_where_nothing_else_is_known(
    build_packed, examples, tokenizer_file, tmp_path
):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(["<|endoftext|>"])
    plain.save(str(tmp_path / "plain.json"))
    build_packed(tokenizer=str(tmp_path / "plain.json"), packing="best-fit")
    rests = [set(segments_of(one)[1]) for one in examples()]
    assert set().union(*rests) == {256}


def test_the_end_token_can_be_named(build_packed, examples, tokenizer_file):
    build_packed(end_token="<s>")
    start = load_tokenizer(tokenizer_file).find("<s>")
    for one in examples():
        for document, _, tokens in segments_of(one)[0]:
            if document != one["row"]["documents"][-1]:
                assert tokens[-1] == start
