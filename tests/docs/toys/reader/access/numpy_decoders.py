from __future__ import annotations

from typing import Any

from reader.access.numpy_decoders import Pixels, decode_with_opencv


def decode_toy(data: bytes | memoryview, features: dict[str, Any]) -> Pixels:
    return decode_with_opencv(data, features)
