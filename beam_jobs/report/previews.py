"""Previews of records and of refused bytes: a thumbnail, or the beginning of a text.

Both are hostile input. No byte of an image reaches the page: it is decoded here, within bounds, and
encoded again. A text is cut here, and escaped by the templates.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, NewType

import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.decode.pillow import PILLOW_FORMATS
from beam_jobs.report.finished_set import FinishedSet, RecordLocation
from beam_jobs.text.tokenizers import load_tokenizer
from shard_format import Feature, naming
from shard_format.example import Values

THUMBNAIL_SIDE = 96  # pixels
_QUALITY = 70
# The set was built with --max-pixels; this only bounds what a damaged header may ask for.
_MOST_STORED_PIXELS = 1 << 28
# A refused file may be crafted to be slow. 16 megapixels of a progressive JPEG take a second.
_MOST_REFUSED_PIXELS = 16_000_000

_MOST_RECORD_BYTES = 16 << 20  # 16 MiB: a longer document gets no excerpt
_MOST_CHARACTERS = 500  # of a document that are ever shown
_MOST_TOKENS = 256  # that are decoded: about 1,000 characters
_UNREADABLE = 0.25  # share of odd characters, from which on bytes are shown in hex

_Decode = Callable[[Sequence[int]], str]


class Excerpt(NamedTuple):
    """The beginning of a document, and whether the document is longer."""

    text: str
    more: bool


DataUri = NewType("DataUri", str)  # a thumbnail that this module encoded
Preview = DataUri | Excerpt  # what the page can show
Seen = Pixels | Excerpt | None  # the same before thumbnails are encoded; None: nothing to show


def read_previews(
    finished: FinishedSet, locations: Iterable[RecordLocation]
) -> Iterator[tuple[RecordLocation, dict[str, Values], Seen]]:
    """Yields records by random access, each with its values and its preview.

    Raises:
        DamageError: A shard is missing or cut, or a record does not match its checksum.
    """
    if finished.holds_text:
        text_of = text_reader(finished)
        for location, values in finished.read(locations, _MOST_RECORD_BYTES):
            yield location, values, text_of(values)
    elif finished.image is not None:
        for location, values in finished.read(locations):
            try:
                yield location, values, small_image(values, finished.image)
            except Exception:  # Written by other software, perhaps in a format not read here.
                yield location, values, None


def as_preview(seen: Seen) -> Preview | None:
    """Returns the preview in the form of the page."""
    return encode_thumbnail(seen) if isinstance(seen, np.ndarray) else seen


def encode_thumbnail(pixels: Pixels) -> DataUri:
    """Pixels as a data: URI."""
    encoded = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels), quality=_QUALITY, colorspace="RGB", colorsubsampling="420"
    )
    return DataUri(f"data:image/jpeg;base64,{base64.b64encode(encoded).decode()}")


def small_image(
    values: Mapping[str, Values],
    feature: Feature,
    number: int = 0,
    side: int = THUMBNAIL_SIDE,
    most_pixels: int = _MOST_STORED_PIXELS,
) -> Pixels:
    """Returns an image of a record, scaled down into a square: [height, width, 3] RGB.

    Args:
        values: The decoded example.
        feature: The feature that holds the image.
        number: Which of its images, from 0.
        side: Side of the square in pixels.
        most_pixels: An image that declares more is not decoded.

    Raises:
        Exception: It cannot be decoded.
    """
    data = bytes(values[feature.name][number])  # type: ignore[arg-type]
    if feature.encoding != "raw":
        return _decode_with_pillow(data, most_pixels, side)
    size = int(values["height"][0]), int(values["width"][0])
    pixels = np.frombuffer(data, np.uint8).reshape(*size, 3)
    return _shrink(Image.fromarray(pixels), side)


def image_of_bytes(data: bytes | None, side: int = THUMBNAIL_SIDE) -> DataUri | None:
    """Returns a thumbnail of bytes that may be anything, or None if they cannot be decoded."""
    if not data:
        return None
    for decode in (_decode_with_pillow, _decode_damaged_jpeg):
        try:
            return encode_thumbnail(decode(data, _MOST_REFUSED_PIXELS, side))
        except Exception:  # A damaged file may raise anything inside the parsers.
            continue
    return None


def _decode_with_pillow(data: bytes, most_pixels: int, side: int) -> Pixels:
    """Returns the first frame as a thumbnail, transparency on white."""
    with Image.open(io.BytesIO(data), formats=PILLOW_FORMATS) as image:
        _check_size(*image.size, most_pixels)
        # A JPEG is decoded at a half, a quarter or an eighth: several times faster.
        image.draft("RGB", (2 * side, 2 * side))
        if not image.has_transparency_data:
            return _shrink(image.convert("RGB"), side)
        small = Image.fromarray(_shrink(image.convert("RGBA"), side))
        white = Image.new("RGBA", small.size, "white")
        return np.asarray(Image.alpha_composite(white, small).convert("RGB"))


def _decode_damaged_jpeg(data: bytes, most_pixels: int, side: int) -> Pixels:
    """Returns what libjpeg can still decode of a JPEG that is cut off or has wrong bytes."""
    height, width, _, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    _check_size(width, height, most_pixels)
    least = min(side, height, width)
    pixels = simplejpeg.decode_jpeg(data, "RGB", min_height=least, min_width=least, strict=False)
    return _shrink(Image.fromarray(pixels), side)


def _check_size(width: int, height: int, most_pixels: int) -> None:
    if width * height > most_pixels:
        raise ValueError(f"the image declares {width} x {height} pixels")


def _shrink(image: Image.Image, side: int) -> Pixels:
    """Returns a copy that fits into a square; a smaller image keeps its size."""
    copy = image.copy()
    copy.thumbnail((side, side), Image.Resampling.BOX)
    return np.asarray(copy)


def text_of_bytes(data: bytes) -> Excerpt | None:
    """Returns the beginning of bytes that may be anything; None if a person cannot read them.

    A byte that is not UTF-8 is shown as Python writes it in a literal.
    """
    begin = data[: 4 * _MOST_CHARACTERS]
    replaced = begin.decode("utf-8", "replace")
    odd = sum(char == "\ufffd" or not (char.isprintable() or char.isspace()) for char in replaced)
    if odd > _UNREADABLE * len(replaced):
        return None
    return _cut(begin.decode("utf-8", "backslashreplace"), len(data) > len(begin))


def text_of_document(data: bytes, most: int = _MOST_CHARACTERS) -> Excerpt:
    """Returns the beginning of a document as shards and duplicates.parquet store it."""
    begin = data[: 4 * most]
    return _cut(begin.decode("utf-8", "replace"), len(data) > len(begin), most)


def text_reader(
    finished: FinishedSet, most: int = _MOST_CHARACTERS
) -> Callable[[Mapping[str, Values]], Excerpt | None]:
    """Returns a function that gives the beginning of the text of a record, None if it has none.

    Args:
        finished: The set.
        most: Characters of the beginning.
    """
    features = {feature.name: feature for feature in finished.manifest.schema.features}
    if "text" in features and features["text"].kind == "text":
        return lambda values: _stored_text(values, most)
    if "tokens" not in features:
        return lambda values: None
    decode, most_ids = token_decoder(finished), max(_MOST_TOKENS, most // 2)

    def from_tokens(values: Mapping[str, Values]) -> Excerpt | None:
        ids = values.get("tokens")
        if ids is None:
            return None
        shown = [int(number) for number in ids[:most_ids]]
        try:
            text = decode(shown)
        except Exception:  # An id that the tokenizer does not have.
            text = _numbers(shown)
        return _cut(text, len(ids) > most_ids, most)

    return from_tokens


def _stored_text(values: Mapping[str, Values], most: int) -> Excerpt | None:
    stored = values.get("text")
    if not stored or not isinstance(stored[0], bytes):
        return None
    return text_of_document(stored[0], most)


def _cut(text: str, more: bool, most: int = _MOST_CHARACTERS) -> Excerpt:
    return Excerpt(text[:most], more or len(text) > most)


def token_decoder(finished: FinishedSet) -> _Decode:
    """Token ids to text by the tokenizer of the set; to numbers if it has none that loads."""
    for name in naming.TOKENIZERS.values():
        if name in finished.manifest.files:
            try:
                return load_tokenizer(finished.directory / name).decode
            except Exception:  # Whatever its parser raises; the numbers can be shown.
                break
    return _numbers


def _numbers(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))
