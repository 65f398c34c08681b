"""mixup: every image, and its label, becomes a weighted mean of two."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between
from reader.transforms.mixing import beta_quantile, find_partners, mix_labels


@dataclasses.dataclass(frozen=True)
class Mixup:
    """A mean of each record and another one of its batch.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018, arXiv 1710.09412), section 2.
    Every record has a weight of its own; their code has one for each batch.

    Attributes:
        alpha: Of the beta distribution of the weight, in (0, 100]: the smaller, the more images
            stay nearly as they are. They take 0.2 to 0.4 on ImageNet, 1 on CIFAR.
        probability: That a record is mixed at all, in [0, 1].
    """

    alpha: float = 0.2
    probability: float = 1.0

    stage: ClassVar[str] = "batch"
    num_random: ClassVar[int] = 3  # weight, partner, whether

    def __post_init__(self) -> None:
        require_between(self, "alpha", 0.01, 100)
        require_between(self, "probability", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [batch, size, size, 3], "label": [batch, num_classes]} -> the same."""
        partners = find_partners(random[:, 1])
        share = beta_quantile(random[:, 0], self.alpha)
        share = tf.where(random[:, 2] < self.probability, share, 1.0)
        label = mix_labels(example, partners, share, "mixup")
        image = _mean(example["image"], partners, share)
        return {**example, "image": image, "label": label}


# Compiled: one pass over the batch takes a fifth of the time of the six that it is otherwise.
@tf.function(jit_compile=True, reduce_retracing=True)
def _mean(image: Any, partners: Any, share: Any) -> Any:
    """[batch, height, width, 3] of the type of the images; rounded where that is uint8."""
    own = share[:, None, None, None]
    mean = tf.cast(image, tf.float32) * own
    mean += tf.cast(tf.gather(image, partners), tf.float32) * (1 - own)
    return mean if image.dtype == tf.float32 else tf.cast(mean + 0.5, image.dtype)
