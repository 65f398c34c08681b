"""What makes a stage of a training cheaper.

To add a remedy: a function that returns an `Advice` where it applies, and a line in `REMEDIES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from foundation.wording import format_bytes
from reader.cache.choosing import available_memory_bytes
from reader.profiling.stages import StageTimes
from shard_format import load_manifest, manifest_with, open_split_index
from trainer import precision
from trainer.defaults import BUCKETS
from trainer.diagnosis.costs import Costs
from trainer.diagnosis.measuring import Job

# The trainer needs memory too; more than "auto" takes, since here a person decides.
_MEMORY_SHARE = 0.5
# Crops of 224 from images of 256: the custom since Krizhevsky et al. (2012).
_MARGIN = 256 / 224
_MULTIPLE = 16  # sides are rounded up to whole blocks of a JPEG with halved colour
_LEAST_EXCESS = 1.25  # below it a new set gains next to nothing
_LEAST_PADDING = 0.15  # below it buckets gain next to nothing
_BATCH_FACTOR = 4
_LARGEST_BATCH = 1024  # beyond it a recipe for large batches is needed
_LAUNCH_BOUND = 0.5  # share of a step on a GPU that the CPU is busy launching it


@dataclasses.dataclass(frozen=True)
class Case:
    """A training whose costs are known.

    Attributes:
        job: The training.
        costs: Costs of an example.
        stages: Times of its stream.
    """

    job: Job
    costs: Costs
    stages: StageTimes

    @property
    def encoding(self) -> str:
        """Encoding of the images of the set; an empty string if it has none."""
        schema = load_manifest(self.job.options.data).schema
        return next((one.encoding for one in schema.features if one.kind == "image"), "")

    @property
    def image_sides(self) -> Any:
        """[2, num_records] int64: width and height of all images.

        None if the index has none, or is in parts: of so many records not all are looked at.
        """
        info = self.job.stream.info
        manifest = manifest_with(info.directory, info.root_hash) or load_manifest(info.directory)
        if manifest.splits[info.split].index:
            return None
        index = open_split_index(info.directory, manifest, info.split)
        if not {"width", "height"} <= set(index.column_names):
            return None
        columns = (index[name].to_numpy() for name in ("width", "height"))
        return np.stack([np.asarray(column, np.int64) for column in columns])


@dataclasses.dataclass(frozen=True)
class Advice:
    """A change that makes a stage cheaper.

    Attributes:
        because: Reason, as the end of a sentence: "images are stored at ...".
        options: Options of `shardmill train` to change: {"--cache": "memory"}.
        launcher: Command that starts `shardmill train`, or an empty string.
        new_set: Suffix of a set to build, or an empty string.
        preprocess: Options of `shardmill preprocess images` for that set.
        remaining: Share of the stage's time that remains at least.
        note: Cost or side effect of the change, or an empty string.
    """

    because: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    launcher: str = ""
    new_set: str = ""
    preprocess: str = ""
    remaining: float = 0.0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Remedy:
    """One way to make a training faster.

    Attributes:
        stages: Stages that it makes cheaper.
        advise: Returns the advice, or None if the remedy does not apply.
    """

    stages: tuple[str, ...]
    advise: Callable[[Case], Advice | None]


def _use_all_cores(case: Case) -> Advice | None:
    costs = case.costs
    return Advice(
        f"the process may use {costs.cores:g} of the {costs.machine_cores} cores of this machine",
        launcher=f"taskset --cpu-list 0-{costs.machine_cores - 1}",
        note="in a container, raise its limit of CPUs instead",
    )


def _cache_in_memory(case: Case) -> Advice | None:
    """Applies if files are read in every epoch and the split fits into memory."""
    stored_bytes = case.job.stream.info.stored_bytes
    if not case.stages.reads_files or stored_bytes > _MEMORY_SHARE * available_memory_bytes():
        return None
    storage = case.stages.storage
    delivered = storage.record_bytes / (case.costs.storage_seconds or storage.warm_seconds) / 1e6
    return Advice(
        f"files are read again in every epoch, at {delivered:,.1f} MB/s, though all of the split "
        f"({format_bytes(stored_bytes)}) fits into memory",
        {"--cache": "memory"},
        note="the first epoch starts when everything has been read once",
    )


def _cache_decoded(case: Case) -> Advice | None:
    """Applies to images that are decoded in every epoch and fit into memory as pixels."""
    if case.job.stream.info.cache_stage == "decoded" or case.encoding in ("", "raw"):
        return None
    sides = case.image_sides
    size = None if sides is None else int(3 * sides.prod(axis=0).sum())  # three channels
    if size is None or size > _MEMORY_SHARE * available_memory_bytes():
        return None
    return Advice(
        "images are decoded again in every epoch, though all of them fit into memory as pixels "
        f"({format_bytes(size)})",
        {"--cache": "memory", "--cache-stage": "decoded"},
        note="the first epoch starts when all of them have been decoded once",
    )


def _store_smaller_images(case: Case) -> Advice | None:
    """Applies if images are stored much larger than the model sees them."""
    size, encoding, sides = case.job.options.image_size, case.encoding, case.image_sides
    if size is None or sides is None or encoding not in ("jpeg", "png"):
        return None
    stored = int(np.median(sides.min(axis=0)))
    target = int(-(-size * _MARGIN // _MULTIPLE) * _MULTIPLE)
    if stored < _LEAST_EXCESS * target:
        return None
    encoded = "" if encoding == "jpeg" else f" --encoding {encoding}"
    return Advice(
        f"images are stored at {stored} pixels (shorter side) and seen at {size}",
        new_set=str(target),
        preprocess=f"--resize shorter:{target}{encoded}",
        remaining=(target / stored) ** 2,
        note="strong crops see less detail than in the large images",
    )


def _store_jpeg(case: Case) -> Advice | None:
    if case.encoding != "png":
        return None
    # The size at which they are stored now, from the same source; JPEG is the default.
    config = load_manifest(case.job.options.data).config
    resize = str(config.get("resize", "none"))
    enlarge = " --enlarge" if resize != "none" and config.get("enlarge", True) else ""
    return Advice(
        "images are stored as PNG, which takes long to decode",
        new_set="jpeg",
        preprocess=f"--resize {resize}{enlarge}",
        note="JPEG of quality 90 is not the same to the pixel",
    )


def _augment_less(case: Case) -> Advice | None:
    augment = case.job.options.augment
    if augment in ("none", "standard"):
        return None
    return Advice(
        f"the augmentation {augment!r} computes more than the standard one",
        {"--augment": "standard"},
        note="a model may learn less from lighter augmentation: compare validation",
    )


def _use_buckets(case: Case) -> Advice | None:
    """Applies to token ids in fewer buckets than by default, if much of a batch is padding."""
    tokens, buckets = case.job.stream.info.tokens, case.job.options.buckets
    if tokens is None or buckets is None or buckets >= BUCKETS:
        return None
    if tokens.padding_share < _LEAST_PADDING:
        return None
    return Advice(
        f"{tokens.padding_share:.0%} of what the model computes on is padding",
        {"--buckets": str(BUCKETS)},
        remaining=1 - tokens.padding_share,
    )


def _enlarge_batch(case: Case) -> Advice | None:
    """Applies if a GPU waits for the launches of its steps."""
    costs, batch_size = case.costs, case.job.options.batch_size
    larger = batch_size * _BATCH_FACTOR
    launch_bound = costs.step_cpu_seconds >= _LAUNCH_BOUND * costs.step_seconds
    if not costs.on_gpu or not launch_bound:
        return None
    if larger > min(_LARGEST_BATCH, case.job.stream.info.records):
        return None
    return Advice(
        f"launching a step takes as long for any batch, and batches of {batch_size} spread it over "
        "few examples",
        {"--batch-size": str(larger)},
        note="fewer, larger steps: raise --learning-rate with the batch, and compare validation",
    )


def _change_precision(case: Case) -> Advice | None:
    """Applies if the precision is not the one that is fast on this device."""
    fast = precision.resolve("auto", case.job.options.strategy)
    if fast == case.job.policy:
        return None
    return Advice(
        f"this device computes faster in {fast} than in {case.job.policy}",
        {"--precision": fast},
        note="" if fast == "float32" else "losses may differ in the third digit",
    )


# Of equal gains, the first is proposed first.
REMEDIES: dict[str, Remedy] = {
    "all-cores": Remedy(("cores",), _use_all_cores),
    "cache-memory": Remedy(("storage",), _cache_in_memory),
    "decoded-cache": Remedy(("decode", "storage"), _cache_decoded),
    "smaller-images": Remedy(("decode", "storage"), _store_smaller_images),
    "jpeg": Remedy(("decode",), _store_jpeg),
    "lighter-augmentation": Remedy(("augment",), _augment_less),
    "buckets": Remedy(("step",), _use_buckets),
    "larger-batch": Remedy(("step",), _enlarge_batch),
    "precision": Remedy(("step",), _change_precision),
}
