"""From what a user has to what a model takes, in TensorFlow operations: images, or texts.

The reader's own code is traced here, so a served model cannot read a record in another way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from inference.export.byte_level_bpe import ByteLevelBpe, byte_level_bpe
from inference.export.cleaning import cleaning_of
from inference.export.image_headers import check_pixels
from inference.export.source_images import source_images
from inference.export.trained_run import TrainedRun
from reader.graph.record_types.image import decoding_parser
from reader.record_types.features import TargetLabels, find_feature
from reader.record_types.further import FurtherFeatures
from reader.record_types.image import ImageParser, with_normalization
from reader.records.tokenizer import read_tokenizer
from reader.records.vocabulary import HUGGING_FACE, find_vocabulary
from reader.transforms.augmentation import Steps, find_transforms
from shard_format import Feature, ShardSetError

# [batch] string -> what the model takes
Prepare = Callable[[Any], Any]


def image_inputs(run: TrainedRun) -> dict[str, Prepare]:
    """Inputs by signature: image files as before preprocessing, and images as in records."""
    feature = find_feature(run.manifest.schema, "image")
    if feature is None:
        raise ShardSetError(f"No feature of kind image in {run.data}. Build the set again.")
    source = source_images(run.manifest.config, feature.encoding)
    size = int(run.options["image_size"])
    decode_stored = _decoder(run, feature, size)
    prepare: dict[str, Prepare] = {}
    decode_source = _decoder(run, dataclasses.replace(feature, encoding=source.stores), size)
    prepare["serving_default"] = lambda files: _each(
        lambda data: decode_source(source.stored(data)), files, size
    )
    if feature.encoding != "raw":  # raw pixels have no size of their own
        prepare["stored"] = lambda records: _each(
            lambda data: decode_stored(check_pixels(data, source.max_pixels)), records, size
        )
    return prepare


def _decoder(run: TrainedRun, image: Feature, size: int) -> Callable[[Any], Any]:
    """Scalar string -> [size, size, 3] float32, by the reader."""
    parser = ImageParser(
        features=(image,),
        image=image,
        labels=TargetLabels({}),
        further=FurtherFeatures(),
        steps=with_normalization(Steps(find_transforms("none")), run.normalization),
        image_size=size,
        stored_size=(None, None),
        dtype="uint8",
        normalization=run.normalization,
    )
    records = decoding_parser(parser)

    def decode(data: Any) -> Any:
        image = records.decode({"image": data}, tf.zeros([max(1, records.num_random)]))
        return tf.cast(image, tf.float32)

    return decode


def _each(function: Callable[[Any], Any], files: Any, size: int) -> Any:
    # One after the other: a batch takes no more memory than its largest image.
    spec = tf.TensorSpec([size, size, 3])
    return tf.map_fn(function, files, fn_output_signature=spec, parallel_iterations=1)


def text_inputs(run: TrainedRun) -> tuple[Prepare, Any] | str:
    """(from texts to padded token ids, what holds its tables), or why it cannot be in a graph."""
    name, content = read_tokenizer(run.tokenizer_folder)
    if name != HUGGING_FACE:
        return "it is a SentencePiece model, whose search TensorFlow has no operations for"
    tokenizer = byte_level_bpe(content)
    if not isinstance(tokenizer, ByteLevelBpe):
        return tokenizer
    padding = find_vocabulary(run.tokenizer_folder, run.manifest).padding
    most = int(run.options["max_tokens"])
    clean = cleaning_of(run.manifest.config)

    def prepare(texts: Any) -> Any:
        dense = tokenizer(clean(texts))[:, :most].to_tensor(padding)
        missing = tf.maximum(1 - tf.shape(dense)[1], 0)
        return tf.pad(dense, [[0, 0], [0, missing]], constant_values=padding)

    return prepare, tokenizer
