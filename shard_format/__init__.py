"""The shard set format: schema, codec, framing, names, index, manifest. See FORMAT.md.

All other packages but `foundation` are built on it. It needs neither TensorFlow nor Beam, and
importing it is cheap: pyarrow and numpy are loaded by the first use of a name that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from foundation.checksums import file_info as file_info
    from foundation.checksums import file_sha256 as file_sha256
    from foundation.errors import DamageError as DamageError
    from foundation.errors import InputError as InputError
    from foundation.errors import SetReplacedError as SetReplacedError
    from foundation.errors import ShardmillError as ShardmillError
    from foundation.errors import ShardSetError as ShardSetError
    from foundation.errors import UsageError as UsageError
    from shard_format.damaged_records import Damage as Damage
    from shard_format.example import decode_example as decode_example
    from shard_format.example import encode_example as encode_example
    from shard_format.example import encode_features as encode_features
    from shard_format.example import finish_example as finish_example
    from shard_format.example_columns import encode_columns as encode_columns
    from shard_format.example_columns import finish_columns as finish_columns
    from shard_format.index import LABELS_FIELD as LABELS_FIELD
    from shard_format.index import IndexWriter as IndexWriter
    from shard_format.index import index_schema as index_schema
    from shard_format.index import label_column as label_column
    from shard_format.index import open_index as open_index
    from shard_format.index_parts import open_split_index as open_split_index
    from shard_format.keys import id_hash as id_hash
    from shard_format.keys import mix as mix
    from shard_format.keys import shuffle_keys as shuffle_keys
    from shard_format.keys import split_positions as split_positions
    from shard_format.manifest import Generation as Generation
    from shard_format.manifest import Ledger as Ledger
    from shard_format.manifest import Manifest as Manifest
    from shard_format.manifest import ShardInfo as ShardInfo
    from shard_format.manifest import SplitInfo as SplitInfo
    from shard_format.manifest_file import has_records_of as has_records_of
    from shard_format.manifest_file import load_build as load_build
    from shard_format.manifest_file import load_manifest as load_manifest
    from shard_format.manifest_file import manifest_with as manifest_with
    from shard_format.manifest_file import parse_manifest as parse_manifest
    from shard_format.schema import ENCODINGS as ENCODINGS
    from shard_format.schema import Feature as Feature
    from shard_format.schema import Schema as Schema
    from shard_format.tfrecord import FRAME_BYTES as FRAME_BYTES
    from shard_format.tfrecord import Readable as Readable
    from shard_format.tfrecord import frame as frame
    from shard_format.tfrecord import frame_columns as frame_columns
    from shard_format.tfrecord import masked_crc as masked_crc
    from shard_format.tfrecord import read_records as read_records
    from shard_format.tfrecord import unframe as unframe
    from shard_format.tfrecord import unframe_all as unframe_all
    from shard_format.tfrecord import unframe_columns as unframe_columns
    from shard_format.tfrecord import whole_frames as whole_frames
    from shard_format.verification import Scope as Scope
    from shard_format.verification import verify as verify
    from shard_format.verification import verify_set as verify_set

# module -> the names that are imported from it when they are first used; see `lazy_names`.
_NAMES = {
    "foundation.checksums": "file_info file_sha256",
    "foundation.errors": (
        "DamageError InputError SetReplacedError ShardSetError ShardmillError UsageError"
    ),
    "shard_format.damaged_records": "Damage",
    "shard_format.example": "decode_example encode_example encode_features finish_example",
    "shard_format.example_columns": "encode_columns finish_columns",
    "shard_format.index": "IndexWriter LABELS_FIELD index_schema label_column open_index",
    "shard_format.index_parts": "open_split_index",
    "shard_format.keys": "id_hash mix shuffle_keys split_positions",
    "shard_format.manifest": "Generation Ledger Manifest ShardInfo SplitInfo",
    "shard_format.manifest_file": (
        "has_records_of load_build load_manifest manifest_with parse_manifest"
    ),
    "shard_format.schema": "ENCODINGS Feature Schema",
    "shard_format.tfrecord": (
        "FRAME_BYTES Readable frame frame_columns masked_crc read_records unframe unframe_all "
        "unframe_columns whole_frames"
    ),
    "shard_format.verification": "Scope verify verify_set",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # else type checkers would let any name pass
    __getattr__, __dir__ = _lazy_names(__name__, _HOMES)
