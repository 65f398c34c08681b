"""Replaces every document."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws


def toy(text: Any, draws: Draws) -> Any:
    return tf.fill(tf.shape(text), "a toy")
