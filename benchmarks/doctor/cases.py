"""The ten bottlenecks: the fault of each, and the required diagnosis."""

from __future__ import annotations

import dataclasses

_TINY = "--model benchmarks.doctor.models:tiny"


@dataclasses.dataclass(frozen=True)
class Case:
    """A training job with one fault.

    Attributes:
        name: The name of the case.
        seeded: The fault, in words.
        source: The corpus of the set.
        preprocess: Options of `shardmill preprocess`.
        train: Options of `shardmill doctor`, and of the training.
        stage: The stage that the doctor must name.
        remedies: One of these must be its first advice; empty if no advice on the input applies.
        megabytes_per_second: The limit of reads from disk; None for no limit.
        cores: The cores of the process; None for all.
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
        "a disk limited to 8 MB/s, evicted page cache, no cache",
        "photographs",
        "--resize shorter:256",
        f"{_TINY} --image-size 224 --batch-size 64 --augment none --cache off",
        "storage",
        ("cache-memory",),
        megabytes_per_second=8,
    ),
    Case(
        "large-images",
        "JPEG of 1,600 pixels, used at 64",
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
        "a batch of 4 for a network of 17 million weights, all updated in every step",
        "photographs",
        "--resize shorter:64",
        "--model benchmarks.doctor.models:wide --image-size 64 --batch-size 4 --augment none",
        "step",
        ("larger-batch",),
    ),
    Case(
        "heavy-model",
        "a network that uses all of the CPU",
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
        "WebP, decoded in every epoch although its pixels fit into memory",
        "photographs",
        "--resize shorter:256 --encoding webp",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard",
        "decode",
        ("decoded-cache",),
    ),
    Case(
        "one-core",
        "a process pinned to one core",
        "photographs",
        "--resize shorter:256",
        f"{_TINY} --image-size 224 --batch-size 32 --augment standard",
        "cores",
        ("all-cores",),
        cores="0",
    ),
    Case(
        "precision",
        "number formats that the device must emulate",
        "photographs",
        "--resize shorter:64",
        "--model small_cnn --image-size 64 --batch-size 64 --precision mixed_float16",
        "step",
        ("precision",),
    ),
)
