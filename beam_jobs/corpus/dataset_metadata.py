"""Files that describe others in their folder: class names, manifests, and notes without records."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.source_io import path_of, place_of
from foundation import storage
from shard_format import InputError, Manifest, load_manifest, naming

# Of TFDS, Hugging Face, Spark and shardmill.
_NOTES = {
    name.encode()
    for name in (
        *(naming.FEATURES, naming.DATASET_INFO, naming.MANIFEST, naming.BUILD),
        *("croissant.json", "metadata.json", "_SUCCESS", "state.json"),
        *("dataset_infos.json", "dataset_dict.json"),
    )
}
# Of MosaicML Streaming, LitData and conversions, by how they begin.
_INDEXES = (b"index.json", b"conversion.json")
_INDEX = re.compile(
    rb'\{\s*("version":\s*\d+,\s*)?"(shards|chunks)":\s*\[|\{\s*"to":\s*"\w+",\s*"set":'
)
_INDEX_BYTES = 256
# README.md of a repository of the Hugging Face Hub: all of these have a .gitattributes.
_CARD = naming.CARD.encode()
_CARD_BEGIN, _CARD_NEIGHBOUR = b"---", b".gitattributes"
_LABELS_SUFFIX = naming.LABELS_SUFFIX.encode()
_DESCRIBED = (
    ".parquet",
    ".arrow",
    ".feather",
    "tfrecord",
    "array_record",
)  # in names of the files they describe


class FeatureNames(NamedTuple):
    """What a folder says about the features of its TFRecord files.

    Attributes:
        class_names: By label column; a number is an index into them.
        raw_images: Features of bare pixels, in a shard set of --encoding raw.
    """

    class_names: Mapping[str, tuple[str, ...]] = {}
    raw_images: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the class names, since units with other names differ; "" without names."""
        if not any(self.class_names.values()):
            return ""
        named = list(self.class_names.values())
        text = json.dumps(named if len(named) > 1 else named[0]).encode()
        return hashlib.blake2b(text, digest_size=6).hexdigest()


def is_note(path: bytes) -> bool:
    """Whether a file describes files of records in its folder, and holds no record itself."""
    # Most files are none, and a Path takes longer than the rest of their listing.
    name = path.rpartition(b"/")[2]
    if name in _INDEXES:
        try:
            return bool(_INDEX.match(storage.read_range(place_of(path), 0, _INDEX_BYTES)))
        except OSError:
            return False
    if name == _CARD:
        folder = path[: -len(name)]
        return is_note(folder + _INDEXES[1]) or _is_hub_card(folder)
    if name not in _NOTES and not name.endswith(_LABELS_SUFFIX):
        return False
    try:
        neighbours = [entry.name for entry in storage.list_folder(place_of(path).parent)]
    except OSError:
        return False
    return any(mark in other for other in neighbours for mark in _DESCRIBED)


def _is_hub_card(folder: bytes) -> bool:
    """Whether README.md in a folder is the page of a dataset; any other may be a document."""
    try:
        if storage.stat(place_of(folder + _CARD_NEIGHBOUR)) is None:
            return False
        return storage.read_range(place_of(folder + _CARD), 0, 3) == _CARD_BEGIN
    except OSError:
        return False


def set_files(root: storage.Place) -> set[bytes] | None:
    """The shards of the shard set in a folder; None if there is no set.

    Raises:
        ShardSetError: The set is of another format version.
        DamageError: Its manifest is damaged.
        InputError: A shard is missing.
    """
    manifest = _manifest(root)
    if manifest is None:
        return None
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    missing = [shard.file for shard in shards if storage.stat(root / shard.file) is None]
    if missing:
        raise InputError(
            f"The shard {missing[0]!r} is missing in the set {root}. Run 'shardmill verify' on it, "
            "and restore the shards that are missing."
        )
    return {path_of(root / shard.file) for shard in shards}


def feature_names(folder: bytes, label_columns: tuple[str, ...]) -> FeatureNames:
    """What a folder says about the features of its files.

    Args:
        folder: With TFRecord files.
        label_columns: The features whose class names are wanted.
    """
    root = place_of(folder)
    manifest = _manifest(root)
    if manifest is not None:
        features = manifest.schema.features
        raw = tuple(one.name for one in features if one.encoding == "raw")
        class_names = {one.name: one.class_names for one in features}
        return FeatureNames({name: class_names.get(name, ()) for name in label_columns}, raw)
    return FeatureNames(
        {name: _names_in(root / f"{name}{naming.LABELS_SUFFIX}") for name in label_columns}
    )


def _names_in(place: storage.Place) -> tuple[str, ...]:
    """The class names in a file; none if it cannot be read."""
    try:
        text = storage.read_bytes(place).decode()
    except (OSError, ValueError):
        return ()
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _manifest(root: storage.Place) -> Manifest | None:
    """The manifest of a shard set; None if another program's file has that name."""
    try:
        raw = json.loads(storage.read_bytes(root / naming.MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not {"format_version", "root_hash", "schema"} <= set(raw):
        return None
    return load_manifest(root)


def huggingface_classes(schema: pa.Schema, columns: Iterable[str]) -> dict[str, list[str]]:
    """The class names that Hugging Face datasets keep in the schema's metadata, by label column."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {column: _names_of(features[column]) for column in columns if column in features}
    except (KeyError, TypeError, ValueError):
        return {}


def _names_of(feature: Any) -> list[str]:
    feature = feature[0] if isinstance(feature, list) and feature else feature
    while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []
