"""A shard set as a tf.data.Dataset: shuffled by computation, decoded in parallel, cached.

    import reader

    stream = reader.load("data/clothing", batch_size=128, image_size=224, augment="standard")
    model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=10)

Importing this package imports TensorFlow (seconds): import it where it is used.
"""

from reader.measure import ReadRate, measure
from reader.normalization import Normalization
from reader.stream import Stream, StreamInfo, load

__all__ = ["Normalization", "ReadRate", "Stream", "StreamInfo", "load", "measure"]
