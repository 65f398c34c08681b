"""What a run keeps of its shard set, so that its model can be used after the set has changed.

    set-manifest.json                    the manifest of the set as it was trained on
    tokenizer.json or tokenizer.model    of a set of token ids

Records are not among it: whatever reads some needs the set.
"""

from __future__ import annotations

from pathlib import Path

from foundation.storage import Place
from reader.records.tokenizer import read_tokenizer
from reader.records.vocabulary import HUGGING_FACE, SENTENCE_PIECE
from shard_format import Manifest, ShardSetError, parse_manifest
from trainer.checkpointing.run_dir import write_file

SET_MANIFEST = "set-manifest.json"


def keep_set(directory: Path, data: Place, manifest: Manifest, *, has_tokens: bool) -> None:
    """Writes into a run directory what the run keeps of its set.

    Args:
        directory: The run directory.
        data: The set.
        manifest: The manifest of the generation that is trained on.
        has_tokens: Whether records are token ids.

    Raises:
        InputError: The directory cannot be written.
    """
    kept = ""
    if has_tokens:
        try:
            kept, content = read_tokenizer(data)
            write_file(directory / kept, content)
        except ShardSetError:  # token ids can be learnt from without it
            pass
    for name in {HUGGING_FACE, SENTENCE_PIECE} - {kept}:  # of another set, before a first epoch
        (directory / name).unlink(missing_ok=True)
    write_file(directory / SET_MANIFEST, manifest.to_text().encode())


def kept_manifest(directory: Path) -> Manifest | None:
    """The manifest that a run keeps; None for a run of an earlier version.

    Raises:
        DamageError: It is not as it was written.
    """
    path = directory / SET_MANIFEST
    try:
        return parse_manifest(path.read_bytes(), str(path), directory)
    except FileNotFoundError:
        return None
