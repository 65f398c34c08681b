"""Bytes to text."""

from __future__ import annotations

from beam_jobs.refusal import Refusal


def decode(data: bytes, encoding: str) -> tuple[str, str]:
    """(text, encoding) of the bytes of a document.

    Args:
        data: The bytes.
        encoding: The value of --encoding.

    Raises:
        Refusal: They are no text in this encoding; says where the first bad byte is.
    """
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        detail = f"byte {data[error.start]:#04x} at offset {error.start} is no {encoding}"
        raise Refusal("bad-encoding", f"{detail}: {error.reason}") from None
