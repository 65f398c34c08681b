"""Batch normalization on several devices: whose examples its statistics are taken from.

By default Keras takes mean and variance of each device's part of a batch, so that the same batch
gives other losses on two devices than on one. Synchronized layers take those of the whole batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras

SYNCHRONIZED = "synchronized"
PER_DEVICE = "per device"


def statistics_of(model: Any, replicas: int) -> str | None:
    """Whose statistics normalize a batch: SYNCHRONIZED or PER_DEVICE.

    Returns:
        None where both are the same: with one device, or without batch normalization.
    """
    layers = _batch_norms(model)
    if replicas == 1 or not layers:
        return None
    return SYNCHRONIZED if all(layer.synchronized for layer in layers) else PER_DEVICE


def set_synchronized(model: Any, synchronized: bool) -> tuple[Any, ...]:
    """Sets `synchronized` of all layers of batch normalization, before the model is first trained.

    Returns:
        The layers that had the other value.
    """
    changed = tuple(
        layer for layer in _batch_norms(model) if layer.synchronized is not synchronized
    )
    for layer in changed:
        layer.synchronized = synchronized
    return changed


@contextlib.contextmanager
def as_built(changed: Sequence[Any]) -> Iterator[None]:
    """Undoes `set_synchronized` until the context is left, so that a model is saved as it was.

    Keras loads a synchronized layer on TensorFlow only.
    """
    for layer in changed:
        layer.synchronized = not layer.synchronized
    try:
        yield
    finally:
        for layer in changed:
            layer.synchronized = not layer.synchronized


def _batch_norms(model: Any) -> list[Any]:
    # Private, for `layers` leaves out those within a layer of the user's own. tests/trainer/
    # test_batch_norm.py looks for such a one.
    layers = model._flatten_layers()
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]
