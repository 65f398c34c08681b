"""The ten bottlenecks: what is wrong in each, and what the doctor must say."""

from __future__ import annotations

import dataclasses

_TINY = "--model benchmarks.doctor.models:tiny"


@dataclasses.dataclass(frozen=True)
class Case:
    """A training job with one thing wrong.

    Attributes:
        name: Of the case.
        seeded: What is wrong, in words.
        source: Corpus that the set is made of.
        preprocess: Options of `shardmill preprocess`.
        train: Options of `shardmill doctor`, and of the training.
        stage: What the doctor must name.
        remedies: One of these must be its first advice; none where there is nothing to be advised
            on the input.
        megabytes_per_second: To which reads from disk are limited; None for no limit.
        cores: To which the process is pinned; None for all.
    """

    name: str
    seeded: str
    source: str
    preprocess: str
    train: str
    stage: str
    remedies: tuple[str, ...]
    megabytes_per_second: int | None = None
    cores: str | None = None


CASES = (
    Case(
        "slow-storage",
        "a disk that the kernel limits to 8 MB/s, a page cache that forgets, no cache",
        "photographs",
        "--resize shorter:256",
        f"{_TINY} --image-size 224 --batch-size 64 --augment none --cache off",
        "storage",
        ("cache-memory",),
        megabytes_per_second=8,
    ),
    Case(
        "large-images",
        "JPEG of 1,600 pixels, seen at 64",
        "large",
        "--resize none",
        f"{_TINY} --image-size 64 --batch-size 32 --augment standard",
        "decode",
        ("smaller-pictures",),
    ),
    Case(
        "png",
        "photographs stored as PNG",
        "photographs",
        "--resize shorter:256 --encoding png",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard",
        "decode",
        ("jpeg", "decoded-cache"),
    ),
    Case(
        "heavy-augmentation",
        "RandAugment of every image, for a network that does almost nothing",
        "photographs",
        "--resize shorter:256",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard,rand_augment",
        "augment",
        ("lighter-augmentation",),
    ),
    Case(
        "small-batch",
        "a batch of 4 for a network of 17 million weights, all of which every step changes",
        "photographs",
        "--resize shorter:64",
        "--model benchmarks.doctor.models:wide --image-size 64 --batch-size 4 --augment none",
        "step",
        ("larger-batch",),
    ),
    Case(
        "heavy-model",
        "a network that takes all there is",
        "photographs",
        "--resize shorter:64",
        "--model resnet50 --image-size 64 --batch-size 64 --precision float32",
        "step",
        (),
    ),
    Case(
        "padding",
        "documents of all lengths in one batch",
        "texts",
        "--train-tokenizer bpe:4000",
        "--model text_transformer --max-tokens 512 --batch-size 16 --buckets 1 --augment none",
        "step",
        ("buckets",),
    ),
    Case(
        "decode",
        "WebP, decoded in every epoch though it would fit into memory as pixels",
        "photographs",
        "--resize shorter:256 --encoding webp",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard",
        "decode",
        ("decoded-cache",),
    ),
    Case(
        "one-core",
        "a process that is pinned to one of the cores",
        "photographs",
        "--resize shorter:256",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard",
        "cores",
        ("all-cores",),
        cores="0",
    ),
    Case(
        "precision",
        "number formats that this device has to emulate",
        "photographs",
        "--resize shorter:64",
        "--model small_cnn --image-size 64 --batch-size 64 --precision mixed_float16",
        "step",
        ("precision",),
    ),
)
