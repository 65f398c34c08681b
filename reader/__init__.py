"""A shard set as a tf.data.Dataset: shuffled by computation, decoded in parallel, cached.

    import reader

    stream = reader.load("data/clothing", batch_size=128, image_size=224, augment="standard")
    stream = reader.load("data/reviews", batch_size=64, max_tokens=256, buckets=8)
    model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=10)

Those who train elsewhere have `stream.numpy()`, `stream.torch()`, and any record by its number:

    data = reader.random_access("data/clothing")
    data[0]["image"], len(data), data[10:20]

Importing this package is cheap. TensorFlow (seconds) is loaded by the first use of what needs it:
random access never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from reader.access.indexed_split import AccessInfo as AccessInfo
    from reader.access.random_access import RandomAccess as RandomAccess
    from reader.access.random_access import random_access as random_access
    from reader.annotation_export import AnnotationExport as AnnotationExport
    from reader.annotation_export import export_annotations as export_annotations
    from reader.conversion.job import Conversion as Conversion
    from reader.conversion.job import convert as convert
    from reader.index_export import IndexExport as IndexExport
    from reader.index_export import export_index as export_index
    from reader.loading import load as load
    from reader.mixing import Mixture as Mixture
    from reader.mixing import mix as mix
    from reader.options import kind_of as kind_of
    from reader.profiling.rate import ReadRate as ReadRate
    from reader.profiling.rate import measure as measure
    from reader.profiling.stages import StageTimes as StageTimes
    from reader.profiling.stages import measure_stages as measure_stages
    from reader.record_types import TokenInfo as TokenInfo
    from reader.stream import Stream as Stream
    from reader.stream import StreamInfo as StreamInfo
    from reader.transforms.normalization import Normalization as Normalization

# name -> the module it is imported from when it is first used; see `lazy_names`.
_HOMES = {
    "AccessInfo": "reader.access.indexed_split",
    "AnnotationExport": "reader.annotation_export",
    "Conversion": "reader.conversion.job",
    "IndexExport": "reader.index_export",
    "Mixture": "reader.mixing",
    "Normalization": "reader.transforms.normalization",
    "RandomAccess": "reader.access.random_access",
    "ReadRate": "reader.profiling.rate",
    "StageTimes": "reader.profiling.stages",
    "Stream": "reader.stream",
    "StreamInfo": "reader.stream",
    "TokenInfo": "reader.record_types",
    "convert": "reader.conversion.job",
    "export_annotations": "reader.annotation_export",
    "export_index": "reader.index_export",
    "kind_of": "reader.options",
    "load": "reader.loading",
    "measure": "reader.profiling.rate",
    "measure_stages": "reader.profiling.stages",
    "mix": "reader.mixing",
    "random_access": "reader.access.random_access",
}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # else type checkers would let any name pass
    __getattr__, __dir__ = _lazy_names(__name__, _HOMES)
