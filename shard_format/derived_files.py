"""The files of a set that follow from its manifest alone."""

from __future__ import annotations

from shard_format import naming
from shard_format.manifest import Manifest
from shard_format.tfds_metadata import dataset_info_text, features_text, label_files


def derived_files(manifest: Manifest) -> dict[str, bytes]:
    """The content of every such file that the manifest names, by name.

    An earlier version may have written other bytes; compare with the SHA-256 of the manifest.
    """
    texts = {
        naming.FEATURES: features_text(manifest.schema),
        naming.DATASET_INFO: dataset_info_text(
            manifest.name, manifest.schema, dict(manifest.splits)
        ),
        **label_files(manifest.schema),
    }
    return {name: text.encode() for name, text in texts.items() if name in manifest.files}
