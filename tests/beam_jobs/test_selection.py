"""Selection of records by columns: --where, --keep-best, --top, --sample-weight."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reader
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.like import options_like
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.quarantine import export, replay_options
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from beam_jobs.workspace import read_table
from shard_format import (
    InputError,
    UsageError,
    decode_example,
    load_build,
    load_manifest,
    naming,
    open_split_index,
    read_records,
    verify,
)
from shard_format.fingerprint_files import parts_at

LANGUAGES = ("en", "de", "")
ROWS = [
    {
        "id": f"r{number}",
        "text": f"Text number {number % 90} is not like the others at all",  # 90 with copies
        "label": f"c{number % 3}",
        "score": math.nan if number % 13 == 4 else number * 37 % 101 / 8,
        "lang": LANGUAGES[number % 5 % 3],
    }
    for number in range(240)
]


def write(folder: Path, rows: list[dict[str, Any]], name: str = "a") -> Path:
    folder.mkdir(exist_ok=True)
    for begin in range(0, len(rows), 20):  # several units
        table = pa.Table.from_pylist(rows[begin : begin + 20])
        pq.write_table(table, folder / f"{name}{begin}.parquet")
    return folder


def job(source: Path, out: Path, **values: Any) -> TextOptions:
    own: dict[str, Any] = {
        "keep_columns": "score:float32,lang", "id_column": "id", "clean": "none", "workers": 1,
        "split": "train=0.8,test=0.2", "num_shards": 2, "unit_size": "2KiB", "no_report": True,
    }  # fmt: skip
    return TextOptions((str(source),), str(out), **own | values)


def index_of(out: Path) -> pa.Table:
    """The rows of all splits."""
    manifest, damages = verify(out)
    assert not damages
    return pa.concat_tables([open_split_index(out, manifest, one) for one in manifest.splits])


def ids_of(out: Path) -> list[str]:
    return sorted(index_of(out)["record_id"].to_pylist())


def fits(row: dict[str, Any]) -> bool:
    return row["score"] >= 2.5 and row["lang"] == "en"  # NaN is in no comparison


WHERE = "score >= 2.5 and lang == 'en'"


def unique(rows: list[dict[str, Any]], *, best: bool) -> list[dict[str, Any]]:
    """One record of each text: the first by id, or the one with the highest score."""

    def order(row: dict[str, Any]) -> tuple[float, str]:
        score = -math.inf if math.isnan(row["score"]) else row["score"]
        return (-score if best else 0, row["id"])

    chosen: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=order):
        chosen.setdefault(row["text"], row)
    return list(chosen.values())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("rows") / "source", ROWS)


def test_a_condition_comes_before_duplicates_and_reuses_units(source: Path, tmp_path: Path) -> None:
    staging = str(tmp_path / "staging")
    preprocess(job(source, tmp_path / "all", staging=staging))
    out = tmp_path / "set"
    report = preprocess(job(source, out, staging=staging, where=WHERE))
    ledger = report.manifest.ledger
    selected = [row for row in ROWS if fits(row)]
    expected = unique(selected, best=False)
    assert ids_of(out) == sorted(row["id"] for row in expected)
    assert ledger.reasons == {"where": len(ROWS) - len(selected)} and ledger.quarantined == 0
    assert (ledger.read, ledger.kept) == (len(ROWS), len(expected))
    assert ledger.duplicates == len(selected) - len(expected) > 0
    assert ledger.filtered == len(ROWS) - len(selected)
    # A copy that fits has won where the one that sorts first does not fit.
    assert set(ids_of(out)) - set(ids_of(tmp_path / "all"))
    build = load_build(out)
    assert build["units"] == build["units_reused"] > 5


def test_the_best_duplicate_is_kept(source: Path, tmp_path: Path) -> None:
    for dedup in ("exact", "near"):
        out = tmp_path / dedup
        preprocess(job(source, out, keep_best="score", dedup=dedup, near_threshold=1.0))
        assert ids_of(out) == sorted(row["id"] for row in unique(ROWS, best=True))
    preprocess(job(source, tmp_path / "both", keep_best="score", where="score < 6"))
    low = [row for row in ROWS if row["score"] < 6]
    assert ids_of(tmp_path / "both") == sorted(row["id"] for row in unique(low, best=True))


@pytest.mark.parametrize(
    ("top", "per", "size"),
    [
        ("10%", None, lambda n: math.ceil(n / 10)),
        ("33.3%", "label", lambda n: math.ceil(n * 333 / 1000)),
        ("7", "label", lambda n: min(n, 7)),
        ("100%", None, lambda n: n),
        ("10000", None, lambda n: n),
    ],
)
def test_the_top(top: str, per: str | None, size: Any, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    options = {"top": top, "by": "score", "top_per": per, "dedup": "off"}
    manifest = preprocess(job(source, out, **options)).manifest
    rows = index_of(out).select(["record_id", "score"]).to_pylist()
    kept = {row["record_id"]: row["score"] for row in rows}
    left_out = 0
    for label in ("c0", "c1", "c2") if per else (None,):
        group = [row for row in ROWS if label in (None, row["label"])]
        scored = sorted(
            (row["score"] for row in group if not math.isnan(row["score"])), reverse=True
        )
        wanted = size(len(scored))
        own = sorted((kept[row["id"]] for row in group if row["id"] in kept), reverse=True)
        assert own == scored[:wanted]
        left_out += len(group) - wanted
    assert manifest.ledger.reasons == {"not-in-top": left_out}
    # Neither the seed nor the units decide between equal scores.
    other = job(source, tmp_path / "other", **options, seed=5)
    other = TextOptions(**{**vars(other), "unit_size": "64KiB"})
    preprocess(other)
    assert ids_of(tmp_path / "other") == sorted(kept)


def test_a_weight_in_record_and_index_that_the_reader_draws_by(
    source: Path, tmp_path: Path
) -> None:
    out, weight = tmp_path / "set", "score / 2 if lang == 'en' else 1"
    preprocess(job(source, out, sample_weight=weight, dedup="off"))
    manifest = load_manifest(out)
    by_id = {row["id"]: row for row in ROWS}
    for split, info in manifest.splits.items():
        index = open_split_index(out, manifest, split)
        files = [out / one.file for one in info.shards]
        records = [decode_example(one) for file in files for _, one in read_records(file)]
        for row, record in zip(index.to_pylist(), records, strict=True):
            original = by_id[row["record_id"]]
            score = 0 if math.isnan(original["score"]) else original["score"]
            expected = np.float32(score / 2) if original["lang"] == "en" else np.float32(1)
            assert row["sample_weight"] == record["sample_weight"][0] == expected
    stream = reader.load(out, batch_size=8, epochs=1, features=("id",), sample="sample_weight")
    weights = open_split_index(out, manifest, "train").select(["record_id", "sample_weight"])
    batches = (batch[0] if isinstance(batch, tuple) else batch for batch in stream)
    drawn = Counter(name.decode() for batch in batches for name in np.asarray(batch["id"]).tolist())
    shares = dict(zip(*(weights[name].to_pylist() for name in weights.column_names), strict=True))
    total = sum(shares.values())
    assert all(abs(drawn[name] - own / total * len(shares)) < 1.01 for name, own in shares.items())


def test_generations_of_a_selection(tmp_path: Path) -> None:
    """Appended, compacted and repaired: the records that do not fit are nowhere in the set."""
    options = {"where": WHERE, "keep_best": "score", "dedup": "near", "near_threshold": 1.0}
    out = tmp_path / "set"
    preprocess(job(write(tmp_path / "first", ROWS[:100]), out, sample_weight="score", **options))
    fitting = [row for row in ROWS[:100] if fits(row)]
    assert ids_of(out) == sorted(row["id"] for row in unique(fitting, best=True))
    stored = pa.concat_tables(map(read_table, parts_at(out / naming.STORED_RECORDS)))
    assert sorted(stored["record_id"].to_pylist()) == sorted(row["id"] for row in fitting)
    more = TextOptions(
        (str(write(tmp_path / "more", ROWS[100:])),), str(out), append=True, workers=1
    )
    with pytest.raises(UsageError, match=r"--where is lang == 'de' and score >= 2.5 and"):
        append(TextOptions(**{**vars(more), "where": "lang == 'de'"}), given={"where"})
    own = append(more, given=set()).own.ledger
    known = {row["text"] for row in fitting}
    new = [row for row in ROWS[100:] if fits(row) and row["text"] not in known]
    assert own.reasons == {"where": sum(not fits(row) for row in ROWS[100:])}
    assert own.kept == len(unique(new, best=True))
    expected = sorted(row["id"] for row in unique(fitting, best=True) + unique(new, best=True))
    assert ids_of(out) == expected
    compact(out)
    assert ids_of(out) == expected


def damage(path: Path) -> bytes:
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    return content


def test_repair_and_replay(source: Path, tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS if not math.isnan(row["score"])]
    rows[15] |= {"id": "wrong", "score": "no number", "lang": "en"}  # rejected
    out, corpus = tmp_path / "set", tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(map(json.dumps, rows)))
    options = {"where": WHERE, "keep_best": "score", "sample_weight": "score * 2 + 1"}
    options |= {"top": "90%", "by": "score", "top_per": "label"}
    preprocess(job(corpus, out, **options))
    before = load_manifest(out)
    for name in (before.splits["train"].shards[0].file, "index/train.arrow", naming.DUPLICATES):
        content = damage(out / name)
        assert repair(out).left == [] and (out / name).read_bytes() == content, name
    with pytest.raises(InputError, match=r"built with --top 90% and cannot be appended to"):
        append(TextOptions((str(source),), str(out), append=True, workers=1), given=set())
    like = options_like(out, TextOptions)
    assert {name: like[name] for name in options} == options
    # The rejected record is corrected.
    export(out, tmp_path / "refused")
    (exported,) = [
        one for one in (tmp_path / "refused").rglob("*") if one.parent.name == corpus.name
    ]
    exported.write_text(json.dumps(rows[15] | {"score": 12.4}))
    changes = {"out": str(out), "overwrite": True}
    manifest = preprocess(replay_options(out, tmp_path / "refused", (), changes)).manifest
    assert manifest.ledger.quarantined == 0 and manifest.root_hash != before.root_hash
    assert "wrong" in ids_of(out) and manifest.config["where"] == WHERE


def test_images_are_selected_by_what_their_index_has(samples: Path, tmp_path: Path) -> None:
    def built(name: str, **values: Any) -> list[dict[str, Any]]:
        own = {"resize": "shorter:32", "workers": 1, "no_report": True, "dedup": "off"}
        preprocess(ImageOptions((str(samples),), str(tmp_path / name), **own | values))
        return index_of(tmp_path / name).to_pylist()

    everything = built("all")
    sizes = sorted(row["source_bytes"] for row in everything)
    middle = sizes[len(sizes) // 2]
    expected = [row for row in everything if row["source_bytes"] < middle]
    some = built("some", where=f"source_bytes < {middle} and width * height > 0")
    assert sorted(row["record_id"] for row in some) == sorted(r["record_id"] for r in expected)
    assert 0 < len(some) < len(everything)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"where": "scores > 2"}, "--where 'scores > 2' names 'scores', which is no column of the"),
        ({"where": "lang > 2"}, r"does not fit the columns lang \(string\) of the records"),
        ({"where": "label == 3"}, r"does not fit the columns label \(string\)"),
        ({"where": "score >"}, "is no condition"),
        ({"where": " "}, "--where is empty. Leave it out"),
        ({"keep_best": ""}, "Unknown column of --keep-best ''"),
        ({"keep_best": "lang"}, "--keep-best 'lang' is a column of string, not of numbers"),
        ({"keep_best": "scor"}, "Unknown column of --keep-best 'scor'. Did you mean"),
        ({"keep_best": "score", "dedup": "off"}, "--keep-best needs duplicates to be searched"),
        ({"top": "0%", "by": "score"}, "--top is '0%'. Pass a number of records"),
        ({"top": "101%", "by": "score"}, "--top is '101%'"),
        ({"top": "ten", "by": "score"}, "--top is 'ten'"),
        ({"top": "10%"}, "--top says how many records to keep, and --by the column"),
        ({"by": "score"}, "Give both of them"),
        ({"top": "1", "by": "label"}, "--by 'label' is a column of string"),
        ({"top": "1", "by": "score", "top_per": "lang"}, "Choices: label"),
        ({"top": "1", "by": "score", "top_per": "label", "no_labels": True}, "--no-labels"),
        ({"sample_weight": "lang"}, "it gives values of type string"),
        ({"sample_weight": "score > 2"}, "it gives values of type bool"),
        (
            {"sample_weight": "score", "keep_columns": "score:float32,sample_weight:float32"},
            "sample_weight",
        ),
    ],
)
def test_what_is_refused_before_a_file_is_read(
    values: dict[str, Any], message: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        preprocess(job(source, tmp_path / "set", **values))
    assert not (tmp_path / "set").exists()


def test_values_that_are_no_weights(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'2 - score' is -\d.* for the record 'r\d+'. Weights"):
        preprocess(job(source, tmp_path / "set", sample_weight="2 - score"))


def test_a_condition_without_a_record(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"where: 240 records"):
        preprocess(job(source, tmp_path / "set", where="score > 1000"))


@pytest.mark.parametrize("dedup", ["exact", "near"])
def test_scores_conditions_other_sets_and_tops_together(tmp_path, dedup):
    source = write(tmp_path / "corpus", ROWS)
    evaluation = write(tmp_path / "evaluation", ROWS[10:40])
    known = {row["text"] for row in ROWS[10:40]}
    options = {
        "where": WHERE,
        "against": str(evaluation),
        "keep_best": "score",
        "top": "50%",
        "by": "score",
        "score": "words",
        "sample_weight": "score / num_words",
        "dedup": dedup,
        "near_threshold": 1.0,
    }
    report = preprocess(job(source, tmp_path / "set", **options))
    chosen = [row for row in ROWS if fits(row)]
    others = [row for row in chosen if row["text"] in known]
    left = unique([row for row in chosen if row["text"] not in known], best=True)
    ledger = report.manifest.ledger
    left_out = load_build(tmp_path / "set")["left_out"]
    texts = {row["id"]: row["text"] for row in ROWS}
    unfit = texts.keys() - {row["id"] for row in chosen}
    for reason, names in (("where", {"score", "lang"}), ("not-in-top", {"score"})):
        for example in left_out[reason]:
            assert example["text"] == texts[example["record_id"]]
            assert set(example["values"]) == names
            assert (example["record_id"] in unfit) == (reason == "where")
    # Each record has one reason, that of the first step that leaves it out.
    assert ledger.reasons["where"] == len(ROWS) - len(chosen)
    assert ledger.reasons["in-other"] == len(others)
    assert ledger.reasons["not-in-top"] == len(left) // 2
    assert ledger.duplicates == len(chosen) - len(others) - len(left)
    assert ledger.read == len(ROWS) == ledger.kept + ledger.duplicates + ledger.filtered
    top = sorted(left, key=lambda row: -row["score"])[: ledger.kept]
    assert min(row["score"] for row in top) == min(index_of(tmp_path / "set")["score"].to_pylist())
    weights = dict(
        zip(
            *(
                index_of(tmp_path / "set")[name].to_pylist()
                for name in ("record_id", "sample_weight")
            ),
            strict=True,
        )
    )
    for row in ROWS:
        if row["id"] in weights:
            assert weights[row["id"]] == np.float32(
                np.float32(row["score"]) / len(row["text"].split())
            )
