"""Sets in other formats, read by the library of each format: every record with all features."""

from __future__ import annotations

import json
import pickle
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

import reader
from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from shard_format import Feature, Manifest, load_manifest
from shard_format.tfrecord import read_records

pytestmark = pytest.mark.interop
PIECE_BYTES = 5_000  # some files for each split


def _values(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Features by their names in the schema."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _values(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split("/")
        inside = tree
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[last] = value
    return tree


def in_parquet(features: dict[str, Feature], values: dict[str, Any]) -> dict[str, Any]:
    def one(name: str, value: Any) -> Any:
        if name in features and features[name].kind == "image":
            several = [{"bytes": data, "path": None} for data in np.atleast_1d(value).tolist()]
            return several if features[name].dims else several[0]
        return _plain(value)

    return _nested({name: one(name, value) for name, value in values.items()})


def in_webdataset(features: dict[str, Feature], values: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    rest = {}
    for name, value in values.items():
        kind = features[name].kind if name in features else ""
        ending = {"image": "png", "bytes": "bin"}.get(kind)
        dotted = name.replace("/", ".")
        if ending and features[name].dims:
            record |= {f"{dotted}.{place}.{ending}": one for place, one in enumerate(value)}
        elif ending:
            record[f"{dotted}.{ending}"] = value
        elif name == "text":
            record["txt"] = value
        elif isinstance(value, np.ndarray) and "/" not in name:
            record[name] = _plain(value)
        else:
            rest[name] = _plain(value)
    label = features["label"].class_names[values["label"]]
    return record | _nested(rest) | {"label_name": label}


def in_columns(features: dict[str, Feature], values: dict[str, Any], mds: bool) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in values.items():
        feature = features.get(name, Feature(name, "int64"))
        if feature.ragged or (feature.kind == "text" and feature.dims):
            record[name] = json.dumps(_plain(value), ensure_ascii=False)
        elif feature.kind in ("image", "bytes") and feature.dims:
            record[name] = b"".join(value)
            lengths = np.array([len(one) for one in value], np.int64)
            record[f"{name}/lengths"] = lengths.tobytes() if mds else lengths.tolist()
        elif mds and isinstance(value, np.ndarray) and -1 in feature.shape:
            record[name] = value.tobytes()
            if feature.shape.count(-1) > 1:
                record[f"{name}/shape"] = list(value.shape)
        else:
            record[name] = _plain(value)
    return record | {"label_name": features["label"].class_names[values["label"]]}


def in_mds(features: dict[str, Feature], values: dict[str, Any]) -> dict[str, Any]:
    return in_columns(features, values, mds=True)


def in_litdata(features: dict[str, Feature], values: dict[str, Any]) -> dict[str, Any]:
    return in_columns(features, values, mds=False)


@pytest.mark.parametrize("form", [in_parquet, in_webdataset, in_mds, in_litdata])
def test_every_record_has_all_features(
    form: Callable[..., dict[str, Any]], any_set: Path, tmp_path: Path, repository: Path
) -> None:
    python = repository / ".peers" / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the peers: 'make peers'")
    name = form.__name__.removeprefix("in_")
    program = [python, "-m", "tests.interop.converted", name, any_set]
    out = tmp_path / "records.pickle"
    subprocess.run([*program, tmp_path / "out", out, str(PIECE_BYTES)], check=True, cwd=repository)
    converted = pickle.loads(out.read_bytes())
    manifest = load_manifest(any_set)
    features = {feature.name: feature for feature in manifest.schema.features}
    for split, info in manifest.splits.items():
        examples = [
            example for shard in info.shards for _, example in read_records(any_set / shard.file)
        ]
        records = list(reader.random_access(any_set, split, decode=False))
        assert len(converted[split]) == len(records) == len(examples)
        for record, example, result in zip(records, examples, converted[split], strict=True):
            values = dict(_values(record)) | {"record_crc32c": google_crc32c.value(example)}
            assert result == form(features, values)


@pytest.mark.parametrize(
    ("to", "label"),
    [
        ("webdataset", "label_name"),
        ("mds", "label_name"),
        ("array_record", "label"),
        ("parquet", "label"),
        ("litdata", "label_name"),
    ],
)
def test_a_set_comes_back(to: str, label: str, tmp_path: Path, repository: Path) -> None:
    python = repository / ".peers" / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the peers: 'make peers'")
    samples = str(repository / "samples" / "clothing")
    common: dict[str, Any] = {
        "no_report": True,
        "quality": "keep",
        "resize": "none",
        "dedup": "off",
    }
    preprocess(ImageOptions((samples,), str(tmp_path / "set"), split="train=1", **common))

    def back_from(directory: str, out: str) -> Manifest:
        program = [python, "-m", "tests.interop.converted", to, tmp_path / directory]
        files = [tmp_path / f"{directory}-{to}", tmp_path / "pickle", "1000000"]
        subprocess.run([*program, *files], check=True, cwd=repository)
        columns = {"label_column": label, "id_column": "id"}
        options = ImageOptions(
            (str(files[0]),), str(tmp_path / out), split="train=1", **columns, **common
        )
        done = preprocess(options).manifest
        assert done.ledger.read == done.ledger.kept
        return done

    first = back_from("set", "back")
    contents = []
    for directory in (tmp_path / "set", tmp_path / "back"):
        names = load_manifest(directory).schema["label"].class_names
        records = reader.random_access(directory, decode=False)
        contents.append(sorted((one["id"], one["image"], names[one["label"]]) for one in records))
    assert contents[0] == contents[1]
    assert back_from("back", "again").root_hash == first.root_hash
