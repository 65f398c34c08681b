"""Run lengths of masks in COCO's text, which sets keep as `objects/segmentation`."""

from __future__ import annotations


def decode_run_lengths(text: bytes) -> list[int]:
    """The lengths of runs of 0 and 1 in turns, beginning with 0, down the columns of a mask.

    A number is in groups of 5 bits; from the fourth on, what is added to that before the last one
    (maskApi.c of pycocotools).

    Raises:
        ValueError: The text ends inside of a number.
    """
    numbers: list[int] = []
    value = shift = 0
    for letter in text:
        group = letter - 48
        value |= (group & 0x1F) << shift
        shift += 5
        if group & 0x20:
            continue
        if group & 0x10:
            value -= 1 << shift
        numbers.append(value + (numbers[-2] if len(numbers) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("run lengths that end inside of a number")
    return numbers
