"""A picture of orders: which class stands at which position, as an SVG written by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.shuffle_statistics import CLASSES, Order

_DOTS = 2_000  # in each panel
_WIDTH, _HEIGHT, _GAP, _TOP = 200, 200, 30, 40  # of a panel, pixels


def draw(panels: dict[str, Order]) -> str:
    """An SVG with a panel for each of these orders of classes."""
    width = len(panels) * (_WIDTH + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HEIGHT + 40}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img" '
        'aria-label="Class over position in an epoch">',
        f'<rect width="{width}" height="{_TOP + _HEIGHT + 40}" fill="#ffffff"/>',
    ]
    for number, (name, classes) in enumerate(panels.items()):
        left = _GAP + number * (_WIDTH + _GAP)
        parts += [
            f'<g transform="translate({left} {_TOP})">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#f7f9fc" stroke="#5b7db1"/>',
            f'<path d="{_dots(classes)}" stroke="#1c2733" stroke-width="1.2"/>',
            '<g text-anchor="middle">',
            f'<text x="{_WIDTH // 2}" y="-12" font-weight="bold">{name}</text>',
            f'<text x="{_WIDTH // 2}" y="{_HEIGHT + 20}">position</text>',
            f'<text transform="translate(-8 {_HEIGHT // 2}) rotate(-90)">class</text>',
            "</g></g>",
        ]
    return "\n".join([*parts, "</svg>\n"])


def _dots(classes: Order) -> str:
    """A path of dots: some positions, evenly spread, and their classes."""
    positions = np.linspace(0, len(classes) - 1, _DOTS).astype(np.int64)
    across = positions * _WIDTH // len(classes)
    up = _HEIGHT - 1 - classes[positions] * _HEIGHT // CLASSES
    return "".join(f"M{x} {y}h1.2" for x, y in zip(across, up, strict=True))
