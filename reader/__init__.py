"""A shard set as a tf.data.Dataset: shuffled by computation, decoded in parallel, cached.

    import reader

    stream = reader.load("data/clothing", batch_size=128, image_size=224, augment="standard")
    stream = reader.load("data/reviews", batch_size=64, max_tokens=256, buckets=8)
    model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=10)

Importing this package imports TensorFlow (seconds): import it where it is used.
"""

from reader.info import StreamInfo
from reader.measure import ReadRate, measure
from reader.mixing import Mixture, mix
from reader.normalization import Normalization
from reader.record_types import TokenInfo, kind_of
from reader.stream import Stream, load

__all__ = [
    "Mixture",
    "Normalization",
    "ReadRate",
    "Stream",
    "StreamInfo",
    "TokenInfo",
    "kind_of",
    "load",
    "measure",
    "mix",
]
