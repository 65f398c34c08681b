"""The options of a job on images."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from typing_extensions import override

from beam_jobs.options.base import PreprocessOptions, run_option
from beam_jobs.options.formats import CONTAINERS, formats_of
from beam_jobs.options.scores import SCORES
from beam_jobs.options.urls import UrlOptions
from beam_jobs.options.values import FILE, parse_caption, parse_kept, parse_quality
from foundation import storage
from foundation.options import Limits, flag_of, option, redeclared
from shard_format import ENCODINGS, Feature, UsageError, file_sha256

# Members of beam_jobs.images.resize.FILTERS, which is loaded only by jobs.
RESIZE_FILTERS = ("area", "sharp", "bilinear", "bicubic", "lanczos")
# Members of beam_jobs.corpus.annotations.FORMATS, which is loaded only by jobs.
ANNOTATION_FORMATS = ("coco", "voc", "yolo", "csv", "open-images", "masks")
# How to read SRC: "image" files are in class folders, or in a table of labels.
_SOURCES = ("auto", "class-folders", "table", *CONTAINERS, *formats_of("image")[1:])


@dataclasses.dataclass(frozen=True)
class ImageOptions(UrlOptions):
    """Options of a job on images; see PreprocessOptions.

    Attributes:
        object_classes: Names of the classes of objects, which a look at --annotations settles.
    """

    COMMAND: ClassVar[str] = "images"
    ABOUT: ClassVar[str] = """\
Turn images in folders, archives or tables into a shard set.

SRC may be class folders (SRC/hat/1.jpg), any folder with --labels FILE, tar or zip archives
(also of WebDataset), Parquet, Arrow, TFRecord or IDX files. Pass several of one kind, or quoted
globs. With --url-column SRC are lists of URLs: Parquet, CSV, TSV, JSON Lines or text.

If the job is interrupted, run the same command again; it resumes. Arguments after -- go to
Apache Beam.

\b
Examples:
  shardmill preprocess images photos --out set
  shardmill preprocess images photos --labels labels.csv --label-column class --out set
  shardmill preprocess images 'shards/*.tar' --out set --dedup near --stratify
  shardmill preprocess images photos --out set --resize crop:224x224 --split train=0.8,test=0.2
  shardmill preprocess images urls.parquet --url-column url --no-labels --out set
  shardmill preprocess images photos --out set --dedup near --against evaluation-photos
  shardmill preprocess images photos --out set --num-shards 64 --workers 8
  shardmill preprocess images /data/photos --out /data/set -- --runner=FlinkRunner
"""

    record_type: str = "image"
    object_classes: tuple[str, ...] = ()
    name: str = redeclared(PreprocessOptions, "name", default="images")
    source: str = redeclared(PreprocessOptions, "source", choices=_SOURCES)
    image_column: str = option(
        "image", "Column or feature with the image (Parquet, Arrow, TFRecord).", "NAME", reading=0
    )
    label_column: str = redeclared(
        PreprocessOptions,
        "label_column",
        default="label",
        help="Column, feature or WebDataset JSON field with the label. A,B,... makes a label "
        "feature of each column; the first is the main label, which --stratify, --balance and "
        "--conflicts go by.",
    )
    keep_columns: str | None = redeclared(PreprocessOptions, "keep_columns", absent_as=None)
    score: str | None = run_option(
        None,
        "Compute a number or a label for each image, and keep it as a column of --keep-columns is: "
        "sharpness, brightness, contrast, entropy, colourfulness, aspect or measures for all of "
        "them; NAME=onnx:FILE by a model, NAME=python:MODULE:FUNCTION by a function.",
        form=SCORES,
        repeatable=True,
    )
    annotations: str | None = run_option(
        None,
        "Boxes, segmentations or masks of the images in SRC: a COCO file, a CSV table of boxes, or "
        "a folder of Pascal VOC, YOLO or mask files.",
        "PATH",
        form=FILE,
        excludes={
            "--labels": "has the labels of objects",
            "--label-pattern": "has the labels of objects",
        },
    )
    annotations_format: str = option(
        "auto",
        "How to read --annotations; auto detects it from the files.",
        choices=("auto", *ANNOTATION_FORMATS),
        absent_as="auto",
    )
    mask_column: str | None = option(
        None,
        "Column or feature with the mask of an image, a PNG of one channel, which is scaled as the "
        "image is and stored as segmentation_mask.",
        "NAME",
        reading=10,
        absent_as=None,
        excludes={"--annotations": "is a mask"},
    )
    min_visible: float = option(
        0.0,
        "With --annotations: drop objects of whose box a smaller part is left in the image.",
        "X",
        type=float,
        limits=Limits(0, 1),
        absent_as=0.0,
    )
    unannotated: str = option(
        "reject",
        "With --annotations: reject images that nothing annotates, or keep them as images without "
        "objects.",
        choices=("reject", "keep"),
        absent_as="reject",
    )
    caption_column: str | None = option(
        None,
        "Column or field with the caption of an image, which is cleaned and stored as caption; "
        "NAME[*] holds lists of captions, which stay together.",
        "NAME",
        check=lambda flag, value: parse_caption(value),
        absent_as=None,
        reading=8,
    )
    clean_captions: str = option(
        "nfc,controls,whitespace:blanks=true",
        "Cleaning steps and filters of captions, as --clean of documents: none, a recipe or steps, "
        "such as whitespace,length:min_words=3,language:only=en.",
        "STEP,...",
        absent_as="nfc,controls,whitespace:blanks=true",
    )
    tokenizer: str | None = option(
        None,
        "A tokenizer.json of Hugging Face tokenizers or a SentencePiece model: captions are also "
        "stored as token ids.",
        form=FILE,
        absent_as=None,
    )
    max_caption_tokens: int = option(
        77,  # the context of CLIP (Radford et al. 2021, section 2.4)
        "With --tokenizer: length to which the token ids of a caption are cut or filled up.",
        "N",
        type=int,
        limits=Limits(1, 1 << 20),
        absent_as=77,
    )
    near_by: str = option(
        "image",
        "With --dedup near: whether images are alike by their pixels, by their captions, or only "
        "if both are.",
        choices=("image", "caption", "both"),
        absent_as="image",
    )
    resize: str = option(
        "shorter:256",
        "shorter:N scales the shorter side to N; fit:WxH scales to fit the box; crop:WxH covers "
        "the box and crops the center; pad:WxH fits and pads with black; none keeps the size. "
        "Smaller images keep their own size.",
        "MODE",
    )
    enlarge: bool = option(
        False, "Scale smaller images up to what --resize asks for.", type=bool, absent_as=True
    )
    resize_filter: str = option(
        "sharp",
        "How images are scaled down. sharp is nearer to lanczos than area, and faster; bilinear, "
        "bicubic and lanczos are computed by Pillow.",
        choices=RESIZE_FILTERS,
        absent_as="area",
    )
    encoding: str = option("jpeg", "Encoding of the stored images.", choices=ENCODINGS)
    quality: str = option(
        "90",
        "JPEG or WebP quality of the stored images, 1 to 100; keep stores the original bytes of a "
        "JPEG that needs no change, and encodes all others with 90 (keep:N: with N).",
        "Q",
        check=lambda flag, value: parse_quality(value),
    )
    max_pixels: int = option(
        # Pillow's own threshold, Image.MAX_IMAGE_PIXELS: a quarter of a GiB at 3 bytes per pixel.
        89_478_485,
        "Reject images that declare more pixels, before they are decoded.",
        "N",
        type=int,
        limits=Limits(1, 178_956_970),  # Pillow itself rejects more than twice its threshold
    )
    lenient: bool = option(False, "Keep damaged images of which a part can be decoded.", type=bool)
    background: str = option("white", "Color behind transparent pixels: white or #rrggbb.", "COLOR")
    animated: str = option(
        "first",
        "Keep the first frame of an animated image, or refuse the image.",
        choices=("first", "refuse"),
    )
    min_side: int | None = option(
        None,
        "Filter out images with a side shorter than N pixels.",
        "N",
        type=int,
        limits=Limits(1, 10**6),
    )
    max_aspect: float | None = option(
        None,
        "Filter out images whose longer side is more than X times the shorter.",
        "X",
        type=float,
        limits=Limits(1, 10**6),
    )
    blank: float | None = option(
        None,
        "Filter out images whose luma has a standard deviation below X gray levels of 255 (2 finds "
        "blank pages).",
        "X",
        type=float,
        limits=Limits(0, 127.5, excluded=(0,)),
    )
    time_limit: float = option(
        60.0,
        "Reject an image that takes longer to decode.",
        "SECONDS",
        type=float,
        limits=Limits(0.1, 1e6),
    )
    dedup: str = redeclared(
        PreprocessOptions,
        "dedup",
        choices=("exact", "near", "off"),
        help="exact finds images with equal pixels; near also finds resized, recompressed and "
        "slightly cropped copies.",
    )

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if parse_quality(self.quality)[0] and self.encoding != "jpeg":
            self._refuse_pair("--quality keep", f"--encoding {self.encoding}", "needs jpeg")
        if self.labels is not None and self.source not in ("auto", "table"):
            self._refuse_pair("--labels", f"--source {self.source}", "needs a folder of images")
        for name, needed in (("tokenizer", "caption_column"), ("near_by", "caption_column")):
            if getattr(self, name) not in (None, "image") and getattr(self, needed) is None:
                raise UsageError(
                    f"{flag_of(name)} is for captions, and there is no {flag_of(needed)}. Add it."
                )
        kept = {feature.name for feature in parse_kept(self.keep_columns)}
        for use, column in self.consumed_columns.items():
            if column.name in kept:
                other = f"--{use}-column {column.name}"
                self._refuse_pair("--keep-columns", other, f"names {column.name!r} too")
        if self.annotations is not None and self.source not in ("auto", "table", *CONTAINERS):
            self._refuse_pair("--annotations", f"--source {self.source}", "needs files of images")
        if self.url_column is not None and self.source != "auto":
            self._refuse_pair("--url-column", f"--source {self.source}", "names lists of URLs")
        if self.url_column is not None and self.annotations is not None:
            self._refuse_pair("--url-column", "--annotations", "names lists of URLs")
        if self.source == "table" and self.table is None:
            raise UsageError("--source table has no table. Name it with --labels FILE.")

    @property
    def caption(self) -> tuple[str, bool]:
        """The column of the captions, and whether it holds several; "" without one."""
        return parse_caption(self.caption_column) if self.caption_column else ("", False)

    @property
    @override
    def consumed_columns(self) -> dict[str, Feature]:
        columns = super().consumed_columns
        if self.caption_column:
            caption, several = self.caption
            columns["caption"] = Feature(caption, "text", (-1,) if several else ())
        if self.mask_column is not None:
            columns["mask"] = Feature(self.mask_column, "image", (-1, -1, 1))
        return columns

    @property
    @override
    def table(self) -> str | None:
        return self.labels or self.annotations

    @override
    def config(self) -> dict[str, Any]:
        keeps, quality = parse_quality(self.quality)
        values = super().config() | {"quality": f"keep:{quality}" if keeps else quality}
        if self.tokenizer is not None:
            values["tokenizer"] = file_sha256(storage.place_of(self.tokenizer))
        if self.resize == "none":
            for name in ("enlarge", "resize_filter"):  # nothing is scaled
                values.pop(name, None)
        return values
