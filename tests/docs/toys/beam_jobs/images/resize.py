from __future__ import annotations

from beam_jobs.images.resize import Resize


def toy(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return resize.width, min(width, height)
