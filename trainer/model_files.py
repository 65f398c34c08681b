"""Reading `.keras` files: the model, or what is wrong with the file."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shard_format import InputError

_CONFIG = "config.json"
_MAX_CONFIG_BYTES = 64 << 20  # 64 MiB; those of large models have some megabytes
_AGAIN = "Restore it from a copy, or train again."


def load_model(path: Path) -> Any:
    """The model in a `.keras` file, not compiled. Code that is in the file is not run.

    Raises:
        InputError: It cannot be loaded; the message says whether the file is cut, no such file,
            has code in it, or needs a module.
    """
    import keras

    try:
        return keras.models.load_model(path, compile=False)
    except Exception as error:  # Keras raises a dozen types
        lines = str(error).strip().splitlines() or ["no message"]
        said = f"{type(error).__name__}: {lines[0].rstrip('.')}"
        raise InputError(_what_is_wrong(path, said)) from error


def _what_is_wrong(path: Path, said: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(_CONFIG)
            if info.file_size > _MAX_CONFIG_BYTES:
                return (
                    f"{_CONFIG} in {path} unpacks to {info.file_size} bytes, more than "
                    f"{_MAX_CONFIG_BYTES}: it is no model. {_AGAIN}"
                )
            config = json.loads(archive.read(info))
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        return _no_archive(path, error)
    except KeyError:
        return f"{path} is a zip archive without {_CONFIG}, so no .keras file. {_AGAIN}"
    except (OSError, ValueError, RecursionError, RuntimeError, NotImplementedError) as error:
        return f"{_CONFIG} in {path} cannot be read: {error}. {_AGAIN}"
    if damaged is not None:
        return f"{damaged} in {path} does not match its checksum. {_AGAIN}"
    objects = list(_objects(config))
    if any(one.get("class_name") in ("Lambda", "__lambda__") for one in objects):
        return (
            f"{path} holds a Lambda layer, which is Python code in the file; it is not run. Write "
            "a layer in a module of your own in its place, and train again."
        )
    missing = sorted({one["module"] for one in objects if _is_missing(one.get("module"))})
    if missing:
        return (
            f"{path} needs the module {', '.join(missing)}, which cannot be imported. Put the "
            "directory with it on PYTHONPATH."
        )
    return (
        f"Keras cannot load {path}: {said}. If it has layers of your own, put the module that "
        "registers them on PYTHONPATH; otherwise restore it from a copy, or train again."
    )


def _no_archive(path: Path, error: zipfile.BadZipFile) -> str:
    with path.open("rb") as file:
        is_begun = file.read(4) == b"PK\x03\x04"
    if is_begun and not zipfile.is_zipfile(path):
        return f"{path} is cut: the end of the archive is missing. {_AGAIN}"
    if is_begun:
        return f"{path} is a damaged archive: {error}. {_AGAIN}"
    return f"{path} is no .keras file: it is no zip archive. {_AGAIN}"


def _objects(config: Any) -> Iterator[dict[str, Any]]:
    """The descriptions of layers and other objects, at any depth."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if isinstance(value.get("class_name"), str):
                yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _is_missing(module: object) -> bool:
    """Whether the package of a module is not there; it is looked for and not imported."""
    package = str(module).partition(".")[0]
    if not isinstance(module, str) or not package.isidentifier():
        return False
    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):  # a module without a specification, such as __main__
        return False
