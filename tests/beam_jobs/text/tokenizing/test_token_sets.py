"""Sets of token ids, from a corpus to the manifest."""

from __future__ import annotations

import json
import shutil

import pytest

from beam_jobs.text.tokenizers import load_tokenizer
from shard_format import file_sha256, load_manifest, verify


@pytest.mark.parametrize("kind", ["json", "model"])
def test_tokens_are_the_text(
    build_text, examples, tokenizer_file, sentence_piece_file, tmp_path, kind
):
    given = {"json": tokenizer_file, "model": sentence_piece_file}[kind]
    manifest = build_text("tokens", tokenizer=str(given))
    build_text("text")
    tokenizer = load_tokenizer(given)
    written = {one["id"][0]: one["text"][0].decode() for one in examples("text")}
    assert [one.name for one in manifest.schema.features] == ["id", "tokens", "label"]
    decoded = {}
    for one in examples("tokens"):
        decoded[one["id"][0]] = tokenizer.decode(one["tokens"])
        assert one["row"]["tokens"] == len(one["tokens"])
        assert one["row"]["record_id"] == one["id"][0].decode()
        assert one["row"]["label"] == one["label"][0]
    assert decoded == written
    name = f"tokenizer.{kind}"
    assert (tmp_path / "tokens" / name).read_bytes() == given.read_bytes()
    assert manifest.files[name]["sha256"] == manifest.config["tokenizer"] == file_sha256(given)
    assert verify(tmp_path / "tokens")[1] == []


def test_what_is_counted(build_text, examples, tokenizer_file):
    manifest = build_text(tokenizer=str(tokenizer_file), split="train=0.8,test=0.2")
    lengths, used = [], set()
    for one in examples():
        lengths.append(len(one["tokens"]))
        used |= set(one["tokens"])
    statistics = manifest.splits["train"].statistics
    size = manifest.config["vocabulary"]["size"]
    assert statistics["tokens"]["min"] == min(lengths)
    assert statistics["tokens"]["max"] == max(lengths)
    assert statistics["tokens"]["mean"] == sum(lengths) / len(lengths)
    assert sum(statistics["tokens"]["histogram"]["counts"]) == len(lengths)
    assert statistics["vocabulary"] == {
        "size": size,
        "used": len(used),
        "coverage": len(used) / size,
        "tokens": sum(lengths),
        "unknown": 0.0,
    }
    assert "tokens" not in manifest.splits["test"].statistics


def test_unknown_tokens_are_counted(build_text, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"the": 0, "?": 1, "a": 7}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    statistics = build_text(tokenizer=str(tmp_path / "words.json")).splits["train"].statistics
    assert statistics["vocabulary"]["size"] == 8  # ids have holes
    assert 0.5 < statistics["vocabulary"]["unknown"] < 1


def test_kept_columns_stay(build_text, examples, tmp_path, tokenizer_file):
    (tmp_path / "years").mkdir()
    rows = [{"text": f"document {n}", "year": 1900 + n, "label": "x"} for n in range(20)]
    (tmp_path / "years" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"tokenizer": str(tokenizer_file), "keep_columns": "year:int64"}
    manifest = build_text("set", tmp_path / "years", **options)
    assert [one.name for one in manifest.schema.features] == ["id", "tokens", "year", "label"]
    tokenizer = load_tokenizer(tokenizer_file)
    for one in examples():
        assert tokenizer.decode(one["tokens"]) == f"document {one['year'][0] - 1900}"


def test_truncation_and_padding_of_the_file_are_switched_off(
    build_text, examples, tokenizer_file, tmp_path
):
    from tokenizers import Tokenizer

    cutting = Tokenizer.from_file(str(tokenizer_file))
    cutting.enable_truncation(5)
    cutting.enable_padding(length=12)
    cutting.save(str(tmp_path / "cutting.json"))
    build_text("cut", tokenizer=str(tmp_path / "cutting.json"))
    build_text("whole", tokenizer=str(tokenizer_file))
    cut, whole = ([one["tokens"] for one in examples(name)] for name in ("cut", "whole"))
    assert cut == whole
    notes = " ".join(json.loads((tmp_path / "cut" / "build.json").read_text())["notes"])
    assert "truncation to 5 tokens" in notes
    assert "padding" in notes


def test_another_tokenizer_finds_the_staged_units(build_text, tokenizer_file, tmp_path):
    staging = str(tmp_path / "staging")
    plain = build_text("plain", staging=staging)
    tokens = build_text("tokens", staging=staging, tokenizer=str(tokenizer_file))
    build = json.loads((tmp_path / "tokens" / "build.json").read_text())
    assert build["units_reused"] == build["units"] > 0
    assert plain.root_hash != tokens.root_hash


def test_another_tokenizer_is_another_set(build_text, tokenizer_file, tmp_path):
    from shard_format import InputError

    other = tmp_path / "other.json"
    content = json.loads(tokenizer_file.read_text())
    content["model"]["merges"] = content["model"]["merges"][:-1]
    other.write_text(json.dumps(content))
    first = build_text("set", tokenizer=str(tokenizer_file))
    assert build_text("other", tokenizer=str(other)).root_hash != first.root_hash
    with pytest.raises(InputError, match=r"holds another set:\n  --tokenizer: .* then, .* now"):
        build_text("set", tokenizer=str(other))


def test_where_the_tokenizer_is_does_not_matter(build_text, tokenizer_file, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copy(tokenizer_file, moved)
    first = build_text("set", tokenizer=str(tokenizer_file))
    assert build_text("moved", tokenizer=str(moved)).root_hash == first.root_hash


def test_several_labels_are_kept(build_text, examples, tmp_path, tokenizer_file):
    (tmp_path / "labelled").mkdir()
    rows = [{"text": f"document {n}", "label": ["x", "y"][: n % 3]} for n in range(20)]
    (tmp_path / "labelled" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"tokenizer": str(tokenizer_file), "multi_label": True}
    build_text("set", tmp_path / "labelled", **options)
    for one in examples():
        assert one["row"]["labels"] == one["label"]
        assert one["row"]["tokens"] == len(one["tokens"])


def test_manifests_of_text_alone_name_no_tokenizer(build_text, tmp_path):
    build_text()
    manifest = load_manifest(tmp_path / "set")
    assert manifest.config["tokenizer"] is None
    assert "vocabulary" not in manifest.config
    assert not [name for name in manifest.files if name.startswith("tokenizer")]
