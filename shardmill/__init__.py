"""Everything that a program needs, under one name.

    import shardmill

    shardmill.preprocess(shardmill.ImageOptions(("photos",), "set", resize="shorter:256"))
    stream = shardmill.load("set", batch_size=32, image_size=224, augment="standard")
    shardmill.train(shardmill.TrainOptions(data="set", run_dir="run", model="small_cnn"))

The names are those of `beam_jobs`, `reader`, `trainer` and `shard_format`, which have more.
Importing this package is cheap: Beam and TensorFlow are loaded by the first use of what needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from beam_jobs import BuildReport as BuildReport
    from beam_jobs import BuildShardSet as BuildShardSet
    from beam_jobs import ImageOptions as ImageOptions
    from beam_jobs import RecordOptions as RecordOptions
    from beam_jobs import TextOptions as TextOptions
    from beam_jobs import append as append
    from beam_jobs import preprocess as preprocess
    from beam_jobs.dry_run import dry_run as dry_run
    from beam_jobs.generations.compact import compact as compact
    from beam_jobs.repair import repair as repair
    from foundation.errors import DamageError as DamageError
    from foundation.errors import InputError as InputError
    from foundation.errors import ShardmillError as ShardmillError
    from foundation.errors import ShardSetError as ShardSetError
    from foundation.errors import UsageError as UsageError
    from inference.evaluation.evaluating import evaluate as evaluate
    from inference.export import ExportOptions as ExportOptions
    from inference.export import export as export
    from reader import RandomAccess as RandomAccess
    from reader import Stream as Stream
    from reader import load as load
    from reader import mix as mix
    from reader import random_access as random_access
    from shard_format import Manifest as Manifest
    from shard_format import load_manifest as load_manifest
    from shard_format import verify as verify
    from trainer import TrainOptions as TrainOptions
    from trainer import TrainResult as TrainResult
    from trainer import train as train

# The names of each module, imported when they are first used; see `lazy_names`.
_NAMES = {
    "beam_jobs": (
        *(
            "BuildReport",
            "BuildShardSet",
            "ImageOptions",
            "RecordOptions",
            "TextOptions",
            "append",
            "preprocess",
        ),
    ),
    "beam_jobs.dry_run": ("dry_run",),
    "beam_jobs.generations.compact": ("compact",),
    "beam_jobs.repair": ("repair",),
    "foundation.errors": (
        *("DamageError", "InputError", "ShardSetError", "ShardmillError", "UsageError"),
    ),
    "reader": ("RandomAccess", "Stream", "load", "mix", "random_access"),
    "shard_format": ("Manifest", "load_manifest", "verify"),
    "trainer": ("TrainOptions", "TrainResult", "train"),
    "inference.evaluation.evaluating": ("evaluate",),
    "inference.export": ("ExportOptions", "export"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # else type checkers would let any name pass
    __getattr__, __dir__ = _lazy_names(__name__, _HOMES)
