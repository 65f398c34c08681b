"""What a job on pictures can be told beside what every job can."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from beam_jobs.options.base import PreprocessOptions, option
from beam_jobs.options.values import check_range, parse_quality
from shard_format import ENCODINGS, UsageError

SOURCE_NAMES = (
    "auto",
    "class-folders",
    "table",
    "tar",
    "zip",
    "parquet",
    "arrow",
    "tfrecord",
    "idx",
)


@dataclasses.dataclass(frozen=True)
class ImageOptions(PreprocessOptions):
    """See PreprocessOptions."""

    ADDED: ClassVar[frozenset[str]] = PreprocessOptions.ADDED | {"keep_columns"}
    READING: ClassVar[tuple[str, ...]] = ("image_column", *PreprocessOptions.READING)

    record_type: str = "image"
    name: str = option("images", "First part of every shard's file name.", "NAME")
    source: str = option(
        "auto", "How to read SRC; auto looks at what lies there.", choices=SOURCE_NAMES
    )
    image_column: str = option(
        "image", "Column or feature with the picture (Parquet, Arrow, TFRecord).", "NAME"
    )
    label_column: str = option(
        "label", "Column, feature or WebDataset JSON field with the label.", "NAME"
    )
    no_labels: bool = option(
        False, "Records have no label; every picture found is taken.", type=bool
    )
    resize: str = option(
        "shorter:256",
        "shorter:N scales the shorter side to N; fit:WxH scales into a box; crop:WxH covers the "
        "box and cuts the centre; pad:WxH fits and fills with black; none keeps the size.",
        "MODE",
    )
    encoding: str = option("jpeg", "How pictures are stored.", choices=ENCODINGS)
    quality: str = option(
        "90",
        "JPEG or WebP quality of the stored pictures, 1 to 100; keep stores the original bytes of "
        "a JPEG that needs no change (any other gets 90; keep:N says which).",
        "Q",
    )
    max_pixels: int = option(
        # Pillow's own threshold, Image.MAX_IMAGE_PIXELS: a quarter of a GiB at 3 bytes per pixel.
        89_478_485,
        "Pictures that declare more pixels are refused before they are decoded.",
        "N",
        type=int,
    )
    lenient: bool = option(
        False, "Keep damaged pictures of which a part can be decoded.", type=bool
    )
    background: str = option(
        "white", "What lies behind transparent pixels: white or #rrggbb.", "COLOUR"
    )
    animated: str = option(
        "first",
        "Of an animated picture take the first frame, or refuse it.",
        "MODE",
        choices=("first", "refuse"),
    )
    min_side: int | None = option(
        None, "Filter out pictures with a side shorter than N pixels.", "N", type=int
    )
    max_aspect: float | None = option(
        None, "Filter out pictures whose longer side is over X times the shorter.", "X", type=float
    )
    blank: float | None = option(
        None,
        "Filter out pictures whose brightness has a standard deviation under X grey levels of 255 "
        "(2 finds blank pages).",
        "X",
        type=float,
    )
    time_limit: float = option(
        60.0, "Refuse a picture that takes longer to decode.", "SECONDS", type=float
    )
    dedup: str = option(
        "exact",
        "exact finds pictures with equal pixels; near also those that were resized, recompressed "
        "or slightly cropped.",
        choices=("exact", "near", "off"),
    )
    near_threshold: float = option(
        0.9,  # near.clusters.DEFAULT_THRESHOLD, which says where it comes from
        "With --dedup near: how alike two pictures must be, 0.5 to 1.",
        "X",
        type=float,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # Pillow itself refuses more than twice its threshold.
        check_range("--max-pixels", self.max_pixels, 1, 178_956_970)
        check_range("--time-limit", self.time_limit, 0.1, 1e6)
        self._check_optional("min_side", 1, 10**6)
        self._check_optional("max_aspect", 1, 10**6)
        self._check_optional("blank", 0, 128)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if parse_quality(self.quality)[0] and self.encoding != "jpeg":
            self._refuse_pair("--quality keep", f"--encoding {self.encoding}", "needs jpeg")
        if self.labels is not None and self.source not in ("auto", "table"):
            self._refuse_pair("--labels", f"--source {self.source}", "needs a folder of pictures")
        if self.source == "table" and self.labels is None:
            raise UsageError(
                "--source table must come with --labels FILE, got none. Name the table."
            )

    def config(self) -> dict[str, Any]:
        """See PreprocessOptions."""
        keeps, quality = parse_quality(self.quality)
        return super().config() | {"quality": f"keep:{quality}" if keeps else quality}
