"""The shard set format: schema, codec, framing, names, index, manifest, storage. See FORMAT.md.

Everything else is built on this package, which needs neither TensorFlow nor Beam.
"""

from shard_format.damaged_records import Damage
from shard_format.errors import DamageError, InputError, ShardmillError, ShardSetError, UsageError
from shard_format.example import decode_example, encode_example, encode_features, finish_example
from shard_format.index import (
    LABELS_FIELD,
    IndexWriter,
    index_schema,
    label_column,
    open_index,
)
from shard_format.keys import id_hash, mix, shuffle_keys, split_positions
from shard_format.manifest import (
    Generation,
    Ledger,
    Manifest,
    ShardInfo,
    SplitInfo,
    load_build,
    load_manifest,
    manifest_with,
    parse_manifest,
)
from shard_format.schema import ENCODINGS, Feature, Schema
from shard_format.tfrecord import (
    FRAME_BYTES,
    Readable,
    frame,
    masked_crc,
    read_records,
    unframe,
    unframe_all,
    unframe_many,
)
from shard_format.verify import Scope, file_sha256, verify, verify_set

__all__ = [
    "ENCODINGS",
    "FRAME_BYTES",
    "LABELS_FIELD",
    "Damage",
    "DamageError",
    "Feature",
    "Generation",
    "IndexWriter",
    "InputError",
    "Ledger",
    "Manifest",
    "Readable",
    "Schema",
    "Scope",
    "ShardInfo",
    "ShardSetError",
    "ShardmillError",
    "SplitInfo",
    "UsageError",
    "decode_example",
    "encode_example",
    "encode_features",
    "file_sha256",
    "finish_example",
    "frame",
    "id_hash",
    "index_schema",
    "label_column",
    "load_build",
    "load_manifest",
    "manifest_with",
    "masked_crc",
    "mix",
    "open_index",
    "parse_manifest",
    "read_records",
    "shuffle_keys",
    "split_positions",
    "unframe",
    "unframe_all",
    "unframe_many",
    "verify",
    "verify_set",
]
